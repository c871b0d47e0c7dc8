from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import SettingsError
from tau_trainer.search import LRFinder, Sweep
from tau_trainer.search.lr import _Walk
from tau_trainer.search.sweep import learning_rates
from tests.search.conftest import quick


class FakeTrial:
    def __init__(self) -> None:
        self.rate, self.stopped = 1e-6, False

    def learn_with(self, rate: float) -> None:
        self.rate = rate

    def stop(self) -> None:
        self.stopped = True


def walk(metric: Any, steps: int = 3, least: int = 1) -> tuple[_Walk, Sweep, Any]:
    sweep, trial = Sweep(metric), FakeTrial()
    found = _Walk(sweep, learning_rates(1e-6, 1e-3, steps), least, None)
    found.trial = trial  # type: ignore[assignment]
    return found, sweep, trial


def test_by_loss_every_rate_has_its_updates() -> None:
    one, sweep, trial = walk("loss", least=2)
    used = []
    for loss in (1.0, 3.0, 4.0, 6.0, 7.0, 9.0, 10.0, 20.0):
        used.append(trial.rate)
        one.update(loss)
    np.testing.assert_allclose(used, np.repeat([1e-6, 1e-5, 1e-4, 1e-3], 2))
    assert sweep.values == [2.0, 5.0, 8.0, 15.0]
    np.testing.assert_allclose(sweep.rates, [1e-6, 1e-5, 1e-4, 1e-3])
    assert trial.stopped
    assert one.whole


def test_by_reward_all_episodes_until_the_next_rates_update_count() -> None:
    one, sweep, trial = walk("reward")
    one.episodes([99.0])  # before anything was learned
    assert trial.rate == 1e-6
    one.update(1.0)
    one.update(1.0)  # nothing ended: once more with the same
    assert trial.rate == 1e-6
    one.episodes([2.0, 4.0])
    assert trial.rate == pytest.approx(1e-5), "the next update learns with the next"
    one.episodes([6.0])
    assert trial.rate == pytest.approx(1e-5)
    one.update(1.0)
    assert sweep.values == [4.0]
    one.episodes([8.0])
    one.update(1.0)
    one.episodes([9.0])
    one.update(1.0)
    one.episodes([10.0])
    assert sweep.values == [4.0, 8.0, 9.0, 10.0]
    assert trial.stopped
    one, _, trial = walk("reward", least=2)
    one.update(1.0)
    one.episodes([5.0])
    assert trial.rate == 1e-6, "several updates come before the next"


@pytest.mark.parametrize(("config", "metric"), [("CartPole", "reward"), ("Pendulum", "loss")])
def test_a_sweep_of_a_real_run(config: str, metric: Any) -> None:
    told: list[int] = []
    finder = LRFinder(quick(config))
    result = finder.find(metric, start=1e-5, end=1e-2, steps=6, on_step=lambda sweep: told.append(len(sweep.rates)))
    assert result.reason == "the last learning rate was tried" or result.reason.startswith("the ")
    np.testing.assert_allclose(result.sweep.rates, learning_rates(1e-5, 1e-2, 6)[: len(result.sweep.rates)])
    assert told == list(range(1, len(result.sweep.rates) + 1))
    assert len(told) >= 6
    assert result.decisions > 0
    content = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    others = {"learning_rate", "mean_of_window", "normalized", "smoothed", "change"}
    assert content["steps"][0].keys() == {metric, *others}
    assert [step[metric] for step in content["steps"]] == result.sweep.values


def test_nan_ends_a_sweep_and_what_was_found_stays() -> None:
    result = LRFinder(quick()).find("loss", start=1e-4, end=1e30, steps=4)
    assert result.reason == "NaN"
    assert 0 < len(result.sweep.rates) < 5
    assert np.isfinite(result.sweep.values).all()


def test_it_can_be_stopped() -> None:
    finder = LRFinder(quick())
    result = finder.find("loss", on_step=lambda sweep: finder.stop())
    assert result.reason == "it was stopped"
    assert len(result.sweep.rates) == 1
    assert result.suggestion is None


@pytest.mark.parametrize(
    "numbers", [{"start": 0.0}, {"start": 1.0, "end": 0.1}, {"end": float("inf")}, {"steps": 1}, {"window": 0}]
)
def test_numbers_that_make_no_sweep(numbers: Any) -> None:
    with pytest.raises(SettingsError, match="a sweep"):
        LRFinder(quick()).find(**numbers)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_the_suggested_rate_learns_cartpole(seed: int) -> None:
    """Short, by reward: far above what does nothing, below what breaks it. Five seeds suggest 0.0016 to 0.0040."""
    settings = quick(batch_size=64, buffer_size=512, num_epoch=10, env_settings__num_areas=8, env_settings__seed=seed)
    suggestion = LRFinder(settings).find(steps=25).suggestion
    assert suggestion is not None
    assert 1e-4 <= suggestion <= 2e-2
