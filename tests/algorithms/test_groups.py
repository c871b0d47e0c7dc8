"""Experience of groups as samples."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tau_trainer.algorithms.groups import GroupReader
from tau_trainer.algorithms.losses import evaluate
from tau_trainer.algorithms.poca import MAPPO, POCA
from tau_trainer.memory import Rollout
from tau_trainer.metrics import keys
from tau_trainer.settings.signals import RNDSettings
from tau_trainer.specs import ActionSpec
from tests.algorithms.experience import CONTINUOUS, DISCRETE, HYBRID
from tests.algorithms.grouped import AGENTS, MESSAGES, Decided, Reference
from tests.algorithms.teams import ALWAYS, DYING, FORGETS, played, read, records
from tests.networks import IMAGE, LIST

KINDS = st.sampled_from([POCA, MAPPO])


REMEMBERS = {"memory": {"memory_size": 4, "sequence_length": 16}}


@settings(max_examples=12, deadline=None)
@given(MESSAGES, KINDS, st.sampled_from([CONTINUOUS, DISCRETE, HYBRID]), st.sampled_from([None, REMEMBERS]))
def test_values_baselines_returns_and_gradient_are_the_references(
    messages: Any, kind: type[POCA], actions: ActionSpec, network: Any
) -> None:
    """Groups of any size, in which agents come, die, are cut off, and decide at different rates; with a memory too."""
    numbers = {"num_epoch": 1, "batch_size": 1000, "buffer_size": 1000}
    learner, history, work = played(kind, actions, messages, network=network, **numbers)
    if not len(Rollout(work)):
        return
    reader, samples, values, advantage, returns = read(learner, work)
    reference, decided = Reference(history, learner.policy_update.hyperparameters.lambd), records(reader, history)
    value = torch.stack([reference.value(record) for record in decided])
    baseline = torch.stack([reference.baseline(record) for record in decided])
    expected = torch.tensor([reference.returned(record) for record in decided])
    torch.testing.assert_close(values[:, 0], value.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(returns[:, 0], expected, rtol=1e-4, atol=1e-4)
    own = baseline if kind is POCA else value
    torch.testing.assert_close(values[:, -1], own.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(advantage[:, 0], expected - own.detach(), rtol=1e-4, atol=1e-4)

    # The loss of all at once, by torch's differentiation, and the gradient that an update of one minibatch leaves.
    weighed = (expected - own.detach() - (expected - own.detach()).mean())[:, None]
    weighed = weighed / (weighed.std(correction=0) + 1e-8)
    outputs = torch.stack([reference.outputs(record) for record in decided])
    log_prob, entropy = evaluate(learner.network, outputs, samples)
    torch.testing.assert_close(log_prob.detach(), samples.log_prob, rtol=1e-4, atol=1e-5)
    ratio = (log_prob - samples.log_prob).exp()
    loss = -torch.min(ratio * weighed, ratio.clamp(0.8, 1.2) * weighed).mean() - 5e-3 * entropy.mean()
    loss = loss + 0.5 * (value - expected).square().mean()
    if kind is POCA:
        loss = loss + 0.25 * (baseline - expected).square().mean()
    names, parameters = zip(*learner.network.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    value, baseline = value.detach(), baseline.detach()
    result = learner.update(work, 0.0, None)
    gradients = learner.parameters.views(learner.parameters.optimizer.gradient)
    for name, gradient in zip(names, found, strict=True):
        wanted = torch.zeros_like(gradients[name]) if gradient is None else gradient
        torch.testing.assert_close(gradients[name], wanted, rtol=2e-3, atol=2e-5, msg=name)
    assert result[keys.VALUE_LOSS] == pytest.approx(float((value - expected).square().mean()), rel=1e-3)
    if kind is POCA:
        assert result[keys.BASELINE_LOSS] == pytest.approx(float((baseline - expected).square().mean()), rel=1e-3)
        assert result[keys.baseline_estimate("extrinsic")] == pytest.approx(float(baseline.mean()), rel=1e-3, abs=1e-5)
    else:
        assert keys.BASELINE_LOSS not in result


@settings(max_examples=12, deadline=None)
@given(MESSAGES, KINDS)
def test_returns_of_what_is_new_go_on_beyond_ends(messages: Any, kind: type[POCA]) -> None:
    """A learned stream pays each decision by itself; who leaves goes on with its group's return, as in the other."""
    signals = {"rnd": RNDSettings(gamma=0.8, strength=0.7)}
    learner, history, work = played(kind, HYBRID, messages, signals=signals)
    rollout = Rollout(work)
    if not len(rollout):
        return
    paid = np.random.default_rng(1).normal(size=len(rollout)).astype(np.float32)
    reader = learner.read(rollout)
    assert isinstance(reader, GroupReader)
    learner.policy_update._reader = reader
    rollout.rewards["rnd"] = paid[:, None]
    with torch.no_grad():
        values = learner.policy_update.values(reader.samples(learner.network).inputs)
        advantage, returns = reader.advantages(values, learner.policy_update)
    known = [record for record in history.decided if record.known]
    lambd, decided = learner.policy_update.hyperparameters.lambd, records(reader, history)
    references = [Reference(history, lambd), Reference(history, lambd, dict(zip(known, paid.tolist(), strict=True)))]
    expected = torch.tensor([[reference.returned(record) for reference in references] for record in decided])
    torch.testing.assert_close(returns[:, :2], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(advantage[:, 0], (expected - values[:, -2:]).sum(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 7, 64])
@pytest.mark.parametrize("network", [None, FORGETS])
@pytest.mark.parametrize("kind", [POCA, MAPPO])
def test_a_set_that_a_minibatch_cuts_is_seen_whole(kind: type[POCA], network: Any, batch: int) -> None:
    """And what it remembers is as it was when it was played."""
    learner, _, work = played(kind, HYBRID, (ALWAYS * 4 + DYING) * 4, network=network)
    _, samples, values, _, _ = read(learner, work)
    update: Any = learner.policy_update
    seats = samples.inputs[-1]
    found = torch.cat([update.of_groups(part) for part in seats.split(batch)]).detach()
    torch.testing.assert_close(found, values, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("network", [None, FORGETS])
def test_values_in_pieces_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, network: Any) -> None:
    learner, _, work = played(POCA, HYBRID, (ALWAYS * 4 + DYING) * 4, network=network)
    whole = read(learner, work)[2]
    for most in (1, 500, 3000):
        monkeypatch.setattr("tau_trainer.algorithms.groups._NUMBERS", most)
        torch.testing.assert_close(read(learner, work)[2], whole, rtol=1e-4, atol=1e-6)


def test_pieces_of_a_minibatch_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for most in (2000, 10**9):
        monkeypatch.setattr("tau_trainer.algorithms.groups._NUMBERS", most)
        learner, _, work = played(POCA, HYBRID, (ALWAYS * 4 + DYING) * 4, batch_size=100)
        learner.update(work, 0.0, None)
        results.append(learner.parameters.optimizer.parameters.clone())
    torch.testing.assert_close(results[0], results[1], rtol=1e-3, atol=1e-5)


def test_blocks_are_drawn_as_wholes_in_which_agents_have_their_sequences() -> None:
    """All that share a set are in one block, each agent's decisions in order, at most so many one after the other."""
    learner, history, work = played(POCA, HYBRID, (ALWAYS * 4 + DYING) * 4, network=FORGETS)
    reader, samples, *_ = read(learner, work)
    decided = records(reader, history)
    blocks = reader.rows.wholes.cumsum(0).tolist()  # type: ignore[union-attr]
    sequences = samples.begins.cumsum(0).tolist()
    of_set, together = dict[Any, set[int]](), dict[int, list[Decided]]()
    for record, block, sequence in zip(decided, blocks, sequences, strict=True):
        if record.group:
            of_set.setdefault((record.moment, record.group), set()).add(block)
        together.setdefault(sequence, []).append(record)
    assert all(len(found) == 1 for found in of_set.values())
    assert max(map(len, together.values())) == 3
    for found in together.values():
        assert all(later.previous is earlier for earlier, later in itertools.pairwise(found))
    assert len(set(blocks)) < len(set(sequences)) < len(decided)


@pytest.mark.parametrize("kind", [POCA, MAPPO])
def test_without_groups_advantages_and_returns_are_ppos(kind: type[POCA]) -> None:
    """By the same values: who is alone has no mates, and its baseline is its value."""
    learner, _, work = played(kind, HYBRID, [(does, [0] * AGENTS) for does, _ in (ALWAYS * 4 + DYING) * 4])
    reader, _, values, advantage, returns = read(learner, work)
    rollout = Rollout(work)
    order = reader._order
    arrived = np.empty((len(rollout), 1))
    arrived[order] = values[:, :1].numpy()
    worth = reader.seating.worth.numpy()
    groups = reader._groups
    bootstrap = np.zeros((len(rollout.bootstrapped), 1))
    for i, after in enumerate(groups.after[rollout.bootstrapped]):
        bootstrap[i] = worth[after]
    stream = learner.streams[0]
    rewards = rollout.rewards["extrinsic"] * stream.strength
    expected, gained = rollout.gae(rewards, arrived, bootstrap, stream.gamma, 0.95)
    np.testing.assert_allclose(advantage.numpy(), expected[order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(returns.numpy()[:, :1], gained[order], rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("kind", [POCA, MAPPO])
def test_images_and_lists_are_entities_too(kind: type[POCA]) -> None:
    learner, history, work = played(kind, HYBRID, (ALWAYS * 3 + DYING) * 3, more=(IMAGE, LIST))
    reader, _, values, _, returns = read(learner, work)
    reference, decided = Reference(history, 0.95), records(reader, history)
    baseline = torch.stack([reference.baseline(record) for record in decided]).detach()
    value = torch.stack([reference.value(record) for record in decided]).detach()
    torch.testing.assert_close(values[:, 0], value, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(values[:, -1], baseline if kind is POCA else value, rtol=1e-4, atol=1e-5)
    expected = torch.tensor([reference.returned(record) for record in decided])
    torch.testing.assert_close(returns[:, 0], expected, rtol=1e-4, atol=1e-4)
