from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tau_trainer.errors import CheckpointError
from tests.algorithms import experience, replayed
from tests.algorithms.experience import CONTINUOUS

REPLAYED: dict[str, Any] = {
    "sac": (replayed.sac, replayed.settings),
    "sac_ln": (replayed.sac_ln, replayed.sac_ln_settings),
}


def made(kind: str, *, fused: bool = True, **options: Any) -> tuple[Any, Any]:
    """A learner, and work for it."""
    if kind == "ppo":
        ppo = experience.ppo(CONTINUOUS, experience.settings(**options), fused=fused)
        return ppo, experience.Collector(ppo).collect(ppo.snapshot())
    make, settings = REPLAYED[kind]
    learner = make(CONTINUOUS, settings(**options), fused=fused)
    return learner, replayed.Collector(learner).collect()


def learned(kind: str, **options: Any) -> Any:
    """A learner after one update; its weights from before it are ``before``."""
    learner, work = made(kind, **options)
    before = learner.parameters.optimizer.parameters.clone()
    learner.update(work, 0.0, None)
    return learner, before


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", ["ppo", "sac", "sac_ln"])
def test_the_optimizer_is_the_settings(kind: str, fused: bool) -> None:
    """A step of SGD is as long as the gradient, a step of Adam as the learning rate, whatever the path."""
    moved = {}
    for optimizer in ("sgd", "adam", "rmsprop", "nadam"):
        learner, before = learned(kind, optimizer=optimizer, fused=fused)
        assert learner.parameters.optimizer.kind == optimizer
        moved[optimizer] = learner.parameters.optimizer.parameters - before
    for optimizer, change in moved.items():
        assert change.any()
        others = [other for name, other in moved.items() if name != optimizer]
        assert all(not np.allclose(change, other, rtol=1e-3, atol=0.0) for other in others), optimizer


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", ["ppo", "sac", "sac_ln"])
def test_an_update_tells_of_every_layer_what_it_has_become(kind: str, fused: bool) -> None:
    for asked in (False, True):
        learner, work = made(kind, layer_statistics=asked, fused=fused)
        told = {name: value for name, value in learner.update(work, 0.0, None).items() if name.startswith("Layers/")}
        assert bool(told) == asked
    parameters = learner.parameters
    values, gradients = (parameters.views(getattr(parameters.optimizer, name)) for name in ("parameters", "gradient"))
    learned = [name for name, one in parameters.module.named_parameters() if one.requires_grad and one.numel()]
    assert len(told) == 4 * len(learned)
    for name in learned:
        for what, array in (("", values[name].numpy()), ("Gradient ", gradients[name].numpy())):
            assert told[f"Layers/{name} {what}Mean"] == pytest.approx(float(array.mean()), rel=1e-4, abs=1e-7)
            assert told[f"Layers/{name} {what}Std"] == pytest.approx(float(array.std()), rel=1e-4, abs=1e-7)
    assert any(value for name, value in told.items() if name.endswith("Gradient Std"))


@pytest.mark.parametrize("kind", ["ppo", "sac", "sac_ln"])
def test_a_searched_learning_rate_is_learned_with_and_told(kind: str) -> None:
    learner, work = made(kind)
    before = learner.parameters.optimizer.parameters.clone()
    learner.searched_rate = 1e-12
    assert learner.update(work, 0.0, None)["Policy/Learning Rate"] == 1e-12
    np.testing.assert_allclose(learner.parameters.optimizer.parameters, before, atol=1e-8)


def test_a_checkpoint_belongs_to_its_optimizer_but_weights_can_be_taken_over() -> None:
    learner, _ = learned("ppo", optimizer="nadam")
    arrays, metadata = learner.state()
    assert metadata["optimizer"] == "nadam"
    other = experience.ppo(CONTINUOUS, experience.settings(optimizer="sgd"), seed=7)
    with pytest.raises(CheckpointError, match="checkpoint's optimizer is 'nadam', behavior 'Walker' needs 'sgd'"):
        other.load(arrays, metadata, fresh=False)
    adam = experience.ppo(CONTINUOUS, seed=7)
    adam.load(arrays, metadata, fresh=True)
    for name, values in adam.state()[0].items():
        if name.startswith("optimizer."):
            assert not values.any(), "the moments are of another optimizer"
        elif name.startswith("model."):
            np.testing.assert_array_equal(values, arrays[name])


def test_a_checkpoint_from_before_there_was_a_choice_is_adams() -> None:
    learner, _ = learned("ppo")
    arrays, metadata = learner.state()
    del metadata["optimizer"]
    other = experience.ppo(CONTINUOUS, seed=7)
    other.load(arrays, metadata, fresh=False)
    np.testing.assert_array_equal(other.state()[0]["optimizer.exp_avg"], arrays["optimizer.exp_avg"])
