from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tau_trainer.algorithms.minibatches import (
    MemberRows,
    Samples,
    SharedRows,
    in_parts,
    new_statistics,
    normalized,
    shuffled,
    shuffled_order,
)
from tau_trainer.algorithms.ranks import Ranks
from tests.algorithms.batched.together import together
from tests.algorithms.experience import DISCRETE, HYBRID, behavior, random_samples
from tests.networks import make_network


def test_shuffling_changes_everything_alike_and_copies() -> None:
    samples = random_samples(make_network(behavior(HYBRID)), 12, 4, masked=True)
    order = torch.randperm(12)[:9]
    mixed = shuffled(samples, order)
    for before, after in zip((*samples.inputs, *samples[2:-1]), (*mixed.inputs, *mixed[2:-1]), strict=True):
        assert torch.equal(after, before[order])
    mixed.inputs[0].zero_()
    assert samples.inputs[0].any()


def test_sequences_are_shuffled_as_wholes() -> None:
    begins = torch.tensor([True, False, False, True, True, False])
    seen = set()
    for seed in range(50):
        order = shuffled_order(begins, 6, torch.Generator().manual_seed(seed)).tolist()
        seen.add(tuple(order))
    assert seen == {
        (*first, *second, *third) for first, second, third in itertools.permutations([(0, 1, 2), (3,), (4, 5)])
    }


def test_without_sequences_every_sample_is_for_itself() -> None:
    order = shuffled_order(torch.zeros(0), 100, torch.Generator().manual_seed(3))
    assert torch.equal(order, torch.randperm(100, generator=torch.Generator().manual_seed(3)))


def test_what_does_not_exist_stays_away() -> None:
    samples = random_samples(make_network(behavior(DISCRETE)), 12, 1)
    mixed = shuffled(samples, torch.arange(12))
    assert (len(mixed.state), len(mixed.mask), mixed.continuous.shape) == (0, 0, (12, 0))


@pytest.mark.parametrize(("parts", "sizes"), [(1, [35]), (4, [10, 10, 10, 5]), (100, [5] * 7)])
def test_an_epoch_in_parts_is_the_whole_epoch(parts: int, sizes: list[int]) -> None:
    samples = random_samples(make_network(behavior(HYBRID)), 35, 1)
    statistics = new_statistics(samples, 35, 7)
    for number, (part, found, part_sizes) in enumerate(in_parts(samples, statistics, [5] * 7, parts)):
        assert len(part.returns) == len(found.values) == len(found.log_ratio) == sum(part_sizes) == sizes[number]
        assert len(found.entropy) == len(found.gradient_norm) == len(part_sizes) == sizes[number] // 5
        begin = sum(sizes[:number])
        assert torch.equal(part.advantage, samples.advantage[begin : begin + sizes[number]])
        for view in found:
            view.fill_(number)
    ends = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    assert statistics.values[:, 0].tolist() == ends.tolist()
    assert statistics.entropy.tolist() == ends[::5].tolist()


def test_normalized_treats_each_column_for_itself() -> None:
    advantage = torch.tensor([[1.0, 10.0], [3.0, 10.0]])
    assert normalized(advantage).tolist() == [[pytest.approx(-1.0), 0.0], [pytest.approx(1.0), 0.0]]
    stacked = torch.stack((advantage, 7 * advantage + 5))
    torch.testing.assert_close(normalized(stacked), torch.stack((normalized(advantage),) * 2))


def drawn(seed: int, steps: int, copies: int, agents: int) -> torch.Tensor:
    """Who is there, bool [T, E, A], at least somebody."""
    present = torch.rand(steps, copies, agents, generator=torch.Generator().manual_seed(seed)) < 0.7
    present[0, 0, 0] = True
    return present


def own_rows(rows: SharedRows, order: torch.Tensor, batch: int) -> tuple[torch.Tensor, list[int]]:
    """The numbers of the rank's rows in that order, and how many of each minibatch."""
    nothing = torch.zeros(0)
    numbers = torch.arange(len(rows.places))[:, None]
    samples = Samples([numbers], nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    chosen, sizes = rows.minibatches(samples, order, batch)
    return chosen.inputs[0][:, 0], sizes


@given(seed=st.integers(0, 999), count=st.sampled_from([1, 2, 3]), steps=st.integers(1, 5), agents=st.integers(1, 3))
def test_own_rows_are_those_of_one_process(seed: int, count: int, steps: int, agents: int) -> None:
    present = drawn(seed, steps, 6, agents)
    names = torch.arange(present.numel()).view(present.shape)
    whole = names[present]
    batch = max(1, len(whole) // 3)
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))[: len(whole) // batch * batch]

    def work(ranks: Ranks) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
        share = ranks.share(6)
        rows = SharedRows(ranks, present[:, share], torch.Generator())
        own = names[:, share][present[:, share]]
        assert rows.count == len(whole)
        assert (whole[rows.places] == own).all()
        chosen, sizes = own_rows(rows, order, batch)
        return own[chosen], torch.tensor(sizes).cumsum(0), sizes

    found = together(count, work)
    for index, minibatch in enumerate(torch.split(whole[order], batch)):
        parts = [own[end[index] - sizes[index] : end[index]] for own, end, sizes in found]
        assert sorted(torch.cat(parts).tolist()) == sorted(minibatch.tolist())
        for part in parts:
            assert part.tolist() == [name for name in minibatch.tolist() if name in set(part.tolist())], "in that order"


def test_normalised_over_all_or_over_each_minibatch() -> None:
    present = drawn(1, 40, 4, 3)
    values = torch.randn(int(present.sum()), 2, generator=torch.Generator().manual_seed(2)) * 7.0 + 100.0
    batch = 25
    order = torch.randperm(len(values), generator=torch.Generator().manual_seed(3))[: len(values) // batch * batch]
    wanted = torch.empty_like(values)
    wanted[order] = normalized(values[order].view(-1, batch, 2)).view(-1, 2)
    places = torch.full(present.shape, -1)
    places[present] = torch.arange(len(values))

    def work(ranks: Ranks) -> torch.Tensor:
        share = ranks.share(4)
        rows = SharedRows(ranks, present[:, share], torch.Generator())
        mine = places[:, share][present[:, share]]
        own = values[mine]
        assert rows.normalized(own).numpy() == pytest.approx(normalized(values)[mine].numpy(), abs=1e-4)
        assert rows.variance(own).tolist() == pytest.approx(values.var(dim=0, correction=0).tolist(), rel=1e-5)
        assert rows.mean(own).tolist() == pytest.approx(values.mean(dim=0).tolist(), rel=1e-6)
        chosen, sizes = own_rows(rows, order, batch)
        found = rows.normalized(own[chosen], sizes, batch)
        assert found.dtype == torch.float32
        assert found.numpy() == pytest.approx(wanted[mine[chosen]].numpy(), abs=1e-4)
        return mine[chosen]

    assert sorted(torch.cat(together(2, work)).tolist()) == sorted(order.tolist())


def test_a_rank_may_have_nothing_of_a_minibatch() -> None:
    present = torch.zeros(3, 2, 1, dtype=torch.bool)
    present[:, 0] = True

    def work(ranks: Ranks) -> tuple[list[int], list[float]]:
        rows = SharedRows(ranks, present[:, ranks.share(2)], torch.Generator())
        chosen, sizes = own_rows(rows, torch.tensor([2, 0, 1]), 3)
        own = torch.tensor([[1.0], [2.0], [3.0]])[: len(rows.places)]
        return sizes, rows.normalized(own[chosen], sizes, 3).flatten().tolist()

    (first, values), (second, none) = together(2, work)
    assert (first, second) == ([3], [0])
    assert values == pytest.approx([1.2247, -1.2247, 0.0], abs=1e-4)
    assert none == []


def test_members_draw_and_normalise_for_themselves() -> None:
    """Of two minibatches with four rows of each of three members."""
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2, 3)]
    rows, alone = MemberRows(9, generators), [torch.Generator().manual_seed(seed) for seed in (1, 2, 3)]
    nothing, numbers = torch.zeros(0), torch.arange(27.0)[:, None]
    samples = Samples([numbers], nothing, nothing, nothing, nothing, numbers, numbers, numbers, nothing)
    order = rows.order(nothing)
    assert order.tolist() == [torch.randperm(9, generator=each).tolist() for each in alone]
    epoch, sizes = rows.minibatches(samples, order[:, :8], 4)
    assert sizes == [12, 12]
    found = epoch.returns.view(2, 3, 4)
    wanted = order[:, :8].view(3, 2, 4).transpose(0, 1) + 9 * torch.arange(3)[:, None]
    assert torch.equal(found, wanted.float())
    shifted = rows.normalized(epoch.advantage, sizes, 4).view(2, 3, 4)
    torch.testing.assert_close(shifted[1, 2], normalized(found[1, 2][:, None])[:, 0])
    whole = rows.normalized(numbers).view(3, 9)
    torch.testing.assert_close(whole[1], normalized(numbers[9:18])[:, 0])
