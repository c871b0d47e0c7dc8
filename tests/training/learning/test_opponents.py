from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.export import export_onnx
from tau_trainer.metrics.games import Games
from tau_trainer.models import Policy
from tau_trainer.settings.signals import SelfPlaySettings
from tau_trainer.training.learning.opponents import NEWEST, Opponent, Opponents, Rating, rate
from tests.networks import make_network, policy_of
from tests.training.fakes import vector_spec

SPEC = vector_spec()
RECORDED = [
    # Against whom, the result, and the ratings after it of the policy and of its opponent: worked out with ML-Agents'
    # formula, expected = 10^(own/400) / (10^(own/400) + 10^(other/400)), from 1200. Before the sixth comes a snapshot.
    ("a", 1.0, 1200.5, 1199.5),
    ("a", 1.0, 1200.998560888, 1199.001439112),
    ("a", 0.5, 1200.995686831, 1199.004313169),
    ("a", 0.0, 1200.492821045, 1199.507178955),
    (NEWEST, 1.0, 1200.492821045, 1200.492821045),
    ("b", 1.0, 1200.992821045, 1199.992821045),
    ("b", 1.0, 1201.491381933, 1199.494260157),
    ("b", 0.5, 1201.488507876, 1199.497134214),
    ("a", 0.0, 1200.985656545, 1200.010030286),
    (NEWEST, 0.0, 1200.985656545, 1200.985656545),
    ("b", 1.0, 1201.483514402, 1198.999276357),
]


class Versions:
    """Policies of one network, a newer one each time."""

    def __init__(self) -> None:
        self.network = make_network(SPEC)
        self.version = 0

    def __call__(self) -> Policy:
        return policy_of(self.network, self.version)

    def make(self, weights: Any, version: int) -> Policy:
        policy = policy_of(self.network, version)
        np.testing.assert_equal(dict(policy.weights), dict(weights))
        return policy


def opponents(versions: Versions, **settings: Any) -> Opponents:
    return Opponents(SelfPlaySettings(**settings), 3, versions, SPEC)


def test_elo_of_recorded_games_is_ml_agents() -> None:
    current, known = Rating(1200.0), {"a": Rating(1200.0)}
    known[NEWEST] = current
    for number, (name, result, own, other) in enumerate(RECORDED):
        if number == 5:
            known["b"] = Rating(current.value)
        rate(current, [known[name]], result)
        assert (current.value, known[name].value) == pytest.approx((own, other), abs=1e-9)


def test_elo_of_very_different_policies_is_finite() -> None:
    strong, weak = Rating(1e6), Rating(-1e6)
    rate(strong, [weak], 0.0)
    assert (strong.value, weak.value) == (1e6 - 1, -1e6 + 1)


def test_against_several_teams_every_pair_is_rated_with_its_share() -> None:
    policy, others = Rating(1200.0), [Rating(1200.0), Rating(1600.0)]
    rate(policy, others, 1.0)
    changes = 0.5 * 0.5, 0.5 * (1.0 - 1.0 / 11.0)
    assert [other.value for other in others] == pytest.approx([1200.0 - changes[0], 1600.0 - changes[1]])
    assert policy.value == pytest.approx(1200.0 + sum(changes))


def test_a_full_window_loses_its_oldest_and_the_first_stays_known() -> None:
    versions = Versions()
    rivals = opponents(versions, window=3)
    for decisions in range(0, 50, 10):
        versions.version = decisions
        rivals.save(decisions)
    assert [snapshot.made for snapshot in rivals.kept] == [30, 40, 20]
    assert rivals.first is not None
    assert rivals.first.made == 0
    assert [rivals.known(key) for key in ("0", "1", "2", "4", NEWEST, "x")] == [True, False, True, True, True, False]


@pytest.mark.parametrize(("ratio", "newest"), [(0.0, 0), (1.0, 400), (0.25, 100)])
def test_the_newest_policy_is_drawn_as_often_as_is_asked_for(ratio: float, newest: int) -> None:
    versions = Versions()
    rivals = opponents(versions, play_against_latest_model_ratio=ratio, window=4)
    for decisions in range(4):
        rivals.save(decisions)
    drawn = []
    for _ in range(200):
        rivals.swap([0, 1])
        drawn += [rivals.current[0].key, rivals.current[1].key]
    assert drawn.count(NEWEST) == pytest.approx(newest, abs=40 if 0 < newest < 400 else 0)
    if ratio < 1.0:
        assert min(drawn.count(str(place)) for place in range(4)) > 400 * (1 - ratio) / 4 * 0.6, "all are as likely"


def test_the_newest_policy_is_the_one_of_the_draw() -> None:
    versions = Versions()
    rivals = opponents(versions, play_against_latest_model_ratio=1.0)
    rivals.save(0)
    rivals.swap([1])
    versions.version = 7
    assert rivals.current[1].policy.version == 0
    rivals.swap([1])
    assert rivals.current[1].policy.version == 7
    assert rivals.current[1].rating is rivals.rating


def test_all_of_it_survives_a_checkpoint() -> None:
    versions = Versions()
    rivals = opponents(versions, window=2, play_against_latest_model_ratio=0.3)
    for decisions in (0, 10, 20):
        versions.version = decisions
        rivals.save(decisions)
        for team in (0, 1):
            rivals.join(team)
        rivals.swap([1])
    rivals.score({("A", 1): rivals.kept[0], ("B", 1): Opponent(NEWEST, versions(), Rating(3.0))}, 1.0)
    rate(rivals.rating, [rivals.kept[0].rating], 1.0)
    rivals.clock.ghost_steps, rivals.clock.ended, rivals.clock.last_change = 77, 5, 12
    arrays, values = rivals.state()
    assert all(name.startswith("self_play.") for name in arrays)
    values = json.loads(json.dumps(values))
    restored = opponents(versions, window=2, play_against_latest_model_ratio=0.3)
    restored.load(arrays, values, versions.make)
    again, same = restored.state()
    assert same == values
    np.testing.assert_equal(again, arrays)
    for _ in range(20):
        rivals.swap([0, 1])
        restored.swap([0, 1])
        assert [some.key for some in restored.current.values()] == [some.key for some in rivals.current.values()]
    assert restored.acting[1].random() == rivals.acting[1].random()
    assert rivals.kept[1].games == Games("snapshot at 10", made=10)
    assert restored.table("A", {"A": restored}) == (Games("snapshot at 20", 1, made=20),), "the other played no game"


def test_results_are_told_of_whoever_can_still_be_met() -> None:
    versions = Versions()
    rivals, others = opponents(versions, window=1), opponents(versions)
    rivals.save(0)
    others.save(5)
    first = rivals.kept[0]
    rivals.score({("A", 1): first}, 0.0)
    rivals.save(10)
    rivals.score({("A", 1): rivals.kept[0]}, 0.5, 2)
    rivals.save(20)
    rivals.score({("B", 1): others.kept[0]}, 1.0)
    assert rivals.table("A", {"A": rivals, "B": others}) == (
        Games("snapshot at 0", lost=1, made=0),
        Games("snapshot at 5", won=1, made=5, behavior="B"),
    ), "the one of 10 was dropped"


def test_a_model_file_is_drawn_as_snapshots_are_and_plays(tmp_path: Path) -> None:
    versions = Versions()
    path = export_onnx(versions(), SPEC, tmp_path / "old.onnx")
    rivals = opponents(versions, opponents=[str(path)], play_against_latest_model_ratio=0.0)
    rivals.save(0)
    drawn = set()
    for _ in range(30):
        rivals.swap([1])
        drawn.add(rivals.current[1].games.opponent)
    assert drawn == {"snapshot at 0", "old.onnx"}
    obs = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    file, network = rivals.outside[0].policy, versions()
    theirs = network.act((obs,), None, np.random.default_rng(0), deterministic=True).to_env()
    ours = file.act((obs,), None, np.random.default_rng(0)).to_env()
    np.testing.assert_allclose(ours.continuous, theirs.continuous, atol=1e-6)


def test_a_model_file_of_another_behavior_is_refused(tmp_path: Path) -> None:
    path = export_onnx(policy_of(make_network(other := vector_spec(5)), 0), other, tmp_path / "other.onnx")
    with pytest.raises(SettingsError, match=r"self_play\.opponents of 'Agent': the model .*other\.onnx is not for beh"):
        opponents(Versions(), opponents=[str(path)])
    with pytest.raises(SettingsError, match=r"missing\.onnx cannot be read"):
        opponents(Versions(), opponents=[str(tmp_path / "missing.onnx")])
