"""The files of one run as one program: a script, and the modules of its own whose names it uses."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from autotune.model.scanned import Given
from autotune.scan.configs import givens
from autotune.scan.files import DATA
from autotune.scan.hydra import hydra_values
from autotune.scan.library import BUNDLE_STEPS, Library
from autotune.scan.python import Index, View, opened
from autotune.scan.python.across import LIBRARIES
from autotune.scan.python.index import Binding, Scope, last_name
from autotune.scan.python.names import full_name
from autotune.scan.python.uses import called_class
from autotune.syntax.python import Source

MAX_MODULES = 40
"""Modules of one run that are read; a script of hundreds uses a library that lies beside it."""

CONFIG_CALLS = frozenset(
    {
        *("parse_yaml_file", "parse_json_file", "parse_dict", "set_defaults", "from_yaml"),
        *("safe_load", "full_load", "load", "loads", "parse", "wrap", "cli"),
    }
)
"""Calls by which a script fills its options from a file."""

MAX_FOLLOWED, FEW_MODULES = 100, 5
"""Modules that all scripts of one scan follow together, and those of each script from there on: a library of hundreds
of modules is no project of scripts."""

MAX_IMPORTS = 8
"""Files through which one name is handed on."""

SOURCES = ("", "src/")
"""Folders beside which a package lies: its own, and that of a project which is installed to be edited."""


@dataclass(slots=True, eq=False)
class Program:
    """`views` are those of the files that were needed so far, by their trees; `names` their files by name.

    `beside` is the file from which paths of configs are seen: the command's. `configured` is what the configs hold that
    the command names.
    """

    library: Library
    beside: str
    configured: Mapping[str, Given] = field(default_factory=dict)
    views: dict[ast.AST, View] = field(default_factory=dict)
    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    found: dict[tuple[str, str], tuple[Binding, ...]] = field(default_factory=dict)
    used: dict[str, frozenset[str]] = field(default_factory=dict)
    sets: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def start(self, source: Source, file: str, flags: Mapping[str, Given] | None, *, is_open: bool) -> View | None:
        """The view of the script that is started with these flags; None when it cannot be read."""
        index = self.library.index(file, source)
        if index is None:
            return None
        view = opened(replace(index, program=self), source, file, flags, is_open=is_open)
        composed = hydra_values(self.library, file, flags or {})
        self.configured = {**composed, **self.configured}
        view = replace(view, documents=self.document, sections=self.sections, views=self.views, composed=composed)
        return self._add(replace(view, configured=self.configured if _takes_configs(view.index) else {}))

    def alone(self, view: View) -> View:
        """The script as if it had no modules."""
        index = replace(view.index, program=None)
        alone = opened(index, view.source, view.file, view.flags, is_open=view.is_open)
        told = replace(alone, documents=self.document, configured=view.configured, composed=view.composed)
        return replace(told, sections=self.sections)

    def _add(self, view: View) -> View:
        self.trees[view.file] = view.index.tree
        self.views[view.index.tree] = view
        return view

    def module(self, file: str) -> View | None:
        """The view of a module; None when it cannot be read."""
        if file not in self.trees:
            self.trees[file] = None
            source = self.library.python(file)
            index = self.library.index(file, source) if source is not None else None
            if source is not None and index is not None:
                main = next(iter(self.views.values()))
                self._add(replace(main.beside(replace(index, program=self), source, file), is_module=True))
        tree = self.trees[file]
        return self.views[tree] if tree is not None else None

    def index(self, node: ast.AST) -> Index:
        main = next(iter(self.views.values())).index
        view = self.views.get(main.root(node))
        return view.index if view is not None else main

    def imported(self, name: str, index: Index) -> Sequence[Binding]:
        return self._imported(name, self.views[index.tree].file, MAX_IMPORTS)

    def _imported(self, name: str, beside: str, depth: int) -> tuple[Binding, ...]:
        if (name, beside) not in self.found:
            self.found[name, beside] = ()
            self.found[name, beside] = self._bindings(name, beside, depth)
        return self.found[name, beside]

    def _bindings(self, name: str, beside: str, depth: int) -> tuple[Binding, ...]:
        """What binds the last part of a full name in the module that the parts before it name."""
        if name.partition(".")[0] in LIBRARIES:
            return ()
        module, _, last = name.rpartition(".")
        file = self.file(module if module.strip(".") else f"{module}.", beside) if depth else None
        view = self.module(file) if file is not None else None
        if view is None or file is None:
            return ()
        own = view.index.module.bindings.get(last, ())
        if own and any(one.kind != "import" for one in own):
            return tuple(own)
        handed = [one.text for one in own] or [f"{star}.{last}" for star in view.index.stars]
        return next((one for text in handed if (one := self._imported(text, file, depth - 1))), ())

    def file(self, module: str, beside: str) -> str | None:
        """The file of a module as `beside` names it ("..data", "pkg.data"): its own, or its package's."""
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

    def importers(self, index: Index) -> Sequence[Index]:
        file = self.views[index.tree].file
        others = [view for view in list(self.views.values()) if view.file != file]
        return [view.index for view in others if file in self._used(view)]

    def _used(self, view: View) -> frozenset[str]:
        """The files in which the names stand that a file imports."""
        if view.file not in self.used:
            self.used[view.file] = frozenset()
            self.used[view.file] = frozenset(self._definitions(view))
        return self.used[view.file]

    def _definitions(self, view: View) -> Iterator[str]:
        """Modules that are imported, and modules that have what is imported of them; a package only hands it on."""
        names = dict.fromkeys((*sorted(view.index.imports), *_names(view)))
        for name in [name for name in names if name.partition(".")[0] not in LIBRARIES]:
            module = self.file(name, view.file) if name.strip(".") else None
            if module is not None and not module.endswith("__init__.py"):
                yield module
            for one in self._imported(name, view.file, MAX_IMPORTS):
                place = self.views.get(view.index.root(one.node))
                if place is not None and place.file != view.file:
                    yield place.file

    def is_set(self, index: Index, name: str) -> bool:
        file = self.views[index.tree].file
        found = [self._sets(view) for view in list(self.views.values())]
        return any((file, one) in each for each in found for one in (name, ""))

    def _sets(self, view: View) -> frozenset[tuple[str, str]]:
        """The names of modules that a file sets, each with the module's file; "" where it may be any."""
        if view.file not in self.sets:
            self.sets[view.file] = frozenset()
            self.sets[view.file] = frozenset(self._set_names(view))
        return self.sets[view.file]

    def _set_names(self, view: View) -> Iterator[tuple[str, str]]:
        for key, stores in view.index.writes.items():
            for base in (store.base for store in stores):
                if isinstance(base, ast.Call) and last_name(base.func) == "globals":
                    yield view.file, key
                name = full_name(view.index, base)
                if name is not None and name.partition(".")[0] not in LIBRARIES:
                    file = self.file(name, view.file)
                    yield from [(file, key)] if file is not None else []

    def modules(self, script: View) -> list[View]:
        """The modules whose names the script uses, and those that they use, up to MAX_MODULES, nearest first."""
        found = {script.file: script}
        named = {file for file, _ in self._classes(script.file)}
        for view in (waiting := [script]):
            for file in sorted((self._used(view) | named) - found.keys()):
                most = MAX_MODULES if self.library.followed < MAX_FOLLOWED else FEW_MODULES
                if len(found) > most or self.library.main.left < BUNDLE_STEPS // 2:
                    return list(found.values())[1:]
                module = self.module(file)
                if module is not None:
                    self.library.followed += 1
                    found[file] = module
                    waiting.append(module)
        return list(found.values())[1:]

    def sections(self, class_: ast.ClassDef) -> tuple[str, ...]:
        """The keys of configs below which the arguments of a class stand: `data` of a LightningCLI that gets it,
        `data.init_args` beside a class_path that names it, the key that holds a `_target_`."""
        main = next(iter(self.views.values()))
        view = self.views.get(main.index.root(class_), main)
        found = [section for section, node in _cli_classes(main.index) if called_class(main.index, node) is class_]
        stated = [self._section(key) for file, key in self._classes(main.file) if file == view.file]
        named = [section for section, name in stated if name == class_.name]
        return tuple(dict.fromkeys((*named, *found, *(f"{section}.init_args" for section in found))))

    def _section(self, key: str) -> tuple[str, str]:
        """Where the arguments stand of the class that the value at `key` names, and its name."""
        head = key.rpartition(".")[0]
        inner = ".".join(filter(None, (head, "init_args"))) if key.endswith("class_path") else head
        return inner, str(self.configured[key].value).rpartition(".")[2]

    def _classes(self, beside: str) -> Iterator[tuple[str, str]]:
        """The files of the classes that the configs name, and the keys that name them."""
        for key, given in self.configured.items():
            if key.rpartition(".")[2] in ("class_path", "_target_") and isinstance(given.value, str):
                places = self._imported(given.value, beside, MAX_IMPORTS)
                files = (self.views[root].file for one in places if (root := self._root(one.node)) in self.views)
                yield from ((file, key) for file in dict.fromkeys(files))

    def _root(self, node: ast.AST) -> ast.AST:
        return next(iter(self.views.values())).index.root(node)

    def document(self, reference: str, beside: str) -> Mapping[str, Given] | None:
        """What a data file holds, seen from the command, else from the file that names it."""
        for place in (self.beside, beside):
            name = self.library.find(posixpath.normpath(reference), place, DATA, is_wanted=True)
            document = self.library.document(name) if name is not None else None
            if name is not None and document is not None:
                return self.library.attempt(name, partial(givens, document, name))
        return None


def _takes_configs(index: Index) -> bool:
    """Whether a script may fill its options from a file: by a parser of classes, or by code of its own."""
    calls = {last_name(call.func) for call in index.calls}
    return bool(calls & CONFIG_CALLS) or any(one.endswith(("Parser", "CLI", "cli")) for one in calls)


def _cli_classes(index: Index) -> Iterator[tuple[str, ast.expr]]:
    """The classes that a LightningCLI is given, each with the key below which a config gives its arguments."""
    for call in index.calls:
        if last_name(call.func).endswith("CLI"):
            yield from zip(("model", "data"), call.args, strict=False)
            named = {"model_class": "model", "datamodule_class": "data"}
            yield from ((named[one.arg], one.value) for one in call.keywords if one.arg in named)


def _names(view: View) -> Iterator[str]:
    """The full names of what a file imports, and of what it asks of imported modules."""
    index = view.index
    scopes: list[Scope] = [index.module, *(index.inner[one] for one in (*index.functions, *index.classes))]
    for scope in scopes:
        yield from (one.text for found in scope.bindings.values() for one in found if one.kind == "import")
    for attributes in index.attributes.values():
        for node in attributes:
            if isinstance(node.value, ast.Name | ast.Attribute):
                yield full_name(index, node) or ""
    for star in index.stars:
        yield from (f"{star}.{name}" for name in index.reads if not index.module.bindings.get(name))
