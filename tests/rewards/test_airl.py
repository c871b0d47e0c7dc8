from __future__ import annotations

import numpy as np
import pytest
import torch

from tau_trainer.rewards.airl import AIRL, LEAST_LOG_PROB, LOSS
from tau_trainer.rewards.learned import Experience
from tau_trainer.settings.signals import AIRLSettings
from tau_trainer.specs import ActionSpec, BehaviorSpec, ObservationSpec

SPEC = BehaviorSpec("Small", (ObservationSpec("vector", (3,)),), ActionSpec(0, (2,)))


def model(**options: object) -> AIRL:
    settings = AIRLSettings.model_validate({"demo_path": "x", "gamma": 0.9, "network_settings": options})
    made = AIRL(SPEC, settings, torch.Generator().manual_seed(1))
    with torch.no_grad():  # heads begin at zero
        made.networks.weight.normal_(generator=torch.Generator().manual_seed(2))
    return made


def experience(n: int = 6, seed: int = 0, *, ends: bool = True) -> Experience:
    generator = torch.Generator().manual_seed(seed)
    goes_on = torch.ones(n)
    goes_on[-1] = 0.0 if ends else 1.0
    inputs, following = (torch.randn((n, 3), generator=generator) for _ in range(2))
    nothing, log_prob = torch.zeros(n, 0), -torch.rand(n, generator=generator)
    discrete, forbidden = torch.zeros(n, 1, dtype=torch.int64), torch.zeros(n, 2, dtype=torch.bool)
    return Experience([inputs], [following], goes_on, nothing, discrete, forbidden, log_prob)


def g_and_h(made: AIRL, obs: torch.Tensor) -> torch.Tensor:
    seen = made.networks.see([obs])
    values: torch.Tensor = made.networks(seen, obs.new_zeros(len(obs), 0))[:, :, 0, 0]
    return values


def test_paid_is_shaped_reward_less_the_policys_log_probability() -> None:
    made, own = model(), experience(ends=False)
    (g, h), (_, h_after) = g_and_h(made, own.inputs[0]), g_and_h(made, own.following[0])
    torch.testing.assert_close(made.rewards(own), g + 0.9 * h_after - h - own.log_prob)


def test_a_real_end_pays_for_ever_by_how_much_rarer_it_is_for_the_expert() -> None:
    made, own = model(), experience()
    made.observe(experience(1000, ends=False), expert=True)
    made.observe(experience(100), expert=False)
    g, h = g_and_h(made, own.inputs[0])
    for_ever = 0.9 / 0.1 * np.log((0.5 / 1001) / (1.5 / 101))
    paid = made.rewards(own).detach()
    torch.testing.assert_close(paid[-1], (g[-1] - h[-1] + for_ever - own.log_prob[-1]).detach())
    assert float(paid[-1]) < float(paid[:-1].min()) - 10.0


def test_an_action_that_can_hardly_be_is_not_worth_everything() -> None:
    made, own = model(), experience(ends=False)
    unlikely = own._replace(log_prob=torch.full((6,), -1000.0))
    least = own._replace(log_prob=torch.full((6,), LEAST_LOG_PROB))
    torch.testing.assert_close(made.rewards(unlikely), made.rewards(least))


def test_the_loss_is_that_of_the_discriminator() -> None:
    """``D = exp(f) / (exp(f) + pi)``: minus log D of the expert, minus log(1 - D) of the policy, and the penalty."""
    made, own, expert = model(), experience(seed=1, ends=False), experience(seed=2, ends=False)
    zero = torch.zeros(6)
    f_own, f_expert = (made.rewards(one._replace(log_prob=zero)) for one in (own, expert))
    d_own, d_expert = (f.exp() / (f.exp() + one.log_prob.exp()) for f, one in ((f_own, own), (f_expert, expert)))
    wanted = -d_expert.log().mean() - (1.0 - d_own).log().mean()
    state = made._generator.get_state()
    loss, told = made.loss(own, expert)
    made._generator.set_state(state)
    torch.testing.assert_close(loss, wanted + 10.0 * made._steepness(own, expert), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(told[LOSS], loss)
    torch.testing.assert_close(told["Policy/AIRL Expert Estimate"], d_expert.mean())


def test_the_penalty_is_zero_where_the_slope_is_one() -> None:
    made, own, expert = model(), experience(seed=1), experience(seed=2)
    made._f = lambda some: some.inputs[0][:, 0] * 0.6 + some.following[0][:, 1] * 0.8  # type: ignore[method-assign]
    assert float(made._steepness(own, expert).detach()) == pytest.approx(0.0, abs=1e-10)
    made._f = lambda some: 3.0 * some.inputs[0][:, 0] + 0.0 * some.following[0][:, 0]  # type: ignore[method-assign]
    assert float(made._steepness(own, expert).detach()) == pytest.approx(4.0, rel=1e-5)


def test_statistics_of_observations_are_taken_where_they_are_asked_for() -> None:
    made = model(normalize=True)
    assert made.normalizer is not None
    made.observe(experience(), expert=True)
    assert float(made.normalizer.count) == 7.0
    assert model().normalizer is None
