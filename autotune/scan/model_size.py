"""The size of a model, as its name says it: Llama-3.2-1B, Mixtral-8x7B, torchtune.models.qwen2_5.qwen2_5_1_5b_base."""

from __future__ import annotations

import re

from msgspec import Struct

from autotune.model.scanned import WrittenValue

SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,6})x)?(\d{1,6}(?:\.\d{1,6})?)([bm])(?![a-z0-9])")

UNITS = {"b": 1.0, "m": 1e-3}

DECIMAL = re.compile(r"(?<=-)(\d)_(\d[bm])\b")
"""stablelm-2-1_6b."""

IN_FUNCTION = re.compile(r"(?<=_)(\d)_(\d[bm])(?![a-z0-9])")
"""The same in what is left of the name of a function: _1_5b_base."""


class NamedSize(Struct, frozen=True):
    """Billions of parameters. `has_experts` says that the name is a product (8x7B), which counts shared parts often."""

    billions: float
    has_experts: bool


def named_size(given: WrittenValue) -> NamedSize | None:
    """What the last part of the path `given` says; None where it says nothing or two sizes, or is not known."""
    name = str(given.value).lower().rstrip("/").rpartition("/")[2]
    sizes = list(SIZE.finditer(_plain(name))) if given.known else []
    if len(sizes) != 1:
        return None
    found = sizes[0]
    return NamedSize(float(found[2]) * int(found[1] or 1) * UNITS[found[3]], found[1] is not None)


def _plain(name: str) -> str:
    """With hyphens, and with a point in its number. A builder of torchtune repeats the name of its module, which has
    the release: qwen2_5.qwen2_5_1_5b_base is 2.5, 1.5b."""
    *before, last = name.split(".")
    if before[:1] == ["torchtune"] and before[-1] in last:
        last = last.replace(before[-1], "", 1)
        return IN_FUNCTION.sub(r"\1.\2", last).replace("_", "-")
    return DECIMAL.sub(r"\1.\2", name).replace("_", "-")
