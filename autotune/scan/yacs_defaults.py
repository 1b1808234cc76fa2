"""The defaults of a project's yacs config, which are statements in Python: `_C.DATA.NUM_WORKERS = 8`.

A YAML file of the project holds what differs from them: the defaults count behind it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

from msgspec.structs import replace

from autotune.model.evidence import RUN, Location
from autotune.model.scanned import ConsumerCall
from autotune.pycode.build_index import build
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import written_value
from autotune.pycode.work_budget import Work
from autotune.scan.configs import plain_value, recognise
from autotune.scan.library import ANYTHING, Library
from autotune.scan.script.training_models import MODELS
from autotune.syntax.python import Source, last_name

DIALECT = "yacs"

MADE = re.compile(rb"^_C *= *\w*(?:CN|CfgNode)\(", re.MULTILINE)
"""The node that all defaults stand in, by the name that yacs's own documentation gives it."""

MAKES = frozenset({"CN", "CfgNode"})


def read_defaults(source: Source, name: str, work: Work | None = None) -> ConsumerCall | None:
    """The defaults of a file as one ConsumerCall; None for a file without any."""
    roots = {
        node.targets[0].id
        for node in source.tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and last_name(node.value.func) in MAKES
    }
    given = [(key, value) for key, value in _assigned(source.tree, roots) if not _is_node(value)]
    if not given:
        return None
    view = ScriptView(build(source.tree, work or Work()), source, name, {}, models=MODELS)
    times = Counter(key for key, _ in given)
    values = {key: (plain_value(written_value(view, value)), times[key] == 1) for key, value in given}
    found = {
        key: replace(one, key=key, known=one.known and is_once, is_default=True)
        for key, (one, is_once) in values.items()
    }
    if recognise({key: one.value if one.known else None for key, one in found.items()}, "python") != DIALECT:
        return None
    return ConsumerCall(DIALECT, "", RUN, found, Location(name, 1), is_open=True)


def defaults_of(library: Library) -> ConsumerCall | None:
    """The defaults of a project, where it has those of one config alone."""
    library.note_asked((ANYTHING,))
    if DIALECT not in library.of_project:
        library.of_project[DIALECT] = _only_defaults(library)
    return library.of_project[DIALECT]


def _only_defaults(library: Library) -> ConsumerCall | None:
    names = [name for name in library.named("python") if MADE.search(library.files[name].data)]
    read = [(name, source) for name in names if (source := library.python(name)) is not None]
    found = [library.worked(name, partial(read_defaults, source, name)) for name, source in read]
    known = [call for call in found if call is not None]
    return known[0] if len(known) == 1 else None


def _assigned(tree: ast.Module, roots: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The keys that are assigned at the top below one of the `roots`, with their values."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Attribute):
            root, _, key = _dotted(node.targets[0]).partition(".")
            if root in roots and key:
                yield key, node.value


def _dotted(node: ast.expr) -> str:
    """ "_C.DATA.NUM_WORKERS"; "" for what is no plain chain of names."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else ""
    return node.id if isinstance(node, ast.Name) else ""


def _is_node(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in MAKES
