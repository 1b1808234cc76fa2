"""Environment variables that a script sets itself: os.environ["CUDA_LAUNCH_BLOCKING"] = "1"."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.pycode import values
from autotune.pycode.index import AttributeWrite
from autotune.pycode.reachability import is_reached
from autotune.scan import environment
from autotune.scan.script.analysis import ScriptAnalysis


def facts(parts: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `code.debug_variables` and `code.restricted_links`; none set is said of a script that is all there."""
    found = [one for store in parts.view.index.items.get("environ", ()) for one in _set(parts, store)]
    yield from (fact for fact in environment.variables_set("code", found) if fact.value or parts.is_whole)


def _set(parts: ScriptAnalysis, store: AttributeWrite) -> Iterator[environment.Set]:
    """The variable that an assignment certainly sets to a text that is written down."""
    if (
        not isinstance(store.node, ast.Subscript)
        or store.value is None
        or is_reached(parts.view, store.node) is not True
    ):
        return
    name, value = (values.written_value(parts.view, node) for node in (store.node.slice, store.value))
    if isinstance(name.value, str) and isinstance(value.value, str) and values.is_certain(parts.view, value):
        yield name.value, value.value, parts.view.place(store.node)
