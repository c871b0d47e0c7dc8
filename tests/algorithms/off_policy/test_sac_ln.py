from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup
from tau_trainer.algorithms.off_policy.sac_ln import SACLN, losses
from tau_trainer.errors import CheckpointError
from tau_trainer.settings import RewardSignalSettings
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.off_policy.test_sac import GOAL, KINDS, RECURRENT
from tests.algorithms.reference_sac import gradients
from tests.algorithms.reference_sac_ln import OWNERS, textbook
from tests.algorithms.replayed import Collector, random_batch, random_everywhere, sac, sac_ln, sac_ln_settings, trained
from tests.networks import IMAGE, LIST

GAMMAS = torch.tensor([0.99])


def two_noises(noise: torch.Tensor) -> torch.Tensor:
    return torch.stack((noise, noise.flip(0)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("signals", [None, TWO_STREAMS])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_the_textbooks(kind: str, signals: Any, weighted: bool) -> None:
    learner = sac_ln(KINDS[kind], sac_ln_settings(signals=signals))
    random_everywhere(learner)
    batch, noise = random_batch(learner, weighted=weighted)
    noise = two_noises(noise)
    weights = {name: one.detach().double().requires_grad_() for name, one in learner.module.named_parameters()}
    gammas = torch.tensor([stream.gamma for stream in learner.streams])
    wanted = textbook(weights, learner.network.action.choices, batch, noise, gammas)
    slopes = gradients(weights, wanted, OWNERS)
    found = losses(learner.module, batch, noise, gammas)
    told = {"policy": found.policy, "q1": found.q[0], "q2": found.q[1], "coefficients": found.coefficients}
    for name, loss in told.items():
        assert float(loss.detach()) == pytest.approx(float(wanted[name].detach()), rel=1e-5, abs=1e-5), name
    learner.parameters.optimizer.gradient.zero_()
    (found.policy + found.q.sum() + found.coefficients).backward()  # type: ignore[no-untyped-call]
    for name, parameter in learner.module.named_parameters():
        assert parameter.grad is not None
        wide = float(slopes[name].abs().max()) if slopes[name].numel() else 0.0
        np.testing.assert_allclose(
            parameter.grad.numpy(), slopes[name].numpy(), rtol=1e-4, atol=1e-5 * max(1.0, wide), err_msg=name
        )


@pytest.mark.parametrize("fused", [False, True])
def test_the_target_follows_by_tau(fused: bool) -> None:
    learner = sac_ln(CONTINUOUS, sac_ln_settings(tau=0.25), fused=fused)
    random_everywhere(learner)
    learner._returns.meet(5.0)  # a scale of 1: nothing is rescaled
    before = [one.clone() for one in learner.module.q_target.parameters()]
    with torch.no_grad():
        learner.learn(random_batch(learner)[0], 1, 0.1)
    each = zip(learner.module.q_target.parameters(), before, learner.module.q.parameters(), strict=True)
    for one, kept, source in each:
        torch.testing.assert_close(one, 0.75 * kept + 0.25 * source.detach())


def test_rescaled_qs_say_the_same_returns() -> None:
    learner = sac_ln(HYBRID)
    random_everywhere(learner)
    batch, _ = random_batch(learner)
    module = learner.module
    module.rescale(2.0)

    def said() -> list[torch.Tensor]:
        return [q(q.see(batch.inputs), batch.continuous) * module.scale for q in (module.q, module.q_target)]

    with torch.no_grad():
        before = said()
        module.rescale(50.0)
        for one, other in zip(said(), before, strict=True):
            torch.testing.assert_close(one, other)
    assert float(module.scale) == 50.0


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_the_size_of_rewards_changes_nothing_that_is_done(factor: float) -> None:
    """Exactly where the factor is a power of two; else up to rounding, over a few steps."""

    class Paid(Collector):
        def _rewards(self, rows: int) -> dict[str, Any]:
            return {name: values * np.float32(factor) for name, values in super()._rewards(rows).items()}

    plain, paid = (sac_ln(HYBRID, sac_ln_settings(learning_rate=1e-3)) for _ in range(2))
    for learner, collector in ((plain, Collector(plain)), (paid, Paid(paid))):
        learner.update(collector.collect(8), 0.0, None)
    assert float(paid.module.scale) == pytest.approx(factor * float(plain.module.scale), rel=1e-5)
    for name, wanted in plain.network.state_dict().items():
        torch.testing.assert_close(paid.network.state_dict()[name], wanted, rtol=1e-3, atol=1e-4)


def test_returns_count_by_the_strength_of_their_streams() -> None:
    scales = []
    for strength in (1.0, 4.0):
        learner = sac_ln(CONTINUOUS, sac_ln_settings(signals={"extrinsic": RewardSignalSettings(strength=strength)}))
        learner.update(Collector(learner).collect(8), 0.0, None)
        scales.append(float(learner.module.scale))
    assert scales[1] == pytest.approx(4.0 * scales[0], rel=1e-5)


@pytest.mark.parametrize(("largest", "spread"), [(0.0, 1.0), (100.0, 0.1)])
@pytest.mark.parametrize("fused", [False, True])
def test_coefficients_do_not_fall_below_the_least(fused: bool, largest: float, spread: float) -> None:
    """The floor follows the deviation of returns, down to a tenth, and not the largest of them."""
    settings = sac_ln_settings(init_entcoef=0.011 * spread, least_entcoef=0.01, learning_rate=0.1)
    learner = sac_ln(HYBRID, settings, fused=fused)
    assert learner.module.log_coefficients.exp().tolist() == pytest.approx([0.011 * spread] * 3)
    learner._returns.meet(largest)
    with torch.no_grad():
        for seed in range(4):
            batch, _ = random_batch(learner, rows=64, seed=seed)  # a policy as wide as it begins
            learner.learn(batch._replace(forbidden=torch.zeros_like(batch.forbidden)), 1, 0.1)
    assert learner.module.log_coefficients.exp().tolist() == pytest.approx(
        [0.01 * spread, 0.001 * spread, 0.001 * spread]
    )


@pytest.mark.parametrize("fused", [False, True])
def test_coefficients_move_three_and_ten_times_as_fast(fused: bool) -> None:
    """Adam's first step is the learning rate, whatever the gradient."""
    learner = sac_ln(HYBRID, sac_ln_settings(), fused=fused)
    before = learner.module.log_coefficients.detach().clone()
    with torch.no_grad():
        learner.learn(random_batch(learner)[0], 1, 0.01)
    moved = (learner.module.log_coefficients - before).abs()
    assert moved.tolist() == pytest.approx([0.03, 0.1, 0.1], rel=1e-3)


def test_what_is_reported() -> None:
    learner = sac_ln(HYBRID, sac_ln_settings(signals=TWO_STREAMS, steps_per_update=2.0))
    collector = trained(learner, rounds=1)
    result = learner.update(collector.collect(), 0.25, None)
    assert {"Losses/Policy Loss", "Losses/Q1 Loss", "Losses/Q2 Loss", "Policy/Bonus Value"} <= set(result)
    assert "Losses/Value Loss" not in result
    assert all(math.isfinite(value) for value in result.values())
    assert result["Policy/Return Scale"] == pytest.approx(float(learner.module.scale))
    assert float(learner.module.scale) != 1.0
    assert result["Policy/Continuous Entropy Coeff"] == pytest.approx(learner.module.log_coefficients.exp().tolist()[0])
    branches = learner.module.log_coefficients.exp().tolist()[1:]
    assert result["Policy/Discrete Entropy Coeff"] == pytest.approx(sum(branches) / 2)
    assert result["Train/Minibatches"] == 30.0
    said = learner.report([0.0, 0.0, 0.0, 0.0, 1.5, 0.0])["Policy/Extrinsic Value"]
    assert said == pytest.approx(1.5 * float(learner.module.scale)), "in the unit of rewards"


@pytest.mark.usefixtures("toys")
def test_policy_and_qs_share_an_encoder_that_learns_from_the_qs() -> None:
    learner = sac_ln(behavior(HYBRID, IMAGE, LIST, GOAL), sac_ln_settings(tau=0.25))
    trained(learner)
    random_everywhere(learner)
    module, batch = learner.module, learner.draw(1)
    (encoder,) = module.q.encoders
    assert encoder is module.network.encoders[0]
    assert not [name for name, _ in module.named_parameters() if name.startswith("q.encoders")]  # saved once
    (target,) = module.q_target.encoders
    assert target is not encoder
    seen = module.q.see(batch.inputs)
    torch.testing.assert_close(module.network.features(seen[0]), module.network.features(batch.inputs))
    noise = torch.zeros(2, *batch.continuous.shape)
    slopes = {}
    for name in ("policy", "q"):
        loss = getattr(losses(module, batch, noise, GAMMAS), name).sum()
        slopes[name] = torch.autograd.grad(loss, list(encoder.parameters()), allow_unused=True)
    assert all(slope is None for slope in slopes["policy"])
    assert all(slope.abs().max() > 0.0 for slope in slopes["q"])
    before = [one.clone() for one in target.parameters()]
    with torch.no_grad():
        learner.learn(batch, 1, 0.1)
    for one, kept, source in zip(target.parameters(), before, encoder.parameters(), strict=True):
        torch.testing.assert_close(one, 0.75 * kept + 0.25 * source.detach())


def test_with_a_memory_the_next_decision_is_drawn_with_its_own_past_and_mask() -> None:
    """Sequences of one transition are what transitions without a past are."""
    learner = sac_ln(HYBRID, sac_ln_settings(RECURRENT))
    random_everywhere(learner)
    batch, noise = random_batch(learner)
    noise = two_noises(noise)
    alone = batch._replace(state=torch.zeros(9, 1, 6), begins=torch.ones(9) > 0)
    whole = alone._replace(begins=torch.tensor([True, False, False, True, True, False, False, False, True]))
    inside = torch.arange(9)[~whole.begins]
    whole.following[0][inside - 1] = whole.inputs[0][inside]
    whole.forbidden_after[inside - 1] = whole.forbidden[inside]
    noise[1, inside - 1] = noise[0, inside]
    together = losses(learner.module, whole, noise, GAMMAS)
    pieces = []
    for first, last in ((0, 3), (3, 4), (4, 8), (8, 9)):
        rows = slice(first, last)
        part = whole._replace(
            **{
                name: values[rows]
                for name, values in whole._asdict().items()
                if isinstance(values, torch.Tensor) and len(values)
            },
            inputs=[whole.inputs[0][rows]],
            following=[whole.following[0][rows]],
        )
        pieces.append((last - first, losses(learner.module, part, noise[:, rows], GAMMAS)))
    for name in ("policy", "q"):
        wanted = sum(count * getattr(piece, name) for count, piece in pieces) / 9
        torch.testing.assert_close(getattr(together, name), wanted)
    assert not torch.allclose(together.q, losses(learner.module, alone, noise, GAMMAS).q)


def test_a_checkpoint_goes_on_with_the_size_of_returns() -> None:
    one = sac_ln(HYBRID, sac_ln_settings(save_replay_buffer=True, n_step=1))
    collector = trained(one)
    other = sac_ln(HYBRID, sac_ln_settings(save_replay_buffer=True, n_step=1), seed=5)
    other.load(*one.state(), fresh=False)
    one._returns.load({"returns": other._returns.state()["returns"]})  # episodes begin anew after a resume
    work = collector.collect()
    for learner in (one, other):
        learner.update(work, 0.5, None)
    assert float(one.module.scale) == float(other.module.scale) > 1.0
    np.testing.assert_equal(one.parameters.state(), other.parameters.state())


def test_a_fresh_start_counts_returns_from_the_beginning() -> None:
    one, other, alone = sac_ln(CONTINUOUS), sac_ln(CONTINUOUS, seed=5), sac_ln(CONTINUOUS, seed=5)
    trained(one, rounds=4)
    arrays, metadata = one.state()
    other.load(arrays, metadata, fresh=True)
    for learner in (other, alone):
        trained(learner, rounds=1)
    assert float(other.module.scale) == pytest.approx(float(alone.module.scale)) != float(one.module.scale)


def test_networks_of_another_run_keep_their_unit_until_something_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what they say of a game without rewards so far would be multiplied beyond all reason."""

    def unpaid(_: Collector, rows: int) -> dict[str, Any]:
        return {"extrinsic": np.zeros((rows, 1), np.float32)}

    one, other, again = (sac_ln(CONTINUOUS, seed=seed) for seed in (1, 5, 6))
    trained(one)
    arrays, metadata = one.state()
    other.load(arrays, metadata, fresh=True)
    with monkeypatch.context() as patch:
        patch.setattr(Collector, "_rewards", unpaid)
        trained(other)
        assert float(other.module.scale) == float(one.module.scale) > 1.0
        again.load(*other.state(), fresh=False)
        trained(again)
    assert float(again.module.scale) == float(one.module.scale)
    trained(again)
    assert float(again.module.scale) != float(one.module.scale), "what is paid counts"


def test_a_checkpoint_of_sac_is_refused() -> None:
    one = sac(HYBRID)
    trained(one)
    arrays, metadata = one.state()
    for fresh in (False, True):
        with pytest.raises(CheckpointError, match=r"trainer type is 'sac', behavior 'Walker' needs 'sac_ln'"):
            sac_ln(HYBRID).load(arrays, metadata, fresh=fresh)


def test_a_failed_update_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = sac_ln(HYBRID, sac_ln_settings(save_replay_buffer=True, n_step=1))
    collector = trained(learner)
    before = learner.state()[0]
    work = collector.collect()
    with monkeypatch.context() as patch:
        patch.setattr(SACLN, "check_finite", lambda *_: (_ for _ in ()).throw(RuntimeError("stop")))
        with pytest.raises(RuntimeError, match="stop"):
            learner.update(work, 0.0, None)
    np.testing.assert_equal(learner.state()[0], before)


def test_several_processes_can_learn_it_together() -> None:
    assert SACLN(Setup(behavior(ActionSpec(2)), sac_ln_settings(), 1)).unshared(2) == ""
