"""Whether samples of unequal length make a batch: what pads them where they are put together."""

from __future__ import annotations

import ast

from autotune.scan.python.index import base_name, last_name
from autotune.scan.python.origins import origins
from autotune.scan.python.view import View

COLLATORS = "DataCollator"
"""How transformers' own collators are called: they pad and stack what is tokenised already."""

STACKS = frozenset({"DefaultDataCollator", "DataCollatorWithFlattening"})
"""Those of them that pad nothing."""

COLLATES = frozenset({"collate_fn", "data_collator"})
"""Arguments that take what puts a batch together."""

TOKENIZERS = frozenset({"tokenizer", "processing_class"})
"""Arguments by which a Trainer that is given no collator pads by itself."""

UNPADDED = "no collator that pads was found, and samples of unequal length do not stack: pad in the collate function"


def doubt(view: View, tokenizer: ast.Call) -> str:
    """Why other padding at the call of a tokenizer might break the run; "" where batches are padded, there or later."""
    is_padded = _collates(view, tokenizer) or any(map(_pads, view.index.calls))
    return "" if is_padded else UNPADDED


def _pads(call: ast.Call) -> bool:
    """`DataCollatorWithPadding(...)`, `pad_sequence(...)`, `tokenizer.pad(...)`, `Trainer(tokenizer=...)`."""
    name, given = last_name(call.func), {keyword.arg for keyword in call.keywords}
    if name.startswith(COLLATORS):
        return name not in STACKS
    if name.endswith("Trainer"):
        return "data_collator" not in given and bool(given & TOKENIZERS)
    return name == "pad_sequence" or (name == "pad" and "tokenizer" in base_name(call).lower())


def _collates(view: View, call: ast.Call) -> bool:
    """Whether a call stands in a collate function: it has all samples of a batch."""
    given = [one.value for each in view.index.calls for one in each.keywords if one.arg in COLLATES]
    made = [origin.node for value in given for origin in origins(view, value)]
    named = {last_name(one) for node in made if isinstance(node, ast.expr) for one in ast.walk(node)} - {""}
    return any(outer in made or getattr(outer, "name", "") in named for outer in view.index.up(call))
