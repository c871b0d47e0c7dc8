"""The Python side against ``tests/unity/vectors.json``, the file of test vectors that the C# core reads too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import DataError
from tau_trainer.headless.parameters import EnvironmentParameters
from tau_trainer.headless.scenes.tau import TauScene
from tau_trainer.headless.streams import AgentRandom
from tau_trainer.rewards.aggregation import WindowAggregator
from tau_trainer.rewards.predicates import Limits, StepFacts, get_predicate
from tau_trainer.specs import Actions
from tau_trainer.tau.dataset import TauSplit, load_dataset
from tau_trainer.tau.decoding import nearest
from tau_trainer.tau.formulas import REWARDS, component_reward
from tau_trainer.tau.profiles import get_profile
from tau_trainer.tau.schema import text_key
from tau_trainer.tau.targets import targets
from tau_trainer.tau.vectors import vectors_path

Case = dict[str, Any]
VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "unity" / "vectors.json").read_text(encoding="ascii"))
AGENT = np.array([0])


def test_reward_types_are_numbered_alike() -> None:
    assert list(REWARDS) == VECTORS["reward_types"]


@pytest.mark.parametrize("case", VECTORS["rewards"], ids=lambda case: case["name"])
def test_rewards(case: Case) -> None:
    output, target = np.array([case["output"]], np.float32), np.array([case["target"]], np.float32)
    assert set(case["rewards"]) == set(REWARDS)
    for name, expected in case["rewards"].items():
        earned = REWARDS[name](output, target, case["threshold"], case["columns"])
        assert earned == pytest.approx(np.array([expected]), abs=case["tolerance"]), name


def test_components() -> None:
    for case in VECTORS["components"]:
        output, target = np.array([case["output"]], np.float32), np.array([case["target"]], np.float32)
        earned = component_reward(case["formula"], output, target, case["threshold"], case["columns"])
        np.testing.assert_array_equal(earned[0], case["components"], err_msg=str(case))


@pytest.mark.parametrize("case", VECTORS["predicates"], ids=str)
def test_predicates(case: Case) -> None:
    facts = StepFacts(
        np.array([[case.get("reward", 0.0)]]),
        np.array([[case.get("return", 0.0)]]),
        np.array([[case.get("error", 0.0)]]),
        np.array([case.get("done", False)]),
    )
    limit = case.get("limit", 0.0)
    assert bool(get_predicate(case["predicate"])(facts, Limits(limit, limit))[0, 0]) is case["success"]


def test_windows() -> None:
    for case in VECTORS["windows"]:
        window = WindowAggregator(case["aggregate"], case["window"], case["values"])
        for step, expected in zip(case["steps"], case["expected"], strict=True):
            assert window.push(AGENT, np.array([[step == "1"]]))[0, 0] == pytest.approx(expected, abs=1e-12), case


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
    monkeypatch.setattr("tau_trainer.headless.scenes.tau.get_reward", lambda _: paid)
    scene = TauScene(dataset=load_dataset(), profile=get_profile("tau3"), agents=1)
    parameters = EnvironmentParameters()
    for name, value in case["rules"].items():
        parameters.set(name, value)
    scene.reset(parameters)
    ends = []
    for _ in case["rewards"]:
        terminals = scene.step(Actions(np.zeros((1, 3), np.float32), np.zeros((1, 0), np.int32))).terminals
        over = len(terminals.agent_ids) == 1
        ends.append(("interrupted" if terminals.truncated[0] else "terminal") if over else "none")
    assert ends == case["ends"]


def test_random_streams_bit_by_bit() -> None:
    for case in VECTORS["random"]:
        seed, agent = int(case["seed"]), case["agent"]
        draws = AgentRandom(seed, agent + 1).uniform(np.array([agent]), len(case["uniform"]))[:, 0]
        assert draws.tolist() == case["uniform"], case
        choices = AgentRandom(seed, agent + 1).uniform(np.array([agent]), len(case["next"]))[:, 0]
        assert (choices * case["count"]).astype(np.intp).tolist() == case["next"], case


@pytest.mark.parametrize(("text", "key"), VECTORS["text_keys"]["keys"])
def test_text_keys(text: str, key: str) -> None:
    assert text_key(text) == key
    assert text_key(key) == key


def test_order_of_texts() -> None:
    order = VECTORS["text_keys"]["order"]
    backwards = order[::-1]
    assert sorted(backwards) == order
    assert backwards != order


@pytest.mark.parametrize("case", VECTORS["json"], ids=lambda case: repr(case["text"]))
def test_json_faults(case: Case) -> None:
    with pytest.raises(json.JSONDecodeError) as fault:
        json.loads(case["text"])
    assert str(fault.value) == case["error"]


def test_nearest() -> None:
    for case in VECTORS["nearest"]:
        assert nearest([case["output"]], case["targets"])[0] == case["index"], case


def test_targets_of_the_packaged_data() -> None:
    case, data = VECTORS["targets"], load_dataset()
    assert list(data.answers) == case["answers"]
    assert (len(data.train), len(data.evaluation)) == (case["train"], case["evaluation"])
    assert not data.skipped
    expected = np.array(case["values"], np.float32)
    np.testing.assert_array_equal(targets(data, get_profile(case["profile"])), expected)


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """The made-up data set on disk."""
    case = VECTORS["dataset"]
    path = tmp_path / "made-up.json"
    path.write_text(case["json"], encoding="ascii")
    texts = json.dumps(list(case["vectors"])).encode()
    np.savez(
        vectors_path(path),
        vectors=np.array(list(case["vectors"].values()), np.float16),
        texts=np.frombuffer(texts, np.uint8),
        encoder=np.frombuffer(case["encoder"].encode(), np.uint8),
    )
    return path


def test_the_made_up_data_set(made_up: Path) -> None:
    case, data = VECTORS["dataset"], load_dataset(made_up)
    assert data.encoder == case["encoder"]
    assert list(data.answers) == case["answers"]
    assert data.training_answers == case["training_answers"]
    assert _rows(data.train) == case["train"]
    assert _rows(data.evaluation) == case["evaluation"]
    skipped = [
        {"section": problem.section, "row": problem.row, "kind": problem.kind, "reason": problem.reason}
        for problem in data.skipped
    ]
    assert skipped == case["skipped"]
    assert data.skipped_sentence() == case["sentence"].replace("{source}", str(made_up))
    expected = np.array(case["tau3"], np.float32)
    np.testing.assert_array_equal(targets(data, get_profile("tau3")), expected)


def _rows(split: TauSplit) -> list[Case]:
    columns = (split.prompt_text, split.answer_text, split.answer_index.tolist(), split.row.tolist(), split.domain)
    names = ("prompt", "answer", "index", "row", "domain")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("case", VECTORS["dataset"]["errors"], ids=lambda case: case["json"][:30])
def test_data_sets_without_a_usable_row(case: Case, made_up: Path) -> None:
    made_up.write_text(case["json"], encoding="ascii")
    with pytest.raises(DataError) as error:
        load_dataset(made_up)
    assert str(error.value) == case["error"].replace("{source}", str(made_up))
