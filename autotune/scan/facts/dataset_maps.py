"""Calls of `map` of the hub's datasets that prepare rows one after another in one process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.index import Function
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.facts.decoding import decodes, functions_of
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.training_loops import TrainingStep, step_path
from autotune.syntax.python import last_name

HUB = frozenset({"datasets"})
"""The package whose datasets have this `map`."""

MAKES = ("load_dataset", "load_from_disk", "concatenate_datasets", "from_generator", "from_list")
"""What makes datasets of this package: a project may have one of the same name, and another library a `map`."""

OTHERS = re.compile(r"WebDataset|\bwds\b|\btf\.|\bpd\.|DataPipe|\bPool\b|\bray\b")
"""In what a `map` is called on: pipelines that are lazy, or have processes of their own."""

TOKENIZES = re.compile(r"(?:^|_)tokenizer$|^apply_chat_template$")
"""What is called where a row becomes tokens."""

TINY = re.compile(r"dummy|tiny|toy|(?:^|[/_-])mini|\[\s*:\s*\d{1,4}\s*\]|\[\s*:\s*\d%")
"""What the names of data sets and splits have of which a few rows are read."""

NO_PROCESSES = (None, 0, 1)


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.maps_in_one_process` and `code.maps_media_in_one_process`, where a `map` certainly gets no processes
    and its function tokenises rows one by one, or decodes pictures or sound."""
    index = script.view.index
    roots = {module.partition(".")[0] for module in index.imports}
    if (
        not roots & HUB
        or not any(name in index.called for name in MAKES)
        or _may_stream(script.view)
        or _is_tiny(script.view)
    ):
        return
    media: list[ast.Call] = []
    texts: list[ast.Call] = []
    for call in index.called.get("map", ()):
        function = _mapped(call)
        if (
            function is None
            or OTHERS.search(ast.unparse(call.func))
            or is_reached(script.view, call) is False
            or not _is_alone(script.view, call)
        ):
            continue
        found = list(functions_of(script.view, function))
        if any(decodes(script.view, one) for one in found):
            media.append(call)
        elif not _is_batched(call) and any(_tokenizes(script.view, one) for one in found):
            texts.append(call)
    if media or texts:
        yield from script.state_fact("code.maps_in_one_process", True, *(media or texts))
    if media:
        yield from script.state_fact("code.maps_media_in_one_process", True, *media)


def _mapped(call: ast.Call) -> ast.expr | None:
    """The function that a `map` gets."""
    if not isinstance(call.func, ast.Attribute):
        return None
    named = (one.value for one in call.keywords if one.arg == "function")
    return next(named, call.args[0] if call.args else None)


def _is_alone(view: ScriptView, call: ast.Call) -> bool:
    """Whether a `map` certainly runs in the process that calls it."""
    if any(one.arg is None for one in call.keywords) or len(call.args) > 1:
        return False
    given = next((one.value for one in call.keywords if one.arg == "num_proc"), None)
    if given is None:
        return True
    value = values.written_value(view, given)
    return values.is_certain(view, value) and value.value in NO_PROCESSES


def _is_batched(call: ast.Call) -> bool:
    """Whether rows come in batches, of which a fast tokenizer takes several at a time."""
    return any(
        one.arg == "batched" and not (isinstance(one.value, ast.Constant) and not one.value.value)
        for one in call.keywords
    )


def _tokenizes(view: ScriptView, function: Function | ast.Lambda) -> bool:
    inner = view.at(function)
    calls = step_path(inner, [TrainingStep(function)]) if not isinstance(function, ast.Lambda) else ast.walk(function)
    return any(isinstance(one, ast.Call) and bool(TOKENIZES.search(last_name(one.func))) for one in calls)


def _may_stream(view: ScriptView) -> bool:
    """Whether a data set may be a stream, whose `map` has no processes."""
    given = (one.value for call in view.index.calls for one in call.keywords if one.arg == "streaming")
    return any(values.is_true(view, one) is not False for one in given)


def _is_tiny(view: ScriptView) -> bool:
    """Whether the data sets that are loaded by name are made for trying things out."""
    names = [
        one.value
        for call in view.index.called.get("load_dataset", ())
        for one in (*call.args, *(each.value for each in call.keywords))
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    return any(map(TINY.search, names))
