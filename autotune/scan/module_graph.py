"""What the modules of a project are to each other, whichever script is read: whose names each of them uses and sets.

None of it depends on a command line: it is found once for all scripts of a scan.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from msgspec import Struct, field

from autotune.pycode.index import Binding, Index, Scope
from autotune.pycode.names import full_name
from autotune.scan.library import Library
from autotune.scan.script.run_training import LIBRARIES
from autotune.syntax.python import last_name

MAX_IMPORTS = 8
"""Files through which one name is handed on."""

SOURCES = ("", "src/")
"""Folders beside which a package lies: its own, and that of a project which is installed to be edited."""

ALSO_FOLDERS = frozenset({"datasets"})
"""Libraries whose name many projects give a folder of theirs, which Python finds first beside the script."""

Key = TypeVar("Key")
Found = TypeVar("Found")

FoundBindings = tuple[tuple[Binding, ...], str | None]
"""What binds a name, and the file in which it does."""

NOTHING: FoundBindings = ((), None)


class ModuleGraph(Struct, eq=False):
    """`modules` are files by the name of a module and the folder beside which it is named, `names` what binds a full
    name in a file, `used` the files in which the names stand that a file imports, `sets` the names of modules that a
    file sets. `looked_for` are the names of files on which each of these depends."""

    library: Library
    modules: dict[tuple[str, str], str | None] = field(default_factory=dict)
    names: dict[tuple[str, str], FoundBindings] = field(default_factory=dict)
    used: dict[str, frozenset[str]] = field(default_factory=dict)
    sets: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    looked_for: dict[tuple[int, object], tuple[str, ...]] = field(default_factory=dict)

    def _once(self, known: dict[Key, Found], key: Key, make: Callable[[], Found]) -> Found:
        """What is known by `key`, else what `make` gives; whoever asks depends on the files that this depends on."""
        which = (id(known), key)
        if key in known:
            self.library.note_asked(self.looked_for[which])
        else:
            known[key], self.looked_for[which] = self.library.tracked(make)
        return known[key]

    def index(self, file: str) -> Index | None:
        source = self.library.python(file)
        return self.library.index(file, source) if source is not None else None

    def file(self, module: str, beside: str) -> str | None:
        """The file of a module as `beside` names it ("..data", "pkg.data"): its own, or its package's."""
        asked = (module, posixpath.dirname(beside))
        found = self._once(self.modules, asked, partial(self._file, module, beside))
        return found if found != beside else self._file(module, beside)

    def _file(self, module: str, beside: str) -> str | None:
        name = module.lstrip(".")
        up = "../" * (len(module) - len(name) - 1)
        path = name.replace(".", "/")
        is_relative = module.startswith(".")
        for source in SOURCES[:1] if is_relative else SOURCES:
            for end in (f"{path}.py", f"{path}/__init__.py") if path else ("__init__.py",):
                found = self.library.find(
                    f"{source}{up}{end}", beside, ("python",), is_wanted=True, is_beside=is_relative
                )
                if found is not None and found != beside:
                    return found
        return None

    def imported(self, name: str, beside: str) -> FoundBindings:
        """What binds the last part of a full name in the module that the parts before it name."""
        return self._once(self.names, (name, beside), partial(self._imported, name, beside, MAX_IMPORTS, {}))

    def _imported(self, name: str, beside: str, depth: int, way: dict[tuple[str, str], FoundBindings]) -> FoundBindings:
        """The same, through not more than `depth` files; `way` is what was found of other names on the way here,
        NOTHING for what is being looked for: modules import each other."""
        if _is_of_library(name):
            return NOTHING
        module, _, last = name.rpartition(".")
        file = self.file(module if module.strip(".") else f"{module}.", beside) if depth else None
        index = self.index(file) if file is not None else None
        if index is None or file is None:
            return NOTHING
        own = index.module.bindings.get(last, ())
        if own and any(one.kind != "import" for one in own):
            return tuple(own), file
        way[name, beside] = NOTHING
        for text in [one.text for one in own] or [f"{star}.{last}" for star in index.stars]:
            if (text, file) not in way:
                way[text, file] = self._imported(text, file, depth - 1, way)
            if way[text, file][0]:
                return way[text, file]
        return NOTHING

    def used_by(self, file: str) -> frozenset[str]:
        """The files in which the names stand that a file imports."""
        return self._once(self.used, file, partial(self._used_by, file))

    def _used_by(self, file: str) -> frozenset[str]:
        index = self.index(file)
        return frozenset(self._definitions(index, file)) if index is not None else frozenset()

    def _definitions(self, index: Index, file: str) -> Iterator[str]:
        """Modules that are imported, and modules that have what is imported of them; a package only hands it on."""
        names = dict.fromkeys((*sorted(index.imports), *_names(index)))
        for name in [name for name in names if not _is_of_library(name)]:
            module = self.file(name, file) if name.strip(".") else None
            if module is not None and not module.endswith("__init__.py"):
                yield module
            _, place = self.imported(name, file)
            if place is not None and place != file:
                yield place

    def set_by(self, file: str) -> frozenset[tuple[str, str]]:
        """The names of modules that a file sets, each with the module's file; "" where it may be any."""
        return self._once(self.sets, file, partial(self._set_by, file))

    def _set_by(self, file: str) -> frozenset[tuple[str, str]]:
        index = self.index(file)
        return frozenset(self._set_names(index, file)) if index is not None else frozenset()

    def _set_names(self, index: Index, file: str) -> Iterator[tuple[str, str]]:
        for key, stores in index.writes.items():
            for base in (store.base for store in stores):
                if isinstance(base, ast.Call) and last_name(base.func) == "globals":
                    yield file, key
                name = full_name(index, base)
                if name is not None and not _is_of_library(name):
                    module = self.file(name, file)
                    yield from [(module, key)] if module is not None else []


def _is_of_library(name: str) -> bool:
    first = name.partition(".")[0]
    return first in LIBRARIES and first not in ALSO_FOLDERS


def _names(index: Index) -> Iterator[str]:
    """The full names of what a file imports, and of what it asks of imported modules."""
    scopes: list[Scope] = [index.module, *(index.inner[one] for one in (*index.functions, *index.classes))]
    for scope in scopes:
        yield from (one.text for found in scope.bindings.values() for one in found if one.kind == "import")
    for attributes in index.attributes.values():
        for node in attributes:
            if isinstance(node.value, ast.Name | ast.Attribute):
                yield full_name(index, node) or ""
    for star in index.stars:
        yield from (f"{star}.{name}" for name in index.reads if not index.module.bindings.get(name))
