from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple

import pytest
import torch

from autotune.probe.what_ifs.batch_copies import cloned, narrowed, resized, shallow, with_length, with_samples

Pair = namedtuple("Pair", ["x", "y"])


class Encoding(UserDict):
    """Keeps its items in `data` and gives them as attributes, as transformers.BatchEncoding does."""

    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


def ids(size=4):
    return torch.arange(size * 3).reshape(size, 3)


def batches():
    return {
        "tensor": ids(),
        "tuple": (ids(), torch.ones(4)),
        "list": [ids(), torch.ones(4)],
        "namedtuple": Pair(ids(), torch.ones(4)),
        "dict": {"input_ids": ids(), "labels": torch.ones(4)},
        "ordered": OrderedDict(input_ids=ids()),
        "encoding": Encoding(input_ids=ids(), labels=torch.ones(4)),
        "nested": {"inputs": {"ids": ids()}, "targets": [torch.ones(4), (torch.zeros(4, 2),)]},
        "texts": {"input_ids": ids(), "text": ["a", "b", "c", "d"]},
        "scalar": (ids(), torch.tensor(0.5)),
    }


def tensors(batch):
    if isinstance(batch, torch.Tensor):
        return [batch]
    items = batch.values() if hasattr(batch, "values") and not isinstance(batch, Pair) else batch
    return [tensor for item in items if not isinstance(item, str) for tensor in tensors(item)]


@pytest.mark.parametrize("name", batches())
def test_a_clone_has_equal_values_in_other_memory_and_the_same_types(name):
    batch = batches()[name]
    copy = cloned(batch)
    assert type(copy) is type(batch)
    assert copy is not batch
    for before, after in zip(tensors(batch), tensors(copy), strict=True):
        assert torch.equal(before, after)
        assert before.data_ptr() != after.data_ptr()


@pytest.mark.parametrize("name", [name for name in batches() if name != "tensor"])
def test_a_shallow_copy_shares_tensors_in_new_containers(name):
    batch = batches()[name]
    copy = shallow(batch)
    assert type(copy) is type(batch)
    assert copy is not batch
    for before, after in zip(tensors(batch), tensors(copy), strict=True):
        assert before is after


def test_a_script_that_pops_from_its_batch_leaves_the_kept_one_whole():
    for batch in (batches()["dict"], batches()["encoding"], batches()["nested"]):
        copy = shallow(batch)
        keys = list(copy)
        batch.pop(keys[0])
        assert list(copy) == keys


@pytest.mark.parametrize("factor", [0.5, 2, 4])
@pytest.mark.parametrize("name", batches())
def test_resizing_changes_the_first_dimension_of_every_tensor_and_nothing_else(name, factor):
    batch, size = batches()[name], 4
    other = resized(batch, factor)
    assert type(other) is type(batch)
    for before, after in zip(tensors(batch), tensors(other), strict=True):
        if before.dim():
            assert after.shape == (int(size * factor), *before.shape[1:])
            first = min(size, after.shape[0])
            assert torch.equal(after[:first], before[:first])
        else:
            assert after is before


@pytest.mark.parametrize(("factor", "texts"), [(0.5, ["a", "b"]), (2, ["a", "b", "c", "d"] * 2)])
def test_lists_of_one_item_a_sample_go_along(factor, texts):
    assert resized(batches()["texts"], factor)["text"] == texts


def test_the_original_is_untouched():
    batch = batches()["nested"]
    resized(batch, 0.5)["inputs"]["ids"].zero_()
    assert torch.equal(batch["inputs"]["ids"], ids())


@pytest.mark.parametrize(
    ("batch", "factor", "message"),
    [
        pytest.param({"a": ids(4), "b": torch.ones(8)}, 2, "differ", id="two sizes"),
        pytest.param({"text": ["a", "b"]}, 2, "differ", id="no tensor"),
        pytest.param(ids(1), 0.5, "halved", id="one sample"),
    ],
)
def test_what_cannot_be_resized_is_refused(batch, factor, message):
    with pytest.raises(ValueError, match=message):
        resized(batch, factor)


def test_one_sample_can_be_doubled():
    assert resized(ids(1), 2).tolist() == [[0, 1, 2]] * 2
    assert resized(ids(1), 4).tolist() == [[0, 1, 2]] * 4


def test_what_lay_in_pinned_memory_does_so_again(monkeypatch):
    pinned = torch.ones(3)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda self: self is pinned)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.mul_(-1))
    copies = cloned({"pinned": pinned, "plain": torch.ones(3)})
    assert (copies["pinned"].tolist(), copies["plain"].tolist()) == ([-1.0] * 3, [1.0] * 3)
    assert pinned.tolist() == [1.0] * 3


def test_narrowed_cuts_what_is_as_wide_as_the_batch():
    batch = {"input_ids": ids(), "labels": ids(), "weights": torch.ones(4), "features": torch.ones(4, 5), "name": "a"}
    narrow = narrowed(batch, 3)
    assert {name: tuple(value.shape) for name, value in narrow.items() if name != "name"} == {
        "input_ids": (4, 1),
        "labels": (4, 1),
        "weights": (4,),
        "features": (4, 5),
    }
    assert narrow["name"] == "a"
    assert batch["input_ids"].shape == (4, 3)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_a_batch_of_any_number_of_samples_has_those_in_turns(count):
    batch = {"ids": torch.arange(6).reshape(3, 2), "texts": ["a", "b", "c"], "scale": torch.tensor(2.0), "name": "x"}
    other = with_samples(batch, 3, count)
    assert other["ids"].tolist() == [[[0, 1], [2, 3], [4, 5]][index % 3] for index in range(count)]
    assert other["texts"] == [["a", "b", "c"][index % 3] for index in range(count)]
    assert (other["scale"], other["name"]) == (2.0, "x")
    assert batch["ids"].shape == (3, 2)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_sequences_of_any_length_are_cut_or_repeated(length):
    batch = (torch.arange(6).reshape(3, 2), torch.arange(3))
    ids, labels = with_length(batch, 2, length)
    assert ids[1].tolist() == [[2, 3][index % 2] for index in range(length)]
    assert labels.tolist() == [0, 1, 2]
