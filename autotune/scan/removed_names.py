"""Names of libraries that a release removed, which a run certainly imports or reads: it ends there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from msgspec import Struct

from autotune.catalogue.dialects import Version, is_before, version
from autotune.catalogue.vocabulary import read
from autotune.model.evidence import RUN, Fact
from autotune.pycode.index import AttributeWrite, Function
from autotune.pycode.names import full_name
from autotune.pycode.reachability import is_reached
from autotune.pycode.script_view import ScriptView
from autotune.scan.ranges import Range

FOUND = "code.old_names"

CONDITIONS = (ast.If, ast.IfExp, ast.ExceptHandler, ast.Match)

METHODS = frozenset({"__init__", "__getitem__", "__iter__", "__next__", "__call__", "forward", "__len__"})
"""Methods that run once their class is made, and used."""

OLD_TORCH, OLD_PYTHON = (1, 13), (3, 8)
"""Who asks for an older one has an environment of its time: what nothing declares is as old there."""


class Name(Struct, frozen=True):
    """A name that `package` removed with release `since`; `instead` is "" where nothing replaces it."""

    name: str
    package: str
    since: Version
    instead: str

    @property
    def text(self) -> str:
        now = f", now {self.instead}" if self.instead else ""
        return f"{self.name} (removed in {'.'.join(map(str, self.since))} of {self.package}{now})"


def facts(views: Sequence[ScriptView]) -> Iterator[Fact]:
    """Fact `code.old_names` of a script and its modules, where there is any: the names that are certainly reached and
    that some release removed, one for each of its places."""
    restored = {f"{full_name(view.index, one.node)}" for view in views for one in _stores(view)}
    made = {name for view in views for name in view.index.called}
    found = [
        (name, view.place(node))
        for view in views
        for name, node in (*_imported(view), *_read(view, made))
        if name not in restored
    ]
    if found:
        first = dict(reversed(found))
        ordered = list(dict.fromkeys(name for name, _ in found))
        yield Fact(FOUND, RUN, ", ".join(ordered), tuple(first[name] for name in ordered))


def release_facts(
    found: Iterable[Fact], versions: Mapping[str, Version], ranges: Mapping[str, Range] | None = None
) -> Iterator[Fact]:
    """Facts `names.*`: the names that a release which may be used does not have; where one is certainly gone, those of
    its package alone."""
    fact = next((one for one in found if one.name == FOUND), None)
    if fact is None:
        return
    allowed = ranges or {}
    used = [
        (known, place)
        for name, place in zip(str(fact.value).split(", "), fact.places, strict=True)
        if not _is_there(known := _names()[name], versions, allowed)
    ]
    if not used:
        return
    certain = [(one, release) for one, _ in used if (release := _release(one, versions, allowed)) is not None]
    if certain:  # of one package: a release is one's
        name, release = certain[0]
        used = [(one, place) for one, place in used if one.package == name.package]
        yield Fact("names.package_version", RUN, release)
    else:
        asked = dict.fromkeys(allowed[one.package].text for one, _ in used if one.package in allowed)
        undeclared = dict.fromkeys(one.package for one, _ in used if one.package not in allowed)
        parts = [f"the requirement is {', '.join(asked)}"] if asked else []
        parts += [f"no release of {', '.join(undeclared)} is declared"] if undeclared else []
        yield Fact("names.declared", RUN, "; ".join(parts))
    yield Fact("names.removed", RUN, ", ".join(one.text for one, _ in used), tuple(place for _, place in used))
    yield Fact("names.removed_since", RUN, min(one.since for one, _ in used))


def _release(one: Name, versions: Mapping[str, Version], ranges: Mapping[str, Range]) -> Version | None:
    """The release in use, or the oldest that may be, where the name is gone from it; else None."""
    asked = ranges.get(one.package)
    oldest = versions.get(one.package, asked.low if asked is not None else None)
    return oldest if oldest is not None and not is_before(oldest, one.since) else None


def _is_there(one: Name, versions: Mapping[str, Version], ranges: Mapping[str, Range]) -> bool:
    """Whether every release that may be used still has the name."""
    if one.package in versions:
        return is_before(versions[one.package], one.since)
    asked = ranges.get(one.package)
    if asked is not None:
        return asked.is_before(one.since)
    return any(
        is_before(versions[package], old)
        for package, old in (("torch", OLD_TORCH), ("python", OLD_PYTHON))
        if package in versions
    )


def _imported(view: ScriptView) -> Iterator[tuple[str, ast.AST]]:
    """What the file imports at its top, without a condition and outside of any `try`."""
    for node in view.index.tree.body:
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            named = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            named = [each.name for each in node.names]
        else:
            continue
        yield from ((old, node) for one in named if (old := _old(one)))


def _read(view: ScriptView, made: set[str]) -> Iterator[tuple[str, ast.AST]]:
    """The attributes of modules that certainly are read: `np.float`."""
    for last in sorted(_last_parts() & view.index.attributes.keys()):
        for node in view.index.attributes[last]:
            old = _names().get(full_name(view.index, node) or "")
            if old is not None and isinstance(node.ctx, ast.Load) and _runs(view, node, made):
                yield old.name, node


def _runs(view: ScriptView, node: ast.AST, made: set[str]) -> bool:
    """Whether a run certainly comes to it: no condition and no `try` is around it, and its function is called by name,
    or is a method that each object of a class that is made runs."""
    above = list(view.index.ancestors(node))
    inside = next((at for at, one in enumerate(above) if isinstance(one, Function)), len(above))
    if any(isinstance(one, ast.Lambda) or (isinstance(one, ast.Try) and one.handlers) for one in above[:inside]):
        return False
    reached = is_reached(view, node)
    if reached is False or inside == len(above):
        return reached is True
    function, outer = above[inside], above[inside + 1]
    if not isinstance(function, Function):
        return False
    if isinstance(outer, ast.ClassDef):
        is_called = outer.name in made and (function.name in METHODS or function.name in made)
    else:
        is_called = function.name in made
    return is_called and (reached is True or not any(isinstance(one, CONDITIONS) for one in above[:inside]))


def _stores(view: ScriptView) -> Iterator[AttributeWrite]:
    """Where the run puts such a name back itself: `np.float = float`."""
    for last in _last_parts() & view.index.stores.keys():
        yield from view.index.stores[last]


def _old(name: str) -> str:
    """The removed name that a name is, or is in; "" for none."""
    parts = name.split(".")
    return next((one for end in range(1, len(parts) + 1) if (one := ".".join(parts[:end])) in _names()), "")


@cache
def _names() -> Mapping[str, Name]:
    return {
        name: Name(name, module["package"], version(row["removed"]), row.get("instead", ""))
        for module in read("renames.toml")["module"]
        for name, row in module["names"].items()
    }


@cache
def _last_parts() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in _names())
