from __future__ import annotations

import dataclasses
from collections import namedtuple
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from autotune.probe.hooks import batches

Pair = namedtuple("Pair", ["x", "y"])
IDS = torch.tensor([[5, 6, 7, 0], [8, 9, 0, 0], [3, 4, 5, 6]])
MASK = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
KNOWN = {"tokens": 12, "width": 4, "num_samples": 3, "useful_tokens": 9, "lengths": [3, 2, 4]}
UNKNOWN = {"tokens": 12, "width": 4, "num_samples": 3}


@dataclasses.dataclass
class Example:
    ids: torch.Tensor
    name: str


class Encoding(dict):
    """As transformers.BatchEncoding: items and attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@pytest.mark.parametrize(
    ("batch", "names"),
    [
        pytest.param(IDS, [""], id="tensor"),
        pytest.param((IDS, IDS), ["", ""], id="tuple"),
        pytest.param([IDS, (IDS,)], ["", ""], id="nested list"),
        pytest.param(Pair(IDS, IDS), ["", ""], id="namedtuple"),
        pytest.param({"a": IDS, "b": [IDS, IDS]}, ["a", "b", "b"], id="dict"),
        pytest.param({"outer": {"a": IDS}}, ["a"], id="the innermost key"),
        pytest.param(Encoding(input_ids=IDS), ["input_ids"], id="encoding"),
        pytest.param(Example(IDS, "x"), ["ids"], id="dataclass"),
        pytest.param({"text": ["a"], "n": 3}, [], id="no tensor"),
        pytest.param(SimpleNamespace(x=IDS), [], id="unknown type"),
    ],
)
def test_tensors_of_a_batch_by_name(batch, names):
    assert [name for name, _ in batches.leaves(batch)] == names


def described(batch, pad_id=None):
    return batches.describe(batches.leaves(batch), pad_id)


def test_an_image_batch_has_samples_and_bytes_and_no_tokens():
    batch = (torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.int64))
    assert described(batch) == {
        "num_samples": 2,
        "num_bytes": 2 * 3 * 8 * 8 * 4 + 2 * 8,
        "shapes": [[2, 3, 8, 8], [2]],
    }


def test_a_batch_without_tensors_has_unknown_samples():
    assert described({"text": ["a"]}) == {"num_samples": None, "num_bytes": 0, "shapes": []}


@pytest.mark.parametrize(
    ("batch", "pad_id", "expected"),
    [
        pytest.param(
            {"input_ids": IDS, "attention_mask": MASK}, None, {**KNOWN, "padding": "attention_mask"}, id="mask by name"
        ),
        pytest.param(
            {"input_ids": IDS, "decoder_attention_mask": MASK},
            None,
            {**KNOWN, "padding": "attention_mask"},
            id="a mask of a longer name",
        ),
        pytest.param((IDS, MASK), None, {**KNOWN, "padding": "attention_mask"}, id="mask by shape"),
        pytest.param((IDS, MASK.bool()), None, {**KNOWN, "padding": "attention_mask"}, id="boolean mask by shape"),
        pytest.param((IDS, IDS), 0, {**KNOWN, "padding": "pad_id"}, id="labels are no mask"),
        pytest.param({"input_ids": IDS}, 0, {**KNOWN, "padding": "pad_id"}, id="pad id"),
        pytest.param(
            {"input_ids": IDS, "attention_mask": MASK}, 6, {**KNOWN, "padding": "attention_mask"}, id="mask before id"
        ),
        pytest.param({"input_ids": IDS}, None, UNKNOWN, id="nothing says what is padding"),
        pytest.param(
            {"input_ids": IDS, "token_type_ids": torch.zeros_like(IDS)}, None, UNKNOWN, id="named flags are no mask"
        ),
        pytest.param((IDS, MASK.flip(1)), None, UNKNOWN, id="flags that begin with 0 are no mask"),
        pytest.param({"labels": IDS[:, 0], "x": IDS}, 0, {**KNOWN, "padding": "pad_id"}, id="ids by type"),
        pytest.param(
            {"input_ids": IDS, "attention_mask": MASK[:, None, None, :]}, None, UNKNOWN, id="mask of another shape"
        ),
    ],
)
def test_tokens_and_padding(batch, pad_id, expected):
    row = described(batch, pad_id)
    assert {name: value for name, value in row.items() if name not in ("num_bytes", "shapes")} == expected


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param({"x": torch.zeros(3, 4)}, id="floats"),
        pytest.param({"labels": torch.zeros(3, 1, dtype=torch.int64)}, id="one column"),
        pytest.param({"input_ids": torch.zeros(3, 4, 5, dtype=torch.int64)}, id="three dimensions"),
    ],
)
def test_what_is_no_token_ids(batch):
    assert "tokens" not in described(batch)


def test_a_huge_batch_is_counted_but_not_looked_into(monkeypatch):
    monkeypatch.setattr(batches, "MOST_TOKENS", 11)
    row = described({"input_ids": IDS, "attention_mask": MASK})
    assert row["tokens"] == 12
    assert "lengths" not in row


class Texts(Dataset):
    """Batches of IDS, one row at a time."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return {"input_ids": IDS[index]}


class Collator:
    """Stacks, and has what collators have: a tokenizer or a pad id."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __call__(self, samples):
        return {"input_ids": torch.stack([sample["input_ids"] for sample in samples])}


@pytest.mark.parametrize(
    ("collator", "dataset", "expected"),
    [
        pytest.param({"tokenizer": SimpleNamespace(pad_token_id=0)}, {}, 0, id="collator's tokenizer"),
        pytest.param({"pad_token_id": 0}, {}, 0, id="collator"),
        pytest.param({}, {"tokenizer": SimpleNamespace(pad_token_id=0)}, 0, id="dataset's tokenizer"),
        pytest.param({"pad_token_id": 7}, {"pad_id": 0}, 7, id="collator before dataset"),
        pytest.param({"tokenizer": SimpleNamespace(pad_token_id=None)}, {}, None, id="a tokenizer without one"),
        pytest.param({"pad_token_id": True}, {}, None, id="no number"),
    ],
)
def test_where_the_pad_id_comes_from(probed, collator, dataset, expected):
    data = Texts()
    vars(data).update(dataset)
    loader = DataLoader(data, batch_size=3, collate_fn=Collator(**collator))
    list(loader)
    (row,) = probed.recorder.batches
    assert probed.loaders[0]["pad_id"] == expected
    assert row.get("padding") == (None if expected is None else "pad_id")
    if expected == 0:
        assert row["lengths"] == [3, 2, 4]


def test_the_pad_id_of_the_embedding_is_the_last_resort(probed):
    model = torch.nn.Embedding(10, 2, padding_idx=0)
    model(IDS)
    list(DataLoader(Texts(), batch_size=3))
    assert probed.recorder.batches[0]["lengths"] == [3, 2, 4]


def test_after_the_first_batches_one_in_eight_is_looked_at(probed, monkeypatch):
    monkeypatch.setattr(batches, "ALL_UNTIL", 4)
    list(DataLoader(torch.arange(24.0), batch_size=1))
    assert len(probed.recorder.batches) == 4 + 3


def test_a_long_run_keeps_a_limited_number(probed, monkeypatch):
    monkeypatch.setattr(batches, "MOST_BATCHES", 5)
    list(DataLoader(torch.arange(24.0), batch_size=1))
    assert len(probed.recorder.batches) == 5


COUNTS = torch.tensor([3, 1, 4])


def padded(fill=0.0, width=4):
    """Frames of three samples, of which the first COUNTS are no padding."""
    frames = torch.rand(3, width, 5) + 1
    for row, count in zip(frames, COUNTS, strict=True):
        row[count:] = fill
    return frames


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param((padded(), COUNTS), id="frames"),
        pytest.param((padded(fill=-1.0), COUNTS.int()), id="another value, other integers"),
        pytest.param((padded()[:, :, 0], COUNTS), id="one value a place"),
        pytest.param((torch.zeros(3, dtype=torch.int64), COUNTS, padded()), id="labels beside them"),
        pytest.param((torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0], [3, 4, 5, 6]]), COUNTS), id="token ids"),
    ],
)
def test_lengths_beside_sequences_say_what_is_padding(batch):
    row = described(batch)
    assert (row["tokens"], row["width"], row["num_samples"]) == (12, 4, 3)
    assert (row["useful_tokens"], row["lengths"], row["padding"]) == (8, [3, 1, 4], "counts")


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param((torch.rand(3, 4, 5), COUNTS), id="what follows is no padding"),
        pytest.param((padded(), torch.tensor([0, 1, 4])), id="a label of zero"),
        pytest.param((padded(), torch.tensor([3, 1, 5])), id="longer than the rows"),
        pytest.param((padded(), torch.tensor([4, 4, 4])), id="all rows are full"),
        pytest.param((padded(), COUNTS[:2]), id="not one for each row"),
        pytest.param((padded(), COUNTS.float()), id="no integers"),
        pytest.param((torch.zeros(3, 4, 5, 5), COUNTS), id="images"),
        pytest.param((torch.zeros(3, 1, 5), COUNTS.clamp(max=1)), id="one place"),
        pytest.param((torch.cat([torch.zeros(3, 4, 1), torch.rand(3, 4, 5)], 2), COUNTS), id="a constant feature"),
        pytest.param((torch.rand(3, 2), torch.tensor([2, 1, 2])), id="one value is always itself"),
        pytest.param((torch.zeros(3, 4, 5), COUNTS), id="all places are alike"),
    ],
)
def test_other_integers_are_no_lengths(batch):
    assert "lengths" not in described(batch)
