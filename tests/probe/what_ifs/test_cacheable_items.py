from __future__ import annotations

from collections import UserDict

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from autotune.probe.what_ifs import cacheable_items


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
    return cacheable_items.items(DataLoader(Samples(sample), batch_size=12, **arguments))


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
    assert len(found["item_ns"]) == len(found["item_cpu_ns"]) == cacheable_items.ITEMS


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


def test_of_small_batches_several_are_read_in_the_order_of_the_sampler():
    dataset = Samples(lambda index: index)
    order = [5, 9, 2, 7, 1, 3, 8, 6, 4]
    found = cacheable_items.items(DataLoader(dataset, batch_size=2, sampler=order))
    assert dataset.asked == order[: cacheable_items.ITEMS] * cacheable_items.READS
    assert found["batch_size"] == 2


def test_a_flip_of_a_coin_is_seen():
    flips = iter([False] * cacheable_items.ITEMS + [True] + [False] * 99)
    assert items(lambda index: next(flips))["are_same"] is False


def test_of_few_samples_nothing_is_told():
    dataset = Subset(Samples(lambda index: index), range(cacheable_items.ITEMS - 1))
    assert cacheable_items.items(DataLoader(dataset, batch_size=4)) == {}


@pytest.mark.parametrize("name", ["epoch", "set_epoch"])
def test_of_a_dataset_that_knows_its_epoch_nothing_is_told(name):
    dataset = Samples(lambda index: index)
    setattr(dataset, name, 0)
    assert cacheable_items.items(DataLoader(Subset(dataset, range(20)), batch_size=4)) == {}


class Encoding(UserDict):
    """As transformers' BatchEncoding: no dict, and its tensors cannot be compared as one."""


class Cells:
    def __eq__(self, other):
        return torch.ones(2) == torch.ones(2)


def test_mappings_are_looked_into_and_what_has_no_answer_differs():
    assert items(lambda index: Encoding(ids=torch.arange(index + 2)))["are_same"] is True
    assert items(lambda index: Cells())["are_same"] is False


def test_a_subset_of_an_own_dataset_is_own():
    assert cacheable_items.items(DataLoader(Subset(Samples(lambda index: index), range(9))))["is_own"]


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
    assert cacheable_items.items(loader) == {"is_own": False}


def same_batches(dataset, **arguments):
    return cacheable_items.are_same_batches(DataLoader(dataset, **{"batch_size": 12, **arguments}))


def test_a_loader_that_gives_the_same_batch_again():
    assert same_batches(TensorDataset(torch.rand(32, 2)), shuffle=True) is True


def test_noise_of_the_dataset_or_of_the_collate_function_is_seen():
    assert same_batches(Samples(lambda index: torch.rand(2))) is False
    data = TensorDataset(torch.rand(32, 2))
    assert same_batches(data, collate_fn=lambda rows: torch.stack([row[0] for row in rows]) + torch.rand(2)) is False


class Epochs(Samples):
    epoch = 0


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(100))


def fails(_):
    raise OSError


@pytest.mark.parametrize("dataset", [Epochs(float), Stream(), Samples(fails)], ids=["epochs", "stream", "fails"])
def test_where_it_cannot_be_asked_nothing_is_known(dataset):
    assert same_batches(dataset) is None


def test_samples_that_take_long_are_not_asked_for_again(monkeypatch):
    monkeypatch.setattr(cacheable_items, "LONG_NS", -1)
    assert same_batches(Samples(float)) is None
