"""Deep Q-learning against its papers' formulas, the hand-written step against torch's, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tau_trainer.algorithms import Setup, make_algorithm
from tau_trainer.algorithms.off_policy.dqn import DQN
from tau_trainer.algorithms.off_policy.transitions import Transitions
from tau_trainer.errors import SettingsError
from tau_trainer.export.build import build_model
from tau_trainer.export.verify import verify
from tau_trainer.models import MLPPolicy, ModulePolicy
from tau_trainer.models.actor_critic import CLOCK
from tau_trainer.models.blocks import Past
from tau_trainer.models.distributions import branch_bounds
from tau_trainer.models.mlp import MLP
from tau_trainer.settings import MemorySettings
from tau_trainer.settings.exploration import BoltzmannGumbelSettings, EpsGreedySettings, GreedySettings
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID, TWO_STREAMS, behavior
from tests.algorithms.replayed import Collector, copied, dqn, dqn_settings, random_batch, random_everywhere, trained
from tests.networks import IMAGE, LIST, observations

ONE = ActionSpec(0, (4,))
SWITCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "double": {"double": True},
    "dueling": {"dueling": True},
    "double, dueling": {"double": True, "dueling": True, "loss": "mse"},
    "squares": {"loss": "mse"},
    "clipped squares": {"loss": "mse", "clip_td_err": 0.7},
    "clipped": {"clip_td_err": 0.3},
}


def textbook(learner: DQN, weights: dict[str, torch.Tensor], batch: Transitions) -> tuple[torch.Tensor, torch.Tensor]:
    """Loss and errors, one transition and branch after the other."""
    own: Any = learner.hyperparameters
    bounds = branch_bounds(learner.network.action.choices.discrete_branches)
    gamma = learner.streams[0].gamma

    def worth(network: str, x: torch.Tensor) -> torch.Tensor:
        towers = []
        for tower in range(2 if own.dueling else 1):
            hidden = x.double()
            for layer in range(len(learner.network.body)):
                z = hidden @ weights[f"{network}.body.{layer}.weight"][tower]
                z = z + weights[f"{network}.body.{layer}.bias"][tower, 0]
                hidden = z * torch.sigmoid(z)
            towers.append(hidden)
        scores = towers[0] @ weights[f"{network}.action.weight"] + weights[f"{network}.action.bias"]
        if not own.dueling:
            return scores
        value = towers[1] @ weights[f"{network}.value.weight"] + weights[f"{network}.value.bias"]
        return torch.cat([value + scores[begin:end] - scores[begin:end].mean() for begin, end in bounds])

    errors, losses = [], []
    for row in range(len(batch.rewards)):
        with torch.no_grad():
            scored = worth("target", batch.following[0][row])
            judged = worth("network", batch.following[0][row]) if own.double else scored
            best = []
            for begin, end in bounds:
                allowed = [place for place in range(begin, end) if not batch.forbidden_after[row, place]]
                best.append(scored[max(allowed, key=lambda place: float(judged[place].detach()))])
            goal = batch.rewards[row, 0] + gamma * batch.goes_on[row, 0] * sum(best) / len(best)
        values = worth("network", batch.inputs[0][row])
        chosen = [values[begin + int(batch.discrete[row, i])] for i, (begin, _) in enumerate(bounds)]
        error = sum(chosen) / len(chosen) - goal
        limit = min(np.inf if own.loss == "mse" else 1.0, own.clip_td_err or np.inf)
        size = error.abs()
        loss = 0.5 * error**2 if size <= limit else limit * (size - 0.5 * limit)
        losses.append(loss * (batch.weights[row] if len(batch.weights) else 1.0))
        errors.append(size.detach().clamp(max=own.clip_td_err or np.inf))
    return torch.stack(losses).mean(), torch.stack(errors)


@pytest.mark.parametrize(("actions", "weighted"), [(ONE, False), (DISCRETE, True)])
@pytest.mark.parametrize("switches", SWITCHES)
@pytest.mark.parametrize("fused", [False, True])
def test_loss_and_gradient_are_the_textbooks(fused: bool, switches: str, actions: ActionSpec, weighted: bool) -> None:
    learner = dqn(actions, dqn_settings(**SWITCHES[switches]), fused=fused)
    random_everywhere(learner)
    batch = random_batch(learner, weighted=weighted)[0]
    named = {name: one.detach().double().requires_grad_() for name, one in learner.module.named_parameters()}
    loss, errors = textbook(learner, named, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        found = learner.learn(batch, 1, 0.0)
    assert float(found[0, 0]) == pytest.approx(float(loss.detach()), rel=1e-4)
    if weighted:
        np.testing.assert_allclose(batch.errors, errors, rtol=1e-4, atol=1e-5)
    gradients = learner.parameters.views(learner.parameters.optimizer.gradient)
    for name, one in named.items():
        wanted = torch.zeros_like(one) if one.grad is None else one.grad
        np.testing.assert_allclose(gradients[name], wanted, rtol=1e-3, atol=1e-6, err_msg=name)
        assert name.startswith("network.") or not wanted.any()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("tau", "interval"), [(0.25, 1), (1.0, 3)])
def test_targets_follow_softly_or_are_copied(tau: float, interval: int, fused: bool) -> None:
    learner = dqn(ONE, dqn_settings(tau=tau, target_update_interval=interval), fused=fused)
    random_everywhere(learner)
    target, source = (one.action.weight for one in (learner.module.target, learner.network))
    for step in range(1, 7):
        before = target.detach().clone()
        with torch.no_grad():
            learner.learn(random_batch(learner, seed=step)[0], 1, 1e-2)
        wanted = torch.lerp(before, source, tau) if step % interval == 0 else before
        torch.testing.assert_close(target, wanted)
    assert not torch.equal(target, source) or tau == 1.0


@pytest.mark.parametrize(("switches", "layers"), [("clipped", 0), ("double", 1), ("double, dueling", 3)])
def test_whole_updates_are_the_same(switches: str, layers: int) -> None:
    network = {"normalize": True, "num_layers": layers}
    numbers: dict[str, Any] = {"prioritized": {}, "n_step": 2, "steps_per_update": 5.0, "max_grad_norm": 0.1}
    numbers |= {"tau": 0.3, "target_update_interval": 2} | SWITCHES[switches]
    options = dqn_settings(network, **numbers)
    ours, theirs = (dqn(DISCRETE, options, fused=fused) for fused in (True, False))
    for learner in (ours, theirs):
        trained(learner)
    wanted = theirs.parameters.state()
    for name, found in ours.parameters.state().items():
        np.testing.assert_allclose(found, wanted[name], rtol=5e-3, atol=1e-4, err_msg=name)
    assert torch.equal(ours.generator.get_state(), theirs.generator.get_state())


def test_rewards_are_added_up_and_clipped() -> None:
    signals = {name: one.model_copy(update={"gamma": 0.9}) for name, one in TWO_STREAMS.items()}
    for limit in (None, 0.8):
        learner = dqn(ONE, dqn_settings(signals=signals, clip_reward=limit))
        collector = trained(learner)
        held = learner.replay.take(np.arange(len(learner.replay)))
        played = {tuple(one["obs"][0]): one["rewards"] @ [0.5, 2.0] for one in collector.closed()}
        wanted = np.array([played[tuple(row[:4])] for row in held["input_0"]])
        assert (np.abs(wanted) > 0.8).any()
        np.testing.assert_allclose(held["rewards"][:, 0], wanted.clip(-(limit or 99), limit or 99), rtol=1e-5)
        assert learner.gammas.tolist() == pytest.approx([0.9])


@pytest.mark.parametrize(
    ("actions", "options", "said"),
    [
        (CONTINUOUS, {}, "dqn chooses among discrete actions, but this behavior has continuous ones; set network"),
        (HYBRID, {}, "dqn chooses among discrete actions"),
        (ONE, {"signals": TWO_STREAMS}, "give every reward signal the same gamma"),
    ],
)
def test_what_it_cannot_learn_is_refused(actions: ActionSpec, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        make_algorithm(Setup(behavior(actions), dqn_settings(**options), 1))


NOISY: dict[str, Any] = {"noisy": True, "dueling": True, "exploration": GreedySettings()}
MEMORY = MemorySettings(memory_size=8, sequence_length=4)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("actions", "memory", "sensors", "switches"),
    [
        (HYBRID, None, (), {"dueling": True}),
        (DISCRETE, MEMORY, (IMAGE, LIST), {"dueling": True}),
        (DISCRETE, MEMORY, (), NOISY),
        (DISCRETE, None, (IMAGE, LIST), NOISY),
    ],
)
def test_any_network_learns_acts_and_is_exported(actions: ActionSpec, memory: Any, sensors: Any, switches: Any) -> None:
    spec = behavior(actions, *sensors)
    network = {"memory": memory, "normalize": True, "action_levels": 3 if actions.continuous_size else None}
    learner = dqn(spec, dqn_settings(network, double=True, steps_per_update=10.0, **switches))
    assert learner.network.action.choices.discrete_branches == (*[3] * actions.continuous_size, 3, 2)
    collector = Collector(learner)
    before = learner.weights()
    for _ in range(2):
        result = learner.update(collector.collect(), 0.0, None)
    assert result["Losses/Q Loss"] > 0
    after = learner.weights()
    same = [name for name, values in before.items() if np.array_equal(values, after[name])]
    assert [name for name in same if after[name].size] == []
    policy = learner.snapshot()
    assert isinstance(policy, MLPPolicy if actions == HYBRID else ModulePolicy)
    verify(build_model(learner.network, spec).SerializeToString(), learner.network, spec, policy)


def test_a_model_file_plays_the_best_action_also_where_unity_samples() -> None:
    from tau_trainer.export.session import session_of

    learner = dqn(DISCRETE)
    random_everywhere(learner)
    session = session_of(build_model(learner.network, learner.spec).SerializeToString(), 0)
    obs = observations(learner.spec, 200)
    feed = {f"obs_{i}": values for i, values in enumerate(obs)} | {"action_masks": np.ones((200, 5), np.float32)}
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, feed), strict=True))
    np.testing.assert_array_equal(found["discrete_actions"], found["deterministic_discrete_actions"])
    best = learner.snapshot().act(obs, None, np.random.default_rng(0), deterministic=True).discrete
    np.testing.assert_array_equal(found["discrete_actions"], best)


def noisy() -> DQN:
    learner = dqn(DISCRETE, dqn_settings(**NOISY))
    random_everywhere(learner)
    return learner


def test_noise_explores_by_row_and_not_where_it_is_deterministic() -> None:
    policy = noisy().snapshot()
    obs = tuple(np.repeat(values, 500, axis=0) for values in observations(policy.spec, 1))
    drawn = policy.act(obs, None, np.random.default_rng(0)).discrete
    assert len(np.unique(drawn, axis=0)) > 1
    np.testing.assert_array_equal(drawn, policy.act(obs, None, np.random.default_rng(0)).discrete)
    still = policy.act(obs, None, np.random.default_rng(0), deterministic=True).discrete
    assert len(np.unique(still, axis=0)) == 1


def test_noise_is_factorised() -> None:
    """Each row is that of weights ``mu + sigma f(in) f(out)`` (Fortunato et al. 2018, equations 10 and 11)."""
    learner = noisy()
    network, x = learner.network, torch.randn(6, 7)
    drawn: list[torch.Tensor] = []

    def noise(rows: int, size: int) -> torch.Tensor:
        drawn.append(torch.randn(rows, size))
        return drawn[-1]

    with torch.no_grad():
        found = network.outputs([x], noise=noise)
        f = [one.sign() * one.abs().sqrt() for one in drawn]
        assert isinstance(network.body, MLP)
        layers = [(layer.weight[0], layer.bias[0, 0], layer.noisy) for layer in network.body.layers]
        layers.append((network.action.weight, network.action.bias, network.action.noisy))
        for row in range(6):
            hidden = x[row]
            for index, (weight, bias, part) in enumerate(layers):
                assert part is not None
                before, behind = f[2 * index][row], f[2 * index + 1][row]
                hidden = hidden @ (weight + part.weight[0] * torch.outer(before, behind)) + bias + part.bias[0] * behind
                hidden = torch.nn.functional.silu(hidden) if index < len(layers) - 1 else hidden
            torch.testing.assert_close(found[row], hidden, rtol=1e-4, atol=1e-5)


def test_widths_of_noise_begin_as_in_the_paper_and_are_learned() -> None:
    learner = dqn(DISCRETE, dqn_settings(noisy=True, exploration=GreedySettings()))
    assert isinstance(learner.network.body, MLP)
    first = learner.network.body.layers[0].noisy
    assert first is not None
    assert torch.allclose(first.weight, torch.tensor(0.5 / np.sqrt(7.0)).float())
    before = {name: values for name, values in learner.weights().items() if "noisy" in name}
    assert len(before) == 2 * (len(learner.network.body) + 2)
    trained(learner)
    after = learner.weights()
    assert all((after[name] != values).any() for name, values in before.items() if values.size)


@torch.no_grad()
def test_sequences_see_their_past_where_values_are_asked() -> None:
    learner = dqn(DISCRETE, dqn_settings({"memory": MEMORY}, double=True))
    trained(learner)
    batch = learner.draw(1)
    columns = batch.discrete + torch.tensor([0, 3])
    values = learner._update.values(batch).gather(1, columns).mean(dim=1)
    wrong = values - learner._update.goals(batch)
    both = learner.network, learner.module.target
    before = [batch.state[0][None]] * 2
    for row in range(len(values)):
        inputs, following = ([one[row][None] for one in side] for side in (batch.inputs, batch.following))
        before = [batch.state[row][None]] * 2 if batch.begins[row] else before
        answers = [one(inputs, Past(state)) for one, state in zip(both, before, strict=True)]
        chosen = answers[0].outputs[0, [int(batch.discrete[row, 0]), 3 + int(batch.discrete[row, 1])]].mean()
        assert float(values[row]) == pytest.approx(float(chosen), rel=1e-4, abs=1e-5)
        before = [one.state for one in answers]
        judged, scored = (one(following, Past(state)).outputs[0] for one, state in zip(both, before, strict=True))
        judged = judged.masked_fill(batch.forbidden_after[row], -1e8)
        best = [int(judged[:3].argmax()), 3 + int(judged[3:].argmax())]
        goal = batch.rewards[row, 0] + learner.streams[0].gamma * batch.goes_on[row, 0] * scored[best].mean()
        assert float(values[row] - wrong[row]) == pytest.approx(float(goal), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("exploration", [EpsGreedySettings(eps=1.0, eps_min=0.1), BoltzmannGumbelSettings()])
def test_exploration_counts_what_was_learned_from_and_goes_on(exploration: Any) -> None:
    learner = dqn(DISCRETE, dqn_settings(exploration=exploration, save_replay_buffer=True))
    collector = trained(learner)
    played = collector.closed()
    clock = learner.weights()[CLOCK]
    assert clock[0] == len(played) == learner.seen
    if len(clock) > 1:
        counts = np.bincount([one["discrete"][0] for one in played], minlength=3)
        np.testing.assert_array_equal(clock[1:4], 1 + counts)
    other, fresh = (dqn(DISCRETE, dqn_settings(exploration=exploration), seed=2) for _ in range(2))
    other.load(*copied(learner.state()), fresh=False)
    np.testing.assert_array_equal(other.weights()[CLOCK], clock)
    fresh.load(*learner.state(), fresh=True)
    assert fresh.weights()[CLOCK][0] == 0, "weights alone were taken over: it has decided nothing yet"
    np.testing.assert_array_equal(fresh.weights()["action.weight"], learner.weights()["action.weight"])


def test_a_run_that_goes_on_for_longer_explores_as_if_it_had_always_been_meant_to() -> None:
    """As with numbers that fall by progress: what is a share of max_steps is one of those that there are now."""

    def learner(decisions: int) -> DQN:
        options = dqn_settings(exploration=EpsGreedySettings(eps=1.0, eps_min=0.0))
        return DQN(Setup(behavior(ONE), options, 1, max_steps=decisions))

    short, longer = learner(1000), learner(4000)
    assert short.network.exploring().tolist() == [1.0]
    short.network.tick(np.zeros((200, 1), np.int32))
    assert short.network.exploring().tolist() == [0.0], "a fifth is over"
    longer.load(*short.state(), fresh=False)
    assert longer.network.exploring().tolist() == [0.75], "200 of the 800 that are now a fifth"
