"""Python files of nested dicts that inherit from one another: configs of MMEngine and of MMCV.

They are code, so no data file's reader has them: `train_dataloader = dict(batch_size=bs)` at the top, where `_base_`
names the files below it, or `with read_base(): from .x import *` does. As mmengine/config/config.py puts them together,
a file counts before its bases, dict by dict; `_delete_=True` leaves out what the bases have there. What is worked out
in a way that cannot be followed is unknown, and so is what a base would say that is not there to be read.
"""

from __future__ import annotations

import ast
import posixpath
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from autotune.catalogue.dialects import dialects
from autotune.model.evidence import RUN, Location
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode.build_index import build
from autotune.pycode.dicts import CHANGES, dict_entries
from autotune.pycode.script_view import ScriptView
from autotune.pycode.values import written_value
from autotune.pycode.work_budget import Work
from autotune.scan.configs import plain_value, recognise
from autotune.scan.library import Library
from autotune.scan.script.training_models import MODELS
from autotune.syntax.python import Source, last_name

BASES = "_base_"

DELETES = "_delete_"

MAX_DEPTH = 8
"""Dicts in dicts."""

MAX_BASES = 50
"""Files that inherit from one another, one above the other: what is below them is unknown."""

PARTS = frozenset({"train_dataloader", "optim_wrapper", "train_cfg", "default_hooks", "data", "optimizer", BASES})
"""One of these is assigned in every file that says something of a training, or is read from a base."""


class InheritedConfig(Struct, frozen=True):
    """What a file and its bases say, and the names of all of them, its own first."""

    call: ConsumerCall
    files: tuple[str, ...]


class _Said(Struct):
    """Values by dotted key. `unknown` are keys below which nothing is known; `is_open` says that a base is missing."""

    values: dict[str, WrittenValue]
    unknown: frozenset[str]
    files: tuple[str, ...]
    is_open: bool = False


def read_inherited(library: Library, name: str) -> InheritedConfig | None:
    """The config of a Python file with its bases; None for any other file."""
    source = library.python(name)
    if source is None or not _is_config(source):
        return None
    said = _said(library, name, 0)
    if said is None:
        return None
    dialect = recognise({key: one.value if one.known else None for key, one in said.values.items()}, "python")
    if dialect is None or not dialects()[dialect].get("inherits"):
        return None
    is_open = said.is_open or bool(said.unknown) or BASES in name.split("/")
    call = ConsumerCall(dialect, "", RUN, said.values, Location(name, 1), is_open=is_open)
    return InheritedConfig(call, said.files)


def _is_config(source: Source) -> bool:
    """Whether a file assigns and imports alone, with what such a config is made of."""
    names = {target.id for target, _ in _assignments(source.tree)}
    defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) for node in source.tree.body)
    return not defines and (not names.isdisjoint(PARTS) or any(_imported_bases(source.tree)))


def _said(library: Library, name: str, depth: int) -> _Said | None:
    """What a file says, over what its bases say: worked out once. None for one that cannot be read, and for one that
    inherits from itself."""
    if name not in library.inherited:
        library.inherited[name] = (None, ())  # as long as its bases are read
        library.inherited[name] = library.tracked(partial(_with_bases, library, name, depth))
    said, asked = library.inherited[name]
    library.note_asked((name, *asked))
    return cast("_Said | None", said)


def _with_bases(library: Library, name: str, depth: int) -> _Said | None:
    source = library.python(name)
    if source is None:
        return None
    own = library.worked(name, lambda work: _own(source, name, work))
    if own is None:
        return None
    found = _Said({}, frozenset(), (name,))
    for path in _bases(source, name):
        at = library.find(path, "", ("python",), is_wanted=True) if depth < MAX_BASES else None
        base = _said(library, at, depth + 1) if at is not None else None
        if base is None:
            found.is_open = True
            continue
        found.values |= base.values
        found.unknown |= base.unknown
        found.files = (*found.files, *base.files)
        found.is_open = found.is_open or base.is_open
    return _over(own, found)


def _over(own: _Said, base: _Said) -> _Said:
    """The file's own values over those of its bases."""
    deleted = {key.removesuffix(f".{DELETES}") for key, one in own.values.items() if key.endswith(f".{DELETES}")}
    above = {*own.values, *own.unknown, *deleted}
    dicts = {holder for key in own.values for holder in _holders(key)}
    kept = {
        key: one
        for key, one in base.values.items()
        # A value stands in the place of a dict, and a dict in the place of a value.
        if BASES not in own.unknown and key not in dicts and not any(part in above for part in _holders(key))
    }
    values = kept | {key: one for key, one in own.values.items() if not key.endswith(DELETES)}
    return _Said(values, own.unknown | base.unknown, tuple(dict.fromkeys(base.files)), base.is_open)


def _own(source: Source, name: str, work: Work) -> _Said:
    view = ScriptView(build(source.tree, work), source, name, {}, models=MODELS)
    found = _Said({}, frozenset(), (name,))
    unknown = set(_changed(source.tree))
    times = Counter(target.id for target, _ in _assignments(source.tree))
    for target, value in _assignments(source.tree):
        if times[target.id] > 1:
            unknown.add(target.id)
        if target.id not in (BASES, *unknown):
            _add(view, target.id, value, found.values, unknown, 0)
    return _Said(found.values, frozenset(unknown), (name,))


def _add(
    view: ScriptView, key: str, node: ast.expr, values: dict[str, WrittenValue], unknown: set[str], depth: int
) -> None:
    """Add what stands at `key`: each entry of a dict, or one value."""
    if depth > MAX_DEPTH:
        unknown.add(key)
        return
    entries = dict_entries(view, node)
    if entries.values or _is_empty_dict(node):
        for name, given in entries.values.items():
            below = f"{key}.{name}"
            if len(given) == 1 and name not in entries.maybe and not entries.is_open:
                _add(view, below, given[0], values, unknown, depth + 1)
            else:
                unknown.add(below)
        if entries.is_open:
            unknown.add(key)
        return
    values[key] = replace(plain_value(_value(view, key, node)), key=key)


def _value(view: ScriptView, key: str, node: ast.expr) -> WrittenValue:
    """One value; the class that `type` names by itself is its name."""
    if key.rpartition(".")[2] == "type" and isinstance(node, ast.Name | ast.Attribute):
        given = written_value(view, node)
        # A name that is bound here stands for what it is bound to.
        return given if given.known else replace(given, value=last_name(node), known=True)
    return written_value(view, node)


def _is_empty_dict(node: ast.expr) -> bool:
    return (isinstance(node, ast.Dict) and not node.keys) or (
        isinstance(node, ast.Call) and last_name(node.func) == "dict" and not (node.args or node.keywords)
    )


def _bases(source: Source, name: str) -> Iterator[str]:
    """The paths of the files that a file inherits from; one that cannot be known is "?"."""
    here = posixpath.dirname(name)
    for target, value in _assignments(source.tree):
        if target.id != BASES:
            continue
        listed = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
        for one in listed:
            is_path = isinstance(one, ast.Constant) and isinstance(one.value, str)
            yield posixpath.normpath(posixpath.join(here, one.value)) if is_path else "?"  # type: ignore[attr-defined]
    for node in _imported_bases(source.tree):
        folder = "/".join([here, *[".."] * (node.level - 1)]) if node.level else ""
        yield posixpath.normpath(posixpath.join(folder, f"{(node.module or '?').replace('.', '/')}.py"))


def _imported_bases(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    """The imports of `with read_base():`."""
    for node in tree.body:
        if isinstance(node, ast.With) and any(
            last_name(_called(one.context_expr)) == "read_base" for one in node.items
        ):
            yield from (one for one in node.body if isinstance(one, ast.ImportFrom))


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.Name, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            yield node.targets[0], node.value


def _changed(tree: ast.Module) -> Iterator[str]:
    """Names that something else than an assignment at the top changes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            is_plain = isinstance(node, ast.Assign) and node in tree.body
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            yield from (_root(target) for target in targets if not (is_plain and isinstance(target, ast.Name)))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            yield _root(node.func.value)


def _root(node: ast.AST) -> str:
    """The name at which `a["b"].c` and `_base_.a.b` begin, "a"; `_base_` for that itself, "" for anything else."""
    below = ""
    while isinstance(node, ast.Subscript | ast.Attribute):
        below = node.attr if isinstance(node, ast.Attribute) else _text(node.slice)
        node = node.value
    name = node.id if isinstance(node, ast.Name) else ""
    return below if name == BASES and below else name


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _holders(key: str) -> Iterator[str]:
    """ "a.b.c", "a.b" and "a"."""
    while key:
        yield key
        key = key.rpartition(".")[0]
