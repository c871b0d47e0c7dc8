from __future__ import annotations

import itertools

import pytest
import torch

from tau_trainer.algorithms.batch import in_parts, new_statistics, normalized, shuffled, shuffled_order
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
