"""The table of what a way of gathering experience cannot do: each blank's sentence, and the page that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tau_trainer import plugins
from tau_trainer.errors import SettingsError
from tau_trainer.settings import RunSettings, load_settings, trainer_type
from tau_trainer.settings.gathering import KEYS, TABLE, Row, Way, blanks, check_trainable
from tau_trainer.settings.problems import key_path

RECORDED = ("bc", "iql", "awac")
PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
EACH: dict[str, tuple[Way, str, dict[str, Any]]] = {
    "network_settings.memory": (Way.TENSORS, "sac", {"network_settings": {"memory": {}}}),
    "reward_signals.rnd": (Way.RANKS, "ppo", {"reward_signals": {"extrinsic": {}, "rnd": {}}}),
    "reward_signals.curiosity": (Way.TENSORS, "sac", {"reward_signals": {"extrinsic": {}, "curiosity": {}}}),
    "reward_signals": (Way.TENSORS, "ppo", {"reward_signals": {"rnd": {}}}),
    "behavioral_cloning": (Way.SERVER, "ppo", {"behavioral_cloning": {"demo_path": "x"}}),
    "self_play": (Way.PAIRS, "ppo", {"self_play": {}}),
    "time_horizon": (Way.TENSORS, "ppo", {"time_horizon": 9}),
    "save_param_only": (Way.TENSORS, "ppo", {"save_param_only": True}),
    "threaded": (Way.TENSORS, "ppo", {"threaded": True}),
    "hyperparameters.shrink_at": (Way.SERVER, "ppo", {"hyperparameters": {"shrink_at": 0.7}}),
    "hyperparameters.target_kl": (Way.POPULATION, "ppo", {"hyperparameters": {"target_kl": 0.1}}),
    "hyperparameters.layer_statistics": (Way.POPULATION, "ppo", {"hyperparameters": {"layer_statistics": True}}),
    "hyperparameters.optimizer": (Way.POPULATION, "ppo", {"hyperparameters": {"optimizer": "nadam"}}),
    "hyperparameters.updates_per_buffer": (Way.TENSORS, "ppo", {"hyperparameters": {"updates_per_buffer": 2}}),
    "hyperparameters.prioritized": (Way.TENSORS, "dqn", {"hyperparameters": {"prioritized": {}}}),
    "hyperparameters.hindsight": (Way.TENSORS, "dqn", {"hyperparameters": {"hindsight": {}}}),
    "hyperparameters.n_step": (Way.TENSORS, "dqn", {"hyperparameters": {"n_step": 3}}),
    "hyperparameters.noisy": (Way.DEVICES, "dqn", {"hyperparameters": {"noisy": True}}),
    "hyperparameters.exploration.type": (
        Way.TENSORS,
        "dqn",
        {"hyperparameters": {"exploration": {"type": "boltzmann_gumbel"}}},
    ),
    "hyperparameters.steps_per_update": (Way.TENSORS, "dqn", {"hyperparameters": {"steps_per_update": "auto"}}),
    "agents": (Way.ENGINES, "ppo", {"agents": ["a"]}),
    "to_train": (Way.ACTORS, "ppo", {"to_train": False}),
}
"""Of every row: what a behavior writes, and a way that lacks it."""


SENTENCES = list(
    dict.fromkeys(row.blanks[way] for rows in (TABLE, KEYS) for row in rows for way in Way if way in row.blanks)
)


def cell(row: Row[Any], way: Way) -> str:
    said = row.reason(way)
    return f"[{SENTENCES.index(said) + 1}]" if said else "yes"


def lines(rows: Sequence[Row[Any]]) -> Iterator[str]:
    """A table whose blanks have the numbers of what is said."""
    yield f"| | {' | '.join(Way)} |"
    yield f"| --- |{' --- |' * len(Way)}"
    for row in rows:
        yield f"| {row.name} | {' | '.join(cell(row, way) for way in Way)} |"


def page() -> str:
    said = [f"{number}. `{text.replace('`', '')}`" for number, text in enumerate(SENTENCES, 1)]
    return "\n".join(["<!-- table -->", "", *lines(TABLE), "", *lines(KEYS), "", *said, "", "<!-- end of table -->"])


def test_the_page_shows_the_table() -> None:
    text = PAGE.read_text("utf-8")
    begin, end = text.index("<!-- table -->"), text.index("<!-- end of table -->")
    assert text[begin:end] + "<!-- end of table -->" == page()


@pytest.mark.parametrize("key", EACH)
def test_what_a_behavior_asks_for_in_vain(key: str) -> None:
    way, kind, given = EACH[key]
    run = RunSettings.model_validate({"behaviors": {"A": {"trainer_type": kind, **given}}})
    found = [key_path(place).removeprefix("behaviors.A.") for place, _ in blanks(run, way)]
    assert key in found
    plain = RunSettings.model_validate({"behaviors": {"A": {"trainer_type": kind}}})
    assert key not in [key_path(place).removeprefix("behaviors.A.") for place, _ in blanks(plain, way)]


def test_every_row_is_asked_for() -> None:
    asked = [{"trainer_type": kind, **given} for _, kind, given in EACH.values()]
    asked += [
        {"trainer_type": kind} | ({"demo_path": "x"} if kind in RECORDED else {}) for kind in plugins.own("trainers")
    ]
    trainers = [trainer_type(one["trainer_type"]).settings.model_validate(one) for one in asked]
    unused = [row.name for row in TABLE if not any(row.found(trainer) for trainer in trainers)]
    assert unused == ["of other packages", "of other packages, with a replay memory"]


def test_a_run_has_the_ways_that_its_settings_say() -> None:
    given = {"behaviors.*.network_settings.memory": {}, "devices": 2}
    with pytest.raises(SettingsError, match=r"A\.network_settings\.memory is learned from whole sequences, in one pro"):
        load_settings(None, {"behaviors.A.trainer_type": "ppo"} | given)
    run = RunSettings.model_validate({"behaviors": {"A": {"trainer_type": "ppo", "self_play": {}}}})
    with pytest.raises(SettingsError, match=r"^behaviors\.A\.self_play is for teams in a game, but `parallel` trains"):
        check_trainable(blanks(run, Way.PAIRS))
