from __future__ import annotations

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from autotune.probe import repeated


class Samples(Dataset):
    """An own dataset; `sample(index)` makes what it gives."""

    def __init__(self, sample):
        self.sample, self.asked = sample, []

    def __len__(self):
        return 32

    def __getitem__(self, index):
        self.asked.append(index)
        return self.sample(index)


def items(sample, **arguments):
    return repeated.items(DataLoader(Samples(sample), batch_size=12, **arguments))


@pytest.mark.parametrize(
    "sample",
    [
        lambda index: torch.full((2,), float(index)),
        lambda index: (numpy.full(2, index), index, "text"),
        lambda index: {"x": [torch.tensor(index)], "y": {"z": float(index)}},
    ],
    ids=["tensor", "tuple", "dict"],
)
def test_samples_that_are_the_same_each_time(sample):
    found = items(sample)
    assert found["is_own"] and found["are_same"]
    assert found["batch_size"] == 12
    assert len(found["item_ns"]) == len(found["item_cpu_ns"]) == repeated.ITEMS


@pytest.mark.parametrize(
    "sample",
    [
        lambda index: torch.rand(2),
        lambda index: {"x": index, "y": numpy.random.rand(2)},
        lambda index: [torch.zeros(int(torch.randint(1, 1 << 30, ())) % 97 + 1)],
        lambda index: object(),
    ],
    ids=["tensor", "array in a dict", "shape", "objects without a value"],
)
def test_samples_that_differ(sample):
    assert items(sample)["are_same"] is False


def test_what_is_kept_after_it_was_read_costs_nothing_again():
    kept = {}

    def sample(index):
        if index not in kept:
            kept[index] = sum(range(200_000))
        return kept[index]

    found = items(sample)
    assert found["are_same"]
    assert max(found["item_ns"]) < 1_000_000


def test_each_is_read_twice_in_the_order_of_the_sampler():
    dataset = Samples(lambda index: index)
    repeated.items(DataLoader(dataset, batch_size=3, sampler=[5, 9, 2]))
    assert dataset.asked == [5, 9, 2, 5, 9, 2]


def test_a_subset_of_an_own_dataset_is_own():
    assert repeated.items(DataLoader(Subset(Samples(lambda index: index), [3, 4])))["is_own"]


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(TensorDataset(torch.ones(4, 2))),
        DataLoader(Subset(TensorDataset(torch.ones(4, 2)), [1])),
        DataLoader([1, 2, 3]),
        DataLoader(Samples(lambda index: index), batch_size=None),
    ],
    ids=["of torch", "a subset of it", "a list", "without batches"],
)
def test_of_others_nothing_is_read(loader):
    assert repeated.items(loader) == {"is_own": False}
