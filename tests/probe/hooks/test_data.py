from __future__ import annotations

import functools
import os

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, TensorDataset

from autotune.probe.hooks.data import ARGUMENTS, _timed_iter


@pytest.fixture
def dataset():
    return TensorDataset(torch.arange(12.0))


class Lines(IterableDataset):
    def __iter__(self):
        return iter(range(5))


def of(session, kind):
    return [event[3:] for event in session.recorder.events if event[0] == kind]


def test_one_epoch_is_one_iter_and_a_fetch_per_batch_and_one_for_the_end(probed, dataset):
    loader = DataLoader(dataset, batch_size=4)
    batches = [batch[0].tolist() for batch in loader]
    assert batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert of(probed, "iter") == [(0, 0)]
    assert of(probed, "fetch") == [(0, 1), (0, 1), (0, 1), (0, 0)]
    assert probed.loaders[0]["num_batches"] == 3


def test_each_batch_is_a_fetch_row_with_its_collate_inside(probed, dataset):
    def collate(samples):
        return torch.stack([sample[0] for sample in samples])

    loader = DataLoader(dataset, batch_size=5, collate_fn=collate)
    list(loader)
    rows = probed.recorder.fetches
    assert [(row[0], row[1], row[7]) for row in rows] == [(0, probed.recorder.pid, size) for size in (5, 5, 2)]
    for _, _, _, wall, cpu, collate_wall, collate_cpu, _, in_main, queued in rows:
        assert in_main
        assert queued is None or 0 <= queued <= wall
        assert 0 < collate_wall <= wall
        assert 0 <= collate_cpu <= cpu
    assert loader.collate_fn is collate


@pytest.mark.parametrize(
    ("make", "given", "expected"),
    [
        pytest.param(lambda data: DataLoader(data), [], {"batch_size": 1, "num_workers": 0}, id="defaults"),
        pytest.param(lambda data: DataLoader(data, 4, True), [], {"batch_size": 4}, id="positional"),
        pytest.param(
            lambda data: DataLoader(data, batch_size=4, num_workers=2, prefetch_factor=3, pin_memory=False),
            ["batch_size", "num_workers", "pin_memory", "prefetch_factor"],
            {"batch_size": 4, "num_workers": 2, "prefetch_factor": 3, "persistent_workers": False},
            id="keywords",
        ),
        pytest.param(
            lambda data: DataLoader(data, num_workers=1, multiprocessing_context="spawn"),
            ["multiprocessing_context", "num_workers"],
            {"prefetch_factor": 2, "multiprocessing_context": "spawn"},
            id="context",
        ),
        pytest.param(
            lambda data: DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 3, True)),
            ["batch_sampler"],
            {"batch_size": None, "drop_last": False},
            id="batch sampler",
        ),
    ],
)
def test_arguments_are_the_resolved_ones(probed, dataset, make, given, expected):
    loader = make(dataset)
    (row,) = probed.loaders
    assert row["given"] == given
    assert {name: row["arguments"][name] for name in expected} == expected
    assert set(row["arguments"]) == {*ARGUMENTS, "multiprocessing_context"}
    assert row["object"]() is loader


class Wrapping:
    """As the Trainer's RemoveColumnsCollator."""

    __module__ = "torch.utils.data"

    def __init__(self, data_collator):
        self.data_collator = data_collator

    def __call__(self, samples):
        return self.data_collator(samples)


def mine(samples):
    return torch.stack([sample[0] for sample in samples])


@pytest.mark.parametrize(
    ("collate", "is_own"),
    [
        (None, False),
        (torch.utils.data.default_collate, False),
        (mine, True),
        (functools.partial(mine), True),
        (Wrapping(mine), True),
        (Wrapping(torch.utils.data.default_collate), False),
    ],
)
def test_whose_the_collate_function_is(probed, dataset, collate, is_own):
    DataLoader(dataset, collate_fn=collate)
    assert probed.loaders[0]["has_own_collate"] is is_own


def test_sampler_and_dataset_are_named(probed, dataset):
    DataLoader(dataset, shuffle=True)
    row = probed.loaders[0]
    assert row["sampler"] == "RandomSampler"
    assert row["dataset"] == {
        "type": "TensorDataset",
        "module": "torch.utils.data.dataset",
        "length": 12,
        "map_style": True,
    }


def test_an_iterable_dataset_has_no_length(probed):
    assert list(DataLoader(Lines(), batch_size=None)) == [0, 1, 2, 3, 4]
    row = probed.loaders[0]
    assert row["dataset"]["length"] is None
    assert row["dataset"]["map_style"] is False
    assert row["num_batches"] is None


def test_a_length_that_fails_is_unknown(probed):
    class Odd(Dataset):
        def __getitem__(self, index):
            return index

        def __len__(self):
            raise OSError("no index yet")

    DataLoader(Odd())
    assert probed.loaders[0]["dataset"]["length"] is None


def test_a_loader_rebuilt_over_the_same_dataset_wraps_the_first(probed, dataset):
    first = DataLoader(dataset, batch_size=4)
    second = DataLoader(first.dataset, batch_sampler=first.batch_sampler)
    third = DataLoader(second.dataset, batch_sampler=second.batch_sampler)
    other = DataLoader(TensorDataset(torch.ones(3)))
    assert [row["wraps"] for row in probed.loaders] == [None, 0, 0, None]
    assert [row["object"]() for row in probed.loaders] == [first, second, third, other]


def test_several_loaders_of_the_user_over_one_dataset_wrap_nothing(probed, dataset):
    loaders = [DataLoader(dataset, batch_size=4), DataLoader(dataset, sampler=RandomSampler(dataset))]
    assert [row["wraps"] for row in probed.loaders] == [None, None]
    del loaders


def test_a_library_rebuilds_the_loader_whose_sampler_it_takes_or_else_the_last(probed, dataset):
    train, evaluation = DataLoader(dataset, sampler=RandomSampler(dataset)), DataLoader(dataset)
    names = {"make": DataLoader, "train": train, "data": dataset, "sampler": RandomSampler(dataset)}
    library = "/env/lib/python3.11/site-packages/accelerate/data_loader.py"
    for call in ("make(data, sampler=sampler)", "make(data, batch_sampler=train.batch_sampler)"):
        exec(compile(f"loader = {call}", library, "exec"), names)
    assert [row["wraps"] for row in probed.loaders] == [None, None, 1, 0]
    del evaluation


def test_workers_of_a_loader_of_the_probes_own_learn_that_they_are_workers(probed):
    iterate = _timed_iter(probed, lambda loader: os.environ["AUTOTUNE_LOADER"])
    probed.recorder.on = False
    assert iterate(object()) == f"{os.getpid()}:-1"
    assert "AUTOTUNE_LOADER" not in os.environ


def test_a_loader_whose_dataset_died_is_not_wrapped_by_one_at_its_address(probed):
    for _ in range(3):
        DataLoader(TensorDataset(torch.ones(3)))
    assert [row["wraps"] for row in probed.loaders] == [None, None, None]


def test_a_subclass_is_one_loader(probed, dataset):
    class Mine(DataLoader):
        def __init__(self, data):
            super().__init__(data, batch_size=2)

    Mine(dataset)
    assert [row["arguments"]["batch_size"] for row in probed.loaders] == [2]


def test_the_site_is_the_line_of_the_call(probed, dataset):
    DataLoader(dataset)
    site = probed.loaders[0]["site"]
    assert (site["file"], site["function"], site["is_user"]) == (
        __file__,
        "test_the_site_is_the_line_of_the_call",
        True,
    )


def test_a_loader_that_a_library_makes_names_the_library(probed, dataset):
    library = "/env/lib/python3.11/site-packages/transformers/trainer.py"
    exec(compile("loader = make(data)", library, "exec"), {"make": DataLoader, "data": dataset})
    site = probed.loaders[0]["site"]
    assert (site["file"], site["is_user"]) == (library, False)


def test_a_failing_sample_names_the_fetch(probed):
    class Broken(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            raise ValueError("bad record")

    with pytest.raises(ValueError, match="bad record"):
        next(iter(DataLoader(Broken())))
    assert probed.recorder.failed_phase == "fetch"
    assert probed.recorder.stack == []
    assert of(probed, "fetch") == [(0, 0)]


def test_the_train_loader_is_the_one_before_backwards(probed, dataset):
    evaluation, train = DataLoader(dataset, batch_size=1), DataLoader(dataset, batch_size=4)
    model = torch.nn.Linear(1, 1)
    for _ in range(2):
        list(evaluation)
        for (x,) in train:
            model(x[:, None]).sum().backward()
    assert probed.train_loader() == 1


@pytest.mark.parametrize(("arguments", "is_train"), [({"batch_size": 4}, True), ({"batch_size": 3}, False)])
def test_a_loader_that_is_made_anew_once_training_has_begun_is_the_train_loader(probed, dataset, arguments, is_train):
    def make(**given):
        return DataLoader(dataset, **given)

    first, unused = make(batch_size=4), make(batch_size=4)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in first:
        model(x[:, None]).sum().backward()
        optimizer.step()
    second = make(**arguments)
    assert [probed.is_train_loader(one._autotune_id) for one in (first, unused, second)] == [True, False, is_train]
    assert not probed.is_train_loader(-1)


def test_without_loaders_there_is_no_train_loader(probed):
    torch.nn.Linear(1, 1)(torch.ones(1, 1)).sum().backward()
    assert probed.train_loader() == -1


class Refusing(dict):
    """A batch that no copy can be made of."""

    def __copy__(self):
        raise RuntimeError("one of a kind")


def test_a_batch_that_cannot_be_looked_into_reaches_the_script_all_the_same(probed, dataset):
    loader = DataLoader(dataset, batch_size=4, collate_fn=lambda samples: Refusing(x=torch.ones(4, 1)))
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = 0
    for batch in loader:
        model(batch["x"]).sum().backward()
        optimizer.step()
        seen += 1
    assert seen == 3


class LengthRaises(torch.utils.data.BatchSampler):
    def __len__(self):
        raise NotImplementedError("unknown")


def test_a_sampler_whose_length_raises_does_not_break_the_loop(probed, dataset):
    sampler = LengthRaises(torch.utils.data.SequentialSampler(dataset), batch_size=2, drop_last=False)
    # Not list(...): that asks for the length itself, and natively raises too.
    assert sum(1 for _ in torch.utils.data.DataLoader(dataset, batch_sampler=sampler)) > 1
    assert probed.loaders[0]["num_batches"] is None
