"""How the samples of a batch get one length: the padding of a tokenizer, and the collator that pads what it did not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from autotune.model.evidence import RUN
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode import values
from autotune.pycode.functions import bindings_of
from autotune.pycode.index import Binding, Index, base_name
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

COLLATORS = "DataCollator"
"""How transformers' own collators are called: they pad and stack what is tokenised already."""

STACKS = frozenset({"DefaultDataCollator", "DataCollatorWithFlattening"})
"""Those of them that pad nothing."""

COLLATES = frozenset({"collate_fn", "data_collator"})
"""Arguments that take what puts a batch together."""

TOKENIZERS = frozenset({"tokenizer", "processing_class"})
"""Arguments by which a Trainer that is given no collator pads by itself."""

UNPADDED = "no collator that pads was found, and samples of unequal length do not stack: pad in the collate function"

STACKER = "default_data_collator"
"""The function of transformers that stacks samples and pads nothing."""

PADDER = "DataCollatorWithPadding"

TEXTS = frozenset({"labels", "decoder_input_ids"})
"""Columns that a padding of the inputs leaves as they are: where they are token ids, they need another collator."""

PAD_OPTION = "pad_to_max_length"
"""What the example scripts of transformers call such an option, and the dialect of torch does."""

FIXED = "max_length"


def padding_doubt(view: ScriptView, tokenizer: ast.Call) -> str:
    """Why other padding at the call of a tokenizer might break the run; "" where batches are padded, there or later, or
    where what stacks them can be replaced."""
    if _is_in_collate_function(view, tokenizer) or any(map(_pads, view.index.calls)):
        return ""
    uses = _stackers(view.index)
    if not uses:
        return UNPADDED
    if _is_replaceable(view, tokenizer, uses):
        return ""
    lines = ", ".join(str(view.place(use).line) for use in uses)
    return (
        f"{STACKER} (line {lines}) pads nothing: from transformers import {PADDER}, and {PADDER}(tokenizer) instead of"
        f" it; {PADDER.replace('WithPadding', 'ForSeq2Seq')}(tokenizer) where labels are token ids"
    )


def collator_calls(view: ScriptView) -> Iterator[ConsumerCall]:
    """What stacks batches of a tokenizer's that pads to a fixed width, and what has to stand there when it does not."""
    for tokenizer in [one for one in view.index.calls if "tokenizer" in last_name(one.func).lower()]:
        uses = _stackers(view.index)
        if (
            _is_in_collate_function(view, tokenizer)
            or any(map(_pads, view.index.calls))
            or not _is_replaceable(view, tokenizer, uses)
        ):
            continue
        for use in (*uses, *_import_aliases(view.index)):
            key = f"{PADDER}({last_name(tokenizer.func)})" if isinstance(use, ast.Name) else PADDER
            yield ConsumerCall(
                "torch", "collator", RUN, {key: WrittenValue(key, STACKER, view.place(use))}, view.place(tokenizer)
            )
        return


def is_mapped(view: ScriptView, tokenizer: ast.Call) -> bool:
    """Whether a tokenizer makes samples, which a collator pads: it has no batch to pad, and makes no tensors of one."""
    return not _is_in_collate_function(view, tokenizer) and all(
        one.arg != "return_tensors" for one in tokenizer.keywords
    )


def _stackers(index: Index) -> list[ast.Name]:
    """Where transformers' function that only stacks is given to something."""
    return [one for one in index.reads.get(STACKER, ()) if full_name(index, one) == f"transformers.{STACKER}"]


def _import_aliases(index: Index) -> list[ast.alias]:
    found = [one.node for one in index.module.bindings.get(STACKER, ()) if one.kind == "import"]
    return [node for node in found if isinstance(node, ast.alias) and node.asname is None]


def _is_replaceable(view: ScriptView, tokenizer: ast.Call, uses: list[ast.Name]) -> bool:
    """Whether the collator that pads can stand where the one that stacks does: as a plain name, where the tokenizer has
    its name too, and of inputs alone."""
    index = view.index
    func = tokenizer.func
    if not uses or not isinstance(func, ast.Name) or len(_import_aliases(index)) != 1:
        return False
    names = index.lookup(func)
    are_given = all(isinstance(index.parents.get(use), ast.keyword) for use in uses)
    scopes = [index.scopes[use] for use in uses]
    are_seen = all(bool(names) and scope.lookup(func.id) is names for scope in scopes)
    has_texts = any(one.value in TEXTS and isinstance(one.value, str) for one in index.strings)
    return are_given and are_seen and not has_texts


def _pads(call: ast.Call) -> bool:
    """`DataCollatorWithPadding(...)`, `pad_sequence(...)`, `tokenizer.pad(...)`, `Trainer(tokenizer=...)`."""
    name, given = last_name(call.func), {keyword.arg for keyword in call.keywords}
    if name.startswith(COLLATORS):
        return name not in STACKS
    if name.endswith("Trainer"):
        return "data_collator" not in given and bool(given & TOKENIZERS)
    return name == "pad_sequence" or (name == "pad" and "tokenizer" in base_name(call).lower())


def _is_in_collate_function(view: ScriptView, call: ast.Call) -> bool:
    """Whether a call stands in a collate function: it has all samples of a batch."""
    given = [one.value for each in view.index.calls for one in each.keywords if one.arg in COLLATES]
    made = [origin.node for value in given for origin in origins(view, value)]
    named = {last_name(one) for node in made if isinstance(node, ast.expr) for one in ast.walk(node)} - {""}
    return any(outer in made or getattr(outer, "name", "") in named for outer in view.index.ancestors(call))


def padding_option(view: ScriptView, node: ast.expr) -> WrittenValue | None:
    """The option that makes the padding `node` a fixed width, true where it does; None where no option decides."""
    for test, yes, no in _conditional_values(view, node):
        ends = origins(view, test)
        given = values.value_of_option(view, ends[0].option) if len(ends) == 1 and ends[0].option is not None else None
        is_fixed = [_is_fixed(view, one) for one in (yes, no)]
        if given is not None and given.known and isinstance(given.value, bool) and is_fixed == [True, False]:
            return replace(given, key=PAD_OPTION)
    return None


def _conditional_values(view: ScriptView, node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The test, what holds where it does, and what else, of a conditional expression or of an if with an else."""
    found = bindings_of(view.index, node)
    for value in [node, *(one.value for one in found)]:
        if isinstance(value, ast.IfExp):
            yield value.test, value.body, value.orelse
    branches = [_branch(view, one) for one in found]
    if len(found) == 2 and None not in branches and branches[0] is branches[1]:
        outer = branches[0]
        inside = sorted(found, key=lambda one: one.node in getattr(outer, "orelse", ()))
        first, second = (one.value for one in inside)
        if isinstance(outer, ast.If) and inside[0].node in outer.body and first is not None and second is not None:
            yield outer.test, first, second


def _branch(view: ScriptView, binding: Binding) -> ast.AST | None:
    outer = view.index.parents.get(binding.node)
    return outer if isinstance(outer, ast.If) else None


def _is_fixed(view: ScriptView, node: ast.expr) -> bool | None:
    found = values.written_value(view, node)
    return found.value == FIXED if found.known else None
