"""The reward that a learner sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tau_trainer.errors import NonFiniteError, SettingsError
from tau_trainer.rewards.rewarder import RewardResult
from tau_trainer.settings import RewardSettings
from tau_trainer.specs import Actions, Float64Array
from tau_trainer.tau.formulas import REWARDS
from tau_trainer.tau.rewarder import RewardComputer

PAIRS = hnp.arrays(np.float64, (2, 4, 3), elements=st.floats(-1.0, 1.0))
ROWS = np.array([3, 0, 7, 1])
ERRORS = np.array([[0.05, 0.05, 0.05], [0.05, 0.05, 0.5], [0.5, 0.05, 0.05], [0.5, 0.5, 0.5]])


def tau(formula: str = "binary", target: int = 0, **settings: Any) -> RewardComputer:
    """A computer for three action components."""
    return RewardComputer(RewardSettings.model_validate(settings), formula, 3, target)


def engine(**settings: Any) -> RewardComputer:
    """A computer that takes the engine's reward."""
    return tau(source="engine", **settings)


def compute(
    computer: RewardComputer,
    rows: Any,
    *,
    engine_reward: Any = None,
    output: Any = None,
    target: Any = None,
    done: Any = None,
    answered: Any = None,
) -> RewardResult:
    """One step: of the engine's reward, or of an action and a target in the first sensor."""
    if engine_reward is None:
        result = computer.decided(rows, Actions(output, np.zeros((len(output), 0), np.int32)), (target,))
        assert result is not None
        if done is not None:
            computer.forget(rows[done])
        return result
    over, acted = (None if flags is None else np.asarray(flags, np.bool_) for flags in (done, answered))
    return computer.judge(rows, np.asarray(engine_reward, np.float64)[:, None], done=over, acted=acted)


def listed(values: Any) -> Any:
    assert values is not None
    return values.tolist()


@given(PAIRS, st.sampled_from(sorted(REWARDS)), st.none() | st.integers(1, 3))
def test_aggregate_credit_is_the_formula(pair: Float64Array, name: str, columns: int | None) -> None:
    computer = tau(formula=name, credit="aggregate", columns=columns)
    result = compute(computer, ROWS, output=pair[0], target=pair[1])
    expected = REWARDS[name](pair[0], pair[1], columns=columns)
    assert computer.width == 1
    assert result.reward.dtype == np.float32
    np.testing.assert_allclose(result.reward[:, 0], expected, atol=1e-6)
    np.testing.assert_allclose(result.mean, expected, atol=1e-6)


@given(
    PAIRS,
    st.sampled_from([name for name, formula in REWARDS.items() if formula.by_component]),
    st.none() | st.integers(1, 3),
)
def test_component_credit_averages_to_the_formula(pair: Float64Array, name: str, columns: int | None) -> None:
    computer = tau(formula=name, columns=columns)
    result = compute(computer, ROWS, output=pair[0], target=pair[1])
    assert computer.width == 3
    np.testing.assert_allclose(result.reward, REWARDS[name].components(pair[0], pair[1], columns=columns), atol=1e-6)
    np.testing.assert_allclose(result.mean, REWARDS[name](pair[0], pair[1], columns=columns), atol=1e-6)


def test_success_is_strict_over_all_components() -> None:
    result = compute(tau(), ROWS, output=ERRORS, target=np.zeros((4, 3)))
    assert listed(result.success) == [1.0, 0.0, 0.0, 0.0]
    first_only = compute(tau(columns=1), ROWS, output=ERRORS, target=np.zeros((4, 3)))
    assert listed(first_only.success) == [1.0, 1.0, 0.0, 0.0]


def test_actions_are_clipped_as_the_environment_does() -> None:
    inside = compute(tau(formula="incremental"), ROWS, output=np.ones((4, 3)), target=np.ones((4, 3)))
    outside = compute(tau(formula="incremental"), ROWS, output=np.full((4, 3), 9.0), target=np.ones((4, 3)))
    np.testing.assert_array_equal(inside.reward, outside.reward)


@pytest.mark.parametrize(("values", "low"), [("01", 0.0), ("pm1", -1.0)])
@pytest.mark.parametrize("credit", ["component", "aggregate"])
def test_distance_pays_by_component_or_for_all_at_once(values: str, low: float, credit: str) -> None:
    computer = tau(predicate="distance", values=values, credit=credit, success_distance=0.1)
    result = compute(computer, ROWS, output=ERRORS, target=np.zeros((4, 3)))
    close = ERRORS <= 0.1
    if credit == "aggregate":
        close = np.asarray(close.all(axis=1, keepdims=True))
    np.testing.assert_array_equal(result.reward, np.where(close, 1.0, low))
    np.testing.assert_allclose(result.mean, np.where(close, 1.0, low).mean(axis=1), atol=1e-6)
    assert listed(result.success) == [1.0, 0.0, 0.0, 0.0]


def test_columns_beyond_are_neither_paid_nor_punished() -> None:
    computer = tau(predicate="distance", values="pm1", columns=2, window=2, learn_from="aggregate")
    result = compute(computer, ROWS, output=ERRORS, target=np.zeros((4, 3)))
    assert not result.reward[:, 2].any()
    assert result.reward[:, :2].tolist() == [[1, 1], [1, 1], [-1, 1], [-1, -1]]


def test_the_engine_reward_passes_unchanged_without_predicate() -> None:
    reward = np.array([-1.0, 0.0, 0.1, 7.5], np.float32)
    result = compute(engine(), ROWS, engine_reward=reward)
    np.testing.assert_array_equal(result.reward[:, 0], reward)
    np.testing.assert_array_equal(result.mean, reward)
    assert result.success is None
    assert result.aggregated is None


def test_outcome_pays_at_the_end_of_the_episode_only() -> None:
    computer = engine(predicate="outcome", values="pm1", success_threshold=1.5)
    rows = np.array([0, 1])
    first = compute(computer, rows, engine_reward=[1.0, 1.0])
    assert first.reward[:, 0].tolist() == [0.0, 0.0]
    assert first.success is None
    second = compute(computer, rows, engine_reward=[1.0, 0.0], done=[True, False])
    assert second.reward[:, 0].tolist() == [1.0, 0.0]
    assert second.success is not None
    assert second.success[0] == 1.0
    assert np.isnan(second.success[1])
    third = compute(computer, rows, engine_reward=[1.0, 0.5], done=[True, True])
    assert third.reward[:, 0].tolist() == [-1.0, -1.0]


def test_windows_of_outcomes_span_episodes_and_others_do_not() -> None:
    row, done = np.array([0]), [True]
    outcomes = engine(predicate="outcome", window=3, aggregate="sum")
    steps = engine(predicate="positive", window=3, aggregate="sum")
    sums = []
    for computer in (outcomes, steps):
        results = [compute(computer, row, engine_reward=[1.0], done=done).aggregated for _ in range(4)]
        sums.append([float(value[0]) for value in results if value is not None])
    assert sums == [[1.0, 2.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]]


def test_outcome_with_rewards_of_the_trainer_is_judged_when_the_episode_concludes() -> None:
    computer = tau(formula="incremental", predicate="outcome", success_threshold=1.0)
    target = np.zeros((2, 3))
    rows = np.array([0, 1])
    for _ in range(2):
        step = compute(computer, rows, output=np.array([[0.0] * 3, [0.4] * 3]), target=target)
        assert step.success is None
        assert not step.reward.any()
    late: Any = computer.conclude(rows)
    assert late.reward.tolist() == [[1.0] * 3, [0.0] * 3]
    assert listed(late.success) == [1.0, 0.0]
    again: Any = computer.conclude(rows)
    assert listed(again.success) == [0.0, 0.0]


def test_concluding_replaces_nothing_for_other_predicates() -> None:
    computer = tau(window=5, aggregate="sum")
    compute(computer, ROWS, output=np.zeros((4, 3)), target=np.zeros((4, 3)))
    assert computer.conclude(ROWS) is None
    after = compute(computer, ROWS, output=np.zeros((4, 3)), target=np.zeros((4, 3)))
    assert listed(after.aggregated) == [1.0] * 4


@pytest.mark.parametrize("aggregate", ["mean", "sum", "any", "all", "majority"])
def test_learning_from_the_window(aggregate: str) -> None:
    computer = tau(predicate="distance", window=3, aggregate=aggregate, learn_from="aggregate", values="pm1")
    outputs = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    for output in outputs:
        result = compute(computer, np.array([2]), output=output[None], target=np.zeros((1, 3)))
    expected = {
        "mean": [1.0, -1 / 3, -1.0],
        "sum": [3.0, -1.0, -3.0],
        "any": [1.0, 1.0, -1.0],
        "all": [1.0, -1.0, -1.0],
        "majority": [1.0, -1.0, -1.0],
    }[aggregate]
    np.testing.assert_allclose(result.reward[0], expected, atol=1e-6)
    np.testing.assert_allclose(result.mean[0], -1 / 3, atol=1e-6)
    assert result.aggregated is not None
    assert result.aggregated[0] == {"sum": -3.0}.get(aggregate, -1.0)


def test_messages_that_answer_no_decision_enter_no_window() -> None:
    computer = engine(predicate="positive", window=2, aggregate="mean")
    rows = np.array([0, 1])
    first = compute(computer, rows, engine_reward=[0.0, 0.0], answered=[False, False])
    assert first.success is None
    second = compute(computer, rows, engine_reward=[1.0, 1.0], answered=[True, False])
    assert second.aggregated is not None
    assert second.aggregated[0] == 1.0
    assert np.isnan(second.aggregated[1])
    assert np.isnan(first.mean).tolist() == [True, True]
    assert np.isnan(second.mean).tolist() == [False, True]
    np.testing.assert_array_equal(second.reward[:, 0], [1.0, 0.0])


def test_many_agents_at_once_equal_single_ones() -> None:
    generator = np.random.default_rng(0)
    together = tau(predicate="distance", success_distance=0.6, window=4, aggregate="majority", learn_from="aggregate")
    alone = [
        tau(predicate="distance", success_distance=0.6, window=4, aggregate="majority", learn_from="aggregate")
        for _ in range(6)
    ]
    for _ in range(12):
        rows = generator.permutation(6)[:4]
        output, target = generator.uniform(-1, 1, (2, 4, 3))
        done = generator.random(4) < 0.2
        result = compute(together, rows, output=output, target=target, done=done)
        for i, row in enumerate(rows):
            one = compute(alone[row], np.array([0]), output=output[[i]], target=target[[i]], done=done[[i]])
            np.testing.assert_array_equal(result.reward[i], one.reward[0])


def test_forget_and_clear() -> None:
    computer = engine(predicate="outcome", window=4, aggregate="sum")
    row = np.array([5])
    compute(computer, row, engine_reward=[1.0], done=[True])
    compute(computer, row, engine_reward=[1.0])
    result = compute(computer, row, engine_reward=[0.0], done=[True])
    assert listed(result.aggregated) == [2.0]
    compute(computer, row, engine_reward=[1.0])
    computer.forget(row)
    forgotten = compute(computer, row, engine_reward=[0.0], done=[True])
    assert listed(forgotten.success) == [0.0]
    computer.clear()
    cleared = compute(computer, row, engine_reward=[1.0], done=[True]).aggregated
    assert listed(cleared) == [1.0]


def test_no_agents() -> None:
    result = compute(tau(window=2), np.zeros(0, np.int64), output=np.zeros((0, 3)), target=np.zeros((0, 3)))
    assert result.reward.shape == (0, 3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"columns": 4}, "between 1 and the 3"), ({"source": "engine", "predicate": "distance"}, "`source: trainer`")],
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        tau(**settings)


def test_inputs_that_are_wrong() -> None:
    with pytest.raises(SettingsError, match="has 2 numbers but the behavior has 3"):
        compute(tau(), ROWS, output=ERRORS[:, :2], target=ERRORS[:, :2])
    with pytest.raises(ValueError, match="a row appears twice"):
        compute(tau(), np.array([1, 1]), output=ERRORS[:2], target=ERRORS[:2])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    with pytest.raises(NonFiniteError, match="agent 2 of 2"):
        engine().answered(np.array([0, 1]), np.array([0.0, bad], np.float32), acted=np.ones(2, np.bool_), ended=False)
    with pytest.raises(NonFiniteError, match="distance"):
        compute(tau(), np.array([0]), output=np.zeros((1, 3)), target=np.array([[0.0, bad, 0.0]]))


def seen(target: Any) -> tuple[Any, ...]:
    """The target is the second sensor."""
    return np.zeros((len(target), 7), np.float32), np.asarray(target, np.float32)


def acted(output: Any) -> Actions:
    return Actions(np.asarray(output, np.float32), np.zeros((len(output), 0), np.int32))


def test_what_the_trainer_pays_is_known_at_once_and_paid_with_the_next_message() -> None:
    computer = tau(target=1, formula="incremental")
    output, target = np.random.default_rng(0).uniform(-1, 1, (2, 4, 3))
    result = computer.decided(ROWS, acted(output), seen(target))
    assert result is not None
    expected = REWARDS["incremental"].components(output.astype(np.float32), target.astype(np.float32))
    np.testing.assert_allclose(result.reward, expected, atol=1e-6)
    engine_reward = np.full(3, 99.0, np.float32)
    late, score = computer.answered(ROWS[:3], engine_reward, acted=np.ones(3, np.bool_), ended=False)
    np.testing.assert_array_equal(late, result.reward[:3])
    assert score is None, "it was scored when it was decided"
    last, score = computer.answered(ROWS[3:], engine_reward[:1], acted=np.ones(1, np.bool_), ended=True)
    np.testing.assert_array_equal(last, result.reward[3:])
    assert score is None
    unknown, _ = computer.answered(np.array([50]), engine_reward[:1], acted=np.zeros(1, np.bool_), ended=False)
    assert unknown.tolist() == [[0.0] * 3]


def test_the_outcome_takes_the_place_of_the_last_reward() -> None:
    computer = tau(target=1, formula="incremental", predicate="outcome", success_threshold=0.5)
    rows, every = np.array([4, 2]), np.ones(2, np.bool_)
    for _ in range(2):
        result = computer.decided(rows, acted([[0.0] * 3, [0.9] * 3]), seen(np.zeros((2, 3))))
        assert result is not None
        assert not result.reward.any()
        paid, score = computer.answered(rows, np.zeros(2, np.float32), acted=every, ended=False)
        assert not paid.any()
        assert score is None
    paid, score = computer.answered(rows, np.zeros(2, np.float32), acted=every, ended=True)
    assert paid.tolist() == [[1.0] * 3, [0.0] * 3]
    assert score is not None
    assert listed(score.success) == [1.0, 0.0]


def test_the_engines_reward_is_judged_as_it_comes() -> None:
    computer = engine(predicate="positive", window=2, aggregate="sum", learn_from="aggregate")
    rows = np.array([1, 0])
    assert computer.decided(rows, acted(np.zeros((2, 1))), seen(np.zeros((2, 1)))) is None
    sums = []
    for ended in (False, False, True, False):
        paid, score = computer.answered(
            rows, np.array([2.0, -2.0], np.float32), acted=np.ones(2, np.bool_), ended=ended
        )
        assert score is not None
        assert listed(score.success) == [1.0, 0.0]
        np.testing.assert_array_equal(paid, score.reward)
        sums.append(paid[:, 0].tolist())
    assert sums == [[1.0, 0.0], [2.0, 0.0], [2.0, 0.0], [1.0, 0.0]], "an episode's window ends with it"


def test_a_cleared_rewarder_owes_nobody() -> None:
    computer = tau(target=1, formula="incremental")
    computer.decided(ROWS, acted(np.zeros((4, 3))), seen(np.zeros((4, 3))))
    computer.clear()
    paid, _ = computer.answered(ROWS, np.zeros(4, np.float32), acted=np.ones(4, np.bool_), ended=False)
    assert not paid.any()
