"""The evaluation contract of tau.md 5.6."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tau_trainer.errors import DataError, NonFiniteError
from tau_trainer.specs import FloatArray
from tau_trainer.tau.baselines import BLIND, predictors, right_rows
from tau_trainer.tau.dataset import TauDataset, load_dataset
from tau_trainer.tau.evaluation import evaluate
from tau_trainer.tau.profiles import PROFILES, Profile
from tau_trainer.tau.targets import targets
from tests.tau.conftest import MakeFile

TAU3 = PROFILES["tau3"]


class Oracle:
    """Knows every answer, and counts how often each prompt is shown."""

    def __init__(self, data: TauDataset, profile: Profile) -> None:
        centres = targets(data, profile)
        self.shown: dict[bytes, int] = {}
        self.known = {
            prompt.tobytes(): centres[answer]
            for split in (data.train, data.test)
            for prompt, answer in zip(split.prompts, split.answer_index, strict=True)
        }

    def __call__(self, prompts: FloatArray) -> FloatArray:
        for prompt in prompts:
            self.shown[prompt.tobytes()] = self.shown.get(prompt.tobytes(), 0) + 1
        return np.array([self.known[prompt.tobytes()] for prompt in prompts])


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_the_oracle_scores_full_marks_and_sees_every_row_once(profile: Profile) -> None:
    data = load_dataset()
    oracle = Oracle(data, profile)
    result = evaluate(oracle, data, profile)
    assert (result.reward, result.reward_train) == (1.0, 1.0)
    assert (result.accuracy, result.accuracy_all, result.accuracy_seen, result.accuracy_train) == (1.0, 1.0, 1.0, 1.0)
    assert (result.within_threshold, result.mean_abs_error) == (1.0, 0.0)
    assert set(oracle.shown.values()) == {1}
    assert len(oracle.shown) == result.rows + result.rows_train == len(data.test) + len(data.train)
    assert result.beats_blind
    assert set(result.accuracy_by_domain.values()) == {1.0}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("name", ["zeros", "majority"])
def test_no_blind_policy_passes_the_gate(profile: Profile, name: str) -> None:
    data = load_dataset()
    predict = predictors(data, profile)[name]
    result = evaluate(lambda prompts: predict(prompts).astype(np.float32), data, profile)
    assert not result.beats_blind
    assert result.reward == pytest.approx(result.baselines[name].reward, abs=1e-6)
    assert result.accuracy == result.baselines[name].accuracy
    assert "it does not beat the best baseline that ignores the prompt" in result.sentence()


def test_ridge_passes_the_gate() -> None:
    data = load_dataset()
    predict = predictors(data, TAU3)["ridge"]
    result = evaluate(lambda prompts: predict(prompts).astype(np.float32), data, TAU3)
    assert result.beats_blind
    assert result.strongest == "logistic"
    sentence = result.sentence()
    assert f"of {len(data.test)} test answers right and stays below the strongest baseline, logistic (100." in sentence
    assert "it beats the best baseline that ignores the prompt" in sentence


@pytest.mark.parametrize(("more", "verb"), [(6, "beats"), (1, "equals"), (0, "equals"), (-12, "stays below")])
def test_a_row_more_beats_nobody(more: int, verb: str) -> None:
    """``more``: rows that the policy gets right beyond those of the strongest baseline, a nearest neighbour here."""
    data = load_dataset()
    oracle, rows = Oracle(data, TAU3), len(data.test)
    known = right_rows(predictors(data, TAU3)["nearest"], data, TAU3, data.test)
    missed = np.flatnonzero(known)[: int((~known).sum()) - more]

    def act(prompts: FloatArray) -> FloatArray:
        answers = oracle(prompts)
        if len(prompts) == rows:
            answers[missed] = -1.0
        return answers

    found = evaluate(act, data, TAU3)
    assert found.accuracy * rows == pytest.approx(known.sum() + more)
    result = replace(found, baselines={name: found.baselines[name] for name in (*BLIND, "nearest")})
    assert result.strongest == "nearest"
    told = f" {verb} the strongest baseline, nearest (93.9 %; alone right about 6 rows against {6 - more}, p = "
    assert told in result.sentence()
    verdict = result.to_dict()["baselines"]["nearest"]["verdict"]
    assert verdict == {"stays below": "below"}.get(verb, verb)


def test_unseen_answers_count_as_wrong_but_are_told_apart(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a", "red"), ("b", "blue")], [("c", "red"), ("d", "unseen")]))
    result = evaluate(Oracle(data, PROFILES["tau384"]), data, PROFILES["tau384"])
    assert (result.accuracy, result.accuracy_seen, result.accuracy_all) == (0.5, 1.0, 1.0)
    assert "stand-in" in result.to_dict()["encoder"]
    only_unseen = load_dataset(make_file([("a", "red"), ("b", "blue")], [("d", "unseen")], name="b.json"))
    assert evaluate(Oracle(only_unseen, PROFILES["tau384"]), only_unseen, PROFILES["tau384"]).accuracy_seen is None


def test_json_has_plain_values_that_fit_together() -> None:
    data = load_dataset()
    content = json.loads(json.dumps(evaluate(Oracle(data, TAU3), data, TAU3).to_dict(), allow_nan=False))
    assert content["beats_blind"]
    for scores in content["baselines"].values():
        difference = (content["accuracy"] - scores["accuracy"]) * content["rows"]
        assert scores["won"] - scores["lost"] == pytest.approx(difference)
        assert scores["won"] >= scores["lost"] == 0  # the oracle is right about every row


def test_actions_are_clipped_as_the_environment_does() -> None:
    data = load_dataset()
    oracle = Oracle(data, TAU3)
    plain = evaluate(lambda prompts: np.sign(oracle(prompts)), data, TAU3)
    far = evaluate(lambda prompts: 50.0 * np.sign(oracle(prompts)), data, TAU3)
    assert plain == far


def test_bad_actions_are_refused() -> None:
    data = load_dataset()
    with pytest.raises(ValueError, match="actions have shape"):
        evaluate(lambda prompts: np.zeros((len(prompts), 2), np.float32), data, TAU3)
    with pytest.raises(NonFiniteError, match=r"test row \d+ is not finite"):
        evaluate(lambda prompts: np.full((len(prompts), 3), np.nan, np.float32), data, TAU3)


def test_a_file_without_evaluation_rows_cannot_be_evaluated(make_file: MakeFile) -> None:
    data = load_dataset(make_file([("a", "red")]))
    with pytest.raises(DataError, match="`evaluation_data`"):
        evaluate(lambda prompts: np.zeros((len(prompts), 3), np.float32), data, TAU3)
