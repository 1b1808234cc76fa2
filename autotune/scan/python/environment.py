"""Environment variables that a script sets itself: os.environ["CUDA_LAUNCH_BLOCKING"] = "1"."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autotune.model.evidence import Fact
from autotune.scan import environment
from autotune.scan.python import values
from autotune.scan.python.index import Store
from autotune.scan.python.parts import Parts
from autotune.scan.python.reach import is_reached


def facts(parts: Parts) -> Iterator[Fact]:
    """Facts `code.debug_variables` and `code.restricted_links`; none set is said of a script that is all there."""
    found = [one for store in parts.view.index.items.get("environ", ()) for one in _set(parts, store)]
    yield from (fact for fact in environment.stated("code", found) if fact.value or parts.is_whole)


def _set(parts: Parts, store: Store) -> Iterator[environment.Set]:
    """The variable that an assignment certainly sets to a text that is written down."""
    if (
        not isinstance(store.node, ast.Subscript)
        or store.value is None
        or is_reached(parts.view, store.node) is not True
    ):
        return
    name, value = (values.given(parts.view, node) for node in (store.node.slice, store.value))
    if isinstance(name.value, str) and isinstance(value.value, str) and values.is_certain(parts.view, value):
        yield name.value, value.value, parts.view.place(store.node)
