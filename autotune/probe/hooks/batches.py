"""What a batch is made of: samples, bytes, tokens and padding. Cheap, on host tensors only, and never all batches."""

from __future__ import annotations

import dataclasses
import sys

from .. import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..session import ProbeSession
    from ..shapes import Leaf, Row

MOST_BATCHES = 400
ALL_UNTIL = 64
"""So many batches are looked at one by one; after that one in eight, because looking costs time."""

MOST_TOKENS = 1 << 20
"""A batch with more tokens than this is described without looking into it."""

MOST_VALUES = 1 << 22
"""The same of frames, whose values are looked at one by one."""

PAD_NAMES = ("pad_token_id", "pad_id", "padding_value")


def leaves(batch: Any, name: str = "") -> list[Leaf]:
    """(name, tensor) of every tensor in a batch of dicts, tuples, lists and dataclasses; names are the dict keys."""
    if hasattr(batch, "element_size") and hasattr(batch, "shape"):
        return [(name, batch)]
    if hasattr(batch, "items"):
        return [leaf for key, value in batch.items() for leaf in leaves(value, str(key))]
    if isinstance(batch, (list, tuple)):
        return [leaf for value in batch for leaf in leaves(value, name)]
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return leaves({field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)})
    return []


def is_looked_into(number: int) -> bool:
    """Whether the batch of this number, counted from 1, is one of those that are described."""
    return number <= ALL_UNTIL or not number % 8


def note(session: ProbeSession, ref: int, batch: Any) -> None:
    """Keep a description of `batch` of loader `ref`; a probe that fails on an odd batch keeps none."""
    recorder = session.recorder
    if len(recorder.batches) >= MOST_BATCHES or session.window.is_over:
        return
    recorder.num_batches += 1
    if not is_looked_into(recorder.num_batches):
        return
    try:
        row = describe(leaves(batch), _pad_id(session, ref))
        session.plan.keep(ref, batch, row)
    except Exception:  # an odd type of tensor or container: the batch stays undescribed, which means unknown
        return
    recorder.batches.append({"loader": ref, "at_ns": clock.now() - recorder.origin, **row})


def describe(tensors: list[Leaf], pad_id: int | None) -> Row:
    """The Batch fields of a batch with these (name, tensor) leaves."""
    row = {
        "num_samples": int(tensors[0][1].shape[0]) if tensors and tensors[0][1].dim() else None,
        "num_bytes": sum(tensor.numel() * tensor.element_size() for _, tensor in tensors),
        "shapes": [list(tensor.shape) for _, tensor in tensors[:8]],
    }
    ids = _find_ids(tensors)
    if ids is not None:
        row.update(tokens=int(ids.numel()), width=int(ids.shape[1]), num_samples=int(ids.shape[0]))
        row.update(_padding(tensors, ids, pad_id))
    return row if "lengths" in row else {**row, **_counted(tensors)}


def _find_ids(tensors: list[Leaf]) -> Any:
    """Token ids: `input_ids`, else the first 2-D tensor of 64-bit integers."""
    named = [tensor for name, tensor in tensors if name == "input_ids" and tensor.dim() == 2]
    integers = [tensor for _, tensor in tensors if tensor.dim() == 2 and str(tensor.dtype) == "torch.int64"]
    return (named or [tensor for tensor in integers if tensor.shape[1] > 1] or [None])[0]


def _padding(tensors: list[Leaf], ids: Any, pad_id: int | None) -> Row:
    if ids.is_cuda or ids.numel() > MOST_TOKENS:
        return {}
    mask, source = _find_mask(tensors, ids), "attention_mask"
    if mask is None and pad_id is not None:
        mask, source = ids != pad_id, "pad_id"
    if mask is None:
        return {}
    lengths = [int(length) for length in mask.sum(dim=1).tolist()]
    return {"useful_tokens": sum(lengths), "lengths": lengths, "padding": source}


def _counted(tensors: list[Leaf]) -> Row:
    """The same of sequences (tokens or frames) that come with how long each is; nothing where none do.

    A 1-D tensor of integers holds lengths if what follows them in each row is one value, the padding.
    """
    counts = [each for _, each in tensors if each.dim() == 1 and str(each.dtype) in ("torch.int64", "torch.int32")]
    for _, sequence in tensors:
        for lengths in counts if _is_sequence(sequence) else ():
            if _ends_rows(lengths, sequence):
                known = [int(length) for length in lengths.tolist()]
                size = {"tokens": len(known) * sequence.shape[1], "width": sequence.shape[1], "num_samples": len(known)}
                return {**size, "useful_tokens": sum(known), "lengths": known, "padding": "counts"}
    return {}


def _is_sequence(tensor: Any) -> bool:
    """Whether it has a place for each token (2-D) or frame (3-D) of each sample."""
    has_places = tensor.dim() in (2, 3) and tensor.shape[1] > 1 and 0 < tensor.numel() <= MOST_VALUES
    return has_places and not tensor.is_cuda


def _ends_rows(lengths: Any, sequence: Any) -> bool:
    """Whether each row is `lengths` long: one value follows, in two places at least, and another one comes before."""
    width = sequence.shape[1]
    if lengths.is_cuda or len(lengths) != sequence.shape[0]:
        return False
    if int(lengths.min()) < 1 or int(lengths.max()) > width:
        return False
    is_padding = sys.modules["torch"].arange(width)[None, :] >= lengths[:, None]
    if int(is_padding.sum()) < 2:
        return False
    first = sequence if sequence.dim() == 2 else sequence[:, :, 0]
    value = first[is_padding][0]
    # The first feature alone decides most that are none.
    if not bool((first[is_padding] == value).all()) or not bool((sequence[is_padding] == value).all()):
        return False
    last = sequence[range(len(lengths)), lengths.long() - 1]
    return bool((last != value).any())


def _find_mask(tensors: list[Leaf], ids: Any) -> Any:
    """The attention mask: by its name, else another tensor of the same shape that holds only 0 and 1, 1 first."""
    for name, tensor in tensors:
        if "attention_mask" in name and tensor.shape == ids.shape:
            return tensor
    for name, tensor in tensors:
        if not name and tensor is not ids and tensor.shape == ids.shape and not tensor.is_floating_point():
            flags = tensor.long()
            if bool(((flags == 0) | (flags == 1)).all()) and bool(flags[:, 0].all()):
                return flags
    return None


def _pad_id(session: ProbeSession, ref: int) -> int | None:
    """The padding token: of the collator or dataset (or their tokenizer), else the embedding's padding index.

    Searched again only when a new model came: walking through modules and loaders at every batch would cost.
    """
    if ref < 0:
        return None
    row, state = session.loaders[ref], len(session.models)
    if row["pad_id"] is None and row.get("searched") != state:
        row["searched"] = state
        row["max_length"] = _max_length(_owners(row["object"]()))
        owners = _owners(row["object"]())
        found = [_integer(getattr(owner, name, None)) for owner in owners for name in PAD_NAMES]
        known = [value for value in found + session.padding_indices() if value is not None]
        row["pad_id"] = known[0] if known else None
    pad_id: int | None = row["pad_id"]
    return pad_id


def _owners(loader: Any) -> list[Any]:
    """The collator (also inside what the Trainer wraps around it), the dataset, and their tokenizers."""
    owners = [getattr(loader, "collate_fn", None), getattr(loader, "dataset", None)]
    for name in ("data_collator", "func", "__self__"):
        owners += [getattr(owner, name, None) for owner in owners]
    tokenizers = [getattr(owner, name, None) for owner in owners for name in ("tokenizer", "processing_class")]
    return [owner for owner in owners + tokenizers if owner is not None]


def _max_length(owners: list[Any]) -> int | None:
    """Where a fast tokenizer among `owners` cuts samples, None when it does not or none is there."""
    for owner in owners:
        truncation = getattr(getattr(owner, "_tokenizer", None), "truncation", None)
        if isinstance(truncation, dict):
            return _integer(truncation.get("max_length"))
    return None


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
