"""The Python side against ``tests/unity/vectors.json``, the file of cases that the C# core is held to as well."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.tau import TauScene
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.rewards.aggregation import WindowAggregator
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import Actions
from tau_trainer.tau.dataset import load_dataset
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.formulas import REWARDS, reward_name_by_index
from tau_trainer.tau.profiles import PROFILES
from tests.headless.scenes.playing import step

Case = dict[str, Any]
VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "unity" / "vectors.json").read_text(encoding="ascii"))
AGENT = np.array([0])


def test_reward_types_are_numbered_alike() -> None:
    assert [reward_name_by_index(index) for index in range(len(REWARDS))] == VECTORS["reward_types"]


@pytest.mark.parametrize("case", VECTORS["rewards"], ids=lambda case: case["name"])
def test_rewards(case: Case) -> None:
    output, target = np.array([case["output"]], np.float32), np.array([case["target"]], np.float32)
    assert set(case["rewards"]) == set(REWARDS)
    for name, expected in case["rewards"].items():
        earned = REWARDS[name](output, target, case["threshold"], case["columns"])
        assert earned == pytest.approx(np.array([expected]), abs=case["tolerance"]), name


def test_windows() -> None:
    for case in VECTORS["windows"]:
        settings = {key: case[key] for key in ("aggregate", "window", "values")}
        window = WindowAggregator(RewardSettings.model_validate(settings))
        for taken, expected in zip(case["steps"], case["expected"], strict=True):
            assert window.push(AGENT, np.array([[taken == "1"]]))[0, 0] == pytest.approx(expected, abs=1e-12), case


class _Rewarded:
    """A reward formula that pays what a list says, whatever the answer."""

    def __init__(self, rewards: list[float]) -> None:
        self._rewards = iter(rewards)

    def __call__(self, *_: object) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.array([next(self._rewards)])


@pytest.mark.parametrize("case", VECTORS["episodes"], ids=lambda case: str(case["rules"]))
def test_episodes(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The headless Tau scene ends its episodes where the file says."""
    paid = _Rewarded(case["rewards"])
    monkeypatch.setattr("tau_trainer.headless.scenes.tau.REWARDS", defaultdict(lambda: paid))
    scene = TauScene(dataset=load_dataset(), profile=PROFILES["tau3"], agents=1)
    parameters = EnvironmentParameters()
    for name, value in case["rules"].items():
        parameters.set(name, value)
    scene.reset(parameters)
    ends = []
    for _ in case["rewards"]:
        terminals = step(scene, Actions(np.zeros((1, 3), np.float32), np.zeros((1, 0), np.int32))).terminals
        over = len(terminals.agent_ids) == 1
        ends.append(("interrupted" if terminals.truncated[0] else "terminal") if over else "none")
    assert ends == case["ends"]


def test_random_streams_bit_by_bit() -> None:
    for case in VECTORS["random"]:
        agent, draws = case["agent"], len(case["next"])
        uniform = AgentRandom(int(case["seed"]), agent + 1).uniform(np.array([agent]), draws)[:, 0]
        assert (uniform * case["count"]).astype(np.intp).tolist() == case["next"], case


def test_nearest() -> None:
    for case in VECTORS["nearest"]:
        assert nearest([case["output"]], case["targets"])[0] == case["index"], case
