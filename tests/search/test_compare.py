from __future__ import annotations

import json
from typing import Any

import pytest

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.ppo import PPO
from tau_trainer.errors import SettingsError, TauError
from tau_trainer.search import OPTIMIZERS, AgentFinder, OptFinder, TrialResult, state_of
from tau_trainer.search.compare import CandidateResult, ranked
from tau_trainer.search.trial import Trial
from tests.search.conftest import quick
from tests.search.test_trial import CARTPOLE


def rates(*values: float) -> dict[str, Any]:
    return {f"{value:g}": quick(learning_rate=value) for value in values}


def test_the_better_of_two_obviously_different_settings_is_found() -> None:
    found = AgentFinder(rates(1e-9, 3e-3)).find(decisions=1500, jobs=1)
    assert found.best == "0.003"
    assert [one.name for one in found.tried] == ["0.003", "1e-09"]
    assert [one.outcome.decisions for one in found.tried] == [1500, 1500]
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["best"] == "0.003"
    assert content["candidates"][0]["mean_reward"] == found.tried[0].outcome.mean("reward")
    assert content["candidates"][0]["ended"] == "finished"


def test_optimizers_begin_with_the_same_weights_and_an_empty_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: dict[str, dict[str, Any]] = {}
    run = Trial.run

    def looked_at(trial: Trial) -> TrialResult:
        def look(_: float) -> None:
            [learner] = trial._pairs.learners  # type: ignore[union-attr]
            parameters = learner.algorithm.parameters  # type: ignore[union-attr]
            begun.setdefault(parameters.optimizer.kind, {"decisions": trial._pairs.steps})  # type: ignore[union-attr]

        trial._on_update = look
        outcome = run(trial)
        return outcome

    monkeypatch.setattr(Trial, "run", looked_at)
    found = OptFinder(quick()).find(decisions=200, jobs=1)
    assert set(begun) == set(OPTIMIZERS) == {one.name for one in found.tried}
    assert len({one["decisions"] for one in begun.values()}) == 1
    first = [[reward for at, reward in one.outcome.rewards if at <= 130] for one in found.tried]
    assert first[0]
    assert all(rewards == first[0] for rewards in first), (
        "the same weights and seed act the same until the first update"
    )
    assert len({one.outcome.losses[0] for one in found.tried}) > 1, "and differ from then on"


def test_a_live_learner_is_where_all_begin_and_stays_as_it_is() -> None:
    algorithm = make_algorithm(Setup(CARTPOLE, quick().of_behavior("CartPole-v1"), seed=5))
    assert isinstance(algorithm, PPO)
    algorithm.parameters.optimizer.parameters.mul_(4.0)  # fresh weights choose each action about as often
    before = {name: array.tobytes() for name, array in algorithm.state()[0].items()}
    found = OptFinder(quick(), ["adam", "sgd"], begin=state_of(algorithm)).find(decisions=200)
    fresh = OptFinder(quick(), ["adam", "sgd"]).find(decisions=200, jobs=1)
    rewards = [{one.name: one.outcome.rewards for one in each.tried} for each in (found, fresh)]
    assert rewards[0]["adam"][0] == rewards[0]["sgd"][0]
    assert rewards[0]["adam"] != rewards[1]["adam"]
    assert {name: array.tobytes() for name, array in algorithm.state()[0].items()} == before


def test_a_candidate_that_fails_costs_itself() -> None:
    """In processes, which find what this one finds."""
    broken = quick(env_settings__env_args=["nonsense=1"])
    here, beside = (AgentFinder({"broken": broken, "whole": quick()}).find(decisions=500, jobs=jobs) for jobs in (1, 2))
    assert beside == here
    assert here.tried[0].outcome.losses
    for found in (here, beside):
        assert found.best == "whole"
        assert "nonsense" in str(found.tried[1].error)
        assert found.to_dict()["candidates"][1]["ended"] == "failed"
    with pytest.raises(TauError, match="nonsense"):
        AgentFinder({"a": broken, "b": broken}).find(decisions=200, jobs=1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_was_found_before_a_stop_is_kept(jobs: int) -> None:
    finder = AgentFinder(rates(1e-9, 1e-3, 1e-4))
    heard: set[tuple[str, int]] = set()

    def told(name: str, seen: TrialResult, most: int) -> None:
        heard.add((name, most))
        if seen.losses:
            finder.stop()

    found = finder.find(decisions=10**7, jobs=jobs, on_progress=told)
    assert len(found.tried) == jobs
    assert all(one.outcome.ending == "stopped" for one in found.tried)
    assert found.best is not None
    assert heard
    assert heard <= {(one.name, 10**7) for one in found.tried}


def test_ranks() -> None:
    def tried(name: str, *rewards: float, ending: Any = "finished", error: str | None = None) -> CandidateResult:
        points = [(10 * i, reward) for i, reward in enumerate(rewards, 1)]
        return CandidateResult(
            name, TrialResult(points, [(at, -reward) for at, reward in points], 10 * len(rewards), ending), error
        )

    good, bad = tried("good", 1.0, 5.0), tried("bad", 2.0, 2.0)
    rises = tried("rises", 1.0, 9.0, 9.0, ending="stopped")
    short = tried("short", 2.0, ending="stopped")
    nothing, failed = tried("nothing"), tried("failed", 9.0, error="it broke")
    diverged = tried("diverged", 9.0, ending="diverged")
    for metric in ("reward", "loss"):
        found = ranked([bad, failed, rises, nothing, diverged, short, good], metric)
        names = [one.name for one in found]
        assert names[:4] == ["good", "bad", "short", "rises"], "of what was stopped the first ten decisions count"
        assert set(names[4:]) == {"failed", "nothing", "diverged"}


def test_what_makes_no_comparison() -> None:
    with pytest.raises(SettingsError, match="at least two candidates"):
        AgentFinder({"one": quick()})
    with pytest.raises(SettingsError, match="lion: unknown optimizer; known: adam"):
        OptFinder(quick(), ["adam", "lion"])
    for wrong in ({"decisions": 0}, {"jobs": 0}):
        with pytest.raises(SettingsError, match="at least 1 decision and 1 job"):
            OptFinder(quick()).find(**wrong)  # type: ignore[arg-type]
