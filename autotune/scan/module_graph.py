"""What the modules of a project are to each other, whichever script is read: whose names each of them uses and sets.

None of it depends on a command line: it is found once for all scripts of a scan.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

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

FoundBindings = tuple[tuple[Binding, ...], str | None]
"""What binds a name, and the file in which it does."""

NOTHING: FoundBindings = ((), None)


class ModuleGraph(Struct, eq=False):
    """`modules` are files by the name of a module and the folder beside which it is named, `names` what binds a full
    name in a file, `used` the files in which the names stand that a file imports, `sets` the names of modules that a
    file sets."""

    library: Library
    modules: dict[tuple[str, str], str | None] = field(default_factory=dict)
    names: dict[tuple[str, str], FoundBindings] = field(default_factory=dict)
    used: dict[str, frozenset[str]] = field(default_factory=dict)
    sets: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def index(self, file: str) -> Index | None:
        source = self.library.python(file)
        return self.library.index(file, source) if source is not None else None

    def file(self, module: str, beside: str) -> str | None:
        """The file of a module as `beside` names it ("..data", "pkg.data"): its own, or its package's."""
        asked = (module, posixpath.dirname(beside))
        if asked not in self.modules:
            self.modules[asked] = self._file(module, beside)
        found = self.modules[asked]
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

    def imported(self, name: str, beside: str, depth: int = MAX_IMPORTS) -> FoundBindings:
        """What binds the last part of a full name in the module that the parts before it name."""
        if (name, beside) not in self.names:
            self.names[name, beside] = NOTHING
            self.names[name, beside] = self._imported(name, beside, depth)
        return self.names[name, beside]

    def _imported(self, name: str, beside: str, depth: int) -> FoundBindings:
        if name.partition(".")[0] in LIBRARIES:
            return NOTHING
        module, _, last = name.rpartition(".")
        file = self.file(module if module.strip(".") else f"{module}.", beside) if depth else None
        index = self.index(file) if file is not None else None
        if index is None or file is None:
            return NOTHING
        own = index.module.bindings.get(last, ())
        if own and any(one.kind != "import" for one in own):
            return tuple(own), file
        handed = [one.text for one in own] or [f"{star}.{last}" for star in index.stars]
        found = (self.imported(text, file, depth - 1) for text in handed)
        return next((one for one in found if one[0]), NOTHING)

    def used_by(self, file: str) -> frozenset[str]:
        """The files in which the names stand that a file imports."""
        if file not in self.used:
            self.used[file] = frozenset()
            index = self.index(file)
            self.used[file] = frozenset(self._definitions(index, file)) if index is not None else frozenset()
        return self.used[file]

    def _definitions(self, index: Index, file: str) -> Iterator[str]:
        """Modules that are imported, and modules that have what is imported of them; a package only hands it on."""
        names = dict.fromkeys((*sorted(index.imports), *_names(index)))
        for name in [name for name in names if name.partition(".")[0] not in LIBRARIES]:
            module = self.file(name, file) if name.strip(".") else None
            if module is not None and not module.endswith("__init__.py"):
                yield module
            _, place = self.imported(name, file)
            if place is not None and place != file:
                yield place

    def set_by(self, file: str) -> frozenset[tuple[str, str]]:
        """The names of modules that a file sets, each with the module's file; "" where it may be any."""
        if file not in self.sets:
            self.sets[file] = frozenset()
            index = self.index(file)
            self.sets[file] = frozenset(self._set_names(index, file)) if index is not None else frozenset()
        return self.sets[file]

    def _set_names(self, index: Index, file: str) -> Iterator[tuple[str, str]]:
        for key, stores in index.writes.items():
            for base in (store.base for store in stores):
                if isinstance(base, ast.Call) and last_name(base.func) == "globals":
                    yield file, key
                name = full_name(index, base)
                if name is not None and name.partition(".")[0] not in LIBRARIES:
                    module = self.file(name, file)
                    yield from [(module, key)] if module is not None else []


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
