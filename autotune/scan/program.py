"""The files of one run as one program: a script, and the modules of its own whose names it uses."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.scanned import WrittenValue
from autotune.pycode.functions import called_class
from autotune.pycode.index import Binding, Index
from autotune.pycode.script_view import ScriptView
from autotune.scan.configs import written_values
from autotune.scan.files import DATA
from autotune.scan.hydra import hydra_values
from autotune.scan.library import BUNDLE_STEPS, Library
from autotune.scan.module_graph import NOTHING, FoundBindings, ModuleGraph
from autotune.scan.read_script import view_script
from autotune.syntax.python import Source, last_name

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

MAX_FILES = 100
"""Files of one run of which is asked who uses and sets what; a script that has more uses a library beside it."""


def is_limited_alike(before: int, then: int, followed: int) -> bool:
    """Whether a script that follows this many modules after `before` others would follow the same ones after `then`."""
    is_free = followed < FEW_MODULES or max(before, then) + followed < MAX_FOLLOWED
    return is_free or min(before, then) >= MAX_FOLLOWED or before == then


class RunProgram(Struct, eq=False):
    """`views` are those of the files that were needed so far, by their trees; `trees` are these by name.

    `near` are the files of the run, of which there are more where it `is_cut`, `packages` those of packages around
    them, `importing` those that import one of them, `uses` what is known of definitions.
    `beside` is the file from which paths of configs are seen: the command's. `configured` is what the configs hold that
    the command names.
    """

    library: Library
    beside: str
    configured: Mapping[str, WrittenValue] = field(default_factory=dict)
    views: dict[ast.AST, ScriptView] = field(default_factory=dict)
    trees: dict[str, ast.Module | None] = field(default_factory=dict)
    near: list[str] = field(default_factory=list)
    is_cut: bool = False
    packages: list[str] | None = None
    importing: dict[str, Sequence[Index]] = field(default_factory=dict)
    uses: dict[ast.AST, Sequence[ast.expr]] = field(default_factory=dict)

    @property
    def module_graph(self) -> ModuleGraph:
        """What all scripts of the scan know of the modules."""
        if self.library.module_graph is None:
            self.library.module_graph = ModuleGraph(self.library)
        return self.library.module_graph

    def start(
        self, source: Source, file: str, flags: Mapping[str, WrittenValue] | None, *, is_open: bool
    ) -> ScriptView | None:
        """The view of the script that is started with these flags; None when it cannot be read."""
        index = self.library.index(file, source)
        if index is None:
            return None
        view = view_script(replace(index, program=self), source, file, flags, is_open=is_open)
        composed = hydra_values(self.library, file, flags or {})
        self.configured = {**composed, **self.configured}
        view = replace(view, documents=self.document, sections=self.sections, views=self.views, composed=composed)
        return self._add(replace(view, configured=self.configured if _takes_configs(view.index) else {}))

    def alone(self, view: ScriptView) -> ScriptView:
        """The script as if it had no modules."""
        index = replace(view.index, program=None)
        alone = view_script(index, view.source, view.file, view.flags, is_open=view.is_open)
        told = replace(alone, documents=self.document, configured=view.configured, composed=view.composed)
        return replace(told, sections=self.sections)

    def _add(self, view: ScriptView) -> ScriptView:
        self.trees[view.file] = view.index.tree
        self.views[view.index.tree] = view
        return view

    def module(self, file: str) -> ScriptView | None:
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
        return self._imported(name, self.views[index.tree].file)[0]

    def _imported(self, name: str, beside: str) -> FoundBindings:
        """What binds a full name, in a file whose view is there from then on."""
        found, file = self.module_graph.imported(name, beside)
        return (found, file) if file is not None and self.module(file) is not None else NOTHING

    def importers(self, index: Index) -> Sequence[Index]:
        file = self.views[index.tree].file
        if file not in self.importing:
            others = [one for one in self._files() if one != file and file in self.module_graph.used_by(one)]
            self.importing[file] = [view.index for one in others if (view := self.module(one)) is not None]
        return self.importing[file]

    def is_set(self, index: Index, name: str) -> bool:
        file = self.views[index.tree].file
        found = [self.module_graph.set_by(one) for one in (*self._files(), *self._packages())]
        return any((file, one) in each for each in found for one in (name, ""))

    def all_files(self) -> list[str] | None:
        """The files that the script uses, and those that they use, nearest first; None where these are not all."""
        files = self._files()
        return None if self.is_cut else files

    def _files(self) -> list[str]:
        """As all_files, as many as are followed."""
        if not self.near:
            main = next(iter(self.views.values())).file
            found = {main: None, **dict.fromkeys(sorted({file for file, _ in self._classes(main)}))}
            for file in (waiting := list(found)):
                if len(found) > MAX_FILES or self.library.main.left < BUNDLE_STEPS // 2:
                    self.is_cut = True
                    break
                new = sorted(self.module_graph.used_by(file) - found.keys())
                found.update(dict.fromkeys(new))
                waiting += new
            self.near = list(found)
        return self.near

    def _packages(self) -> list[str]:
        """The packages in which these files lie: an import of one of their modules runs them first."""
        if self.packages is None:
            folders = {posixpath.dirname(one): None for one in self._files()[1:]}
            for folder in (waiting := list(folders)):
                waiting += [outer] if (outer := posixpath.dirname(folder)) not in waiting else []
            names = (f"{folder}/__init__.py" for folder in waiting if folder)
            found = [self.library.find(one, "", ("python",), is_wanted=True, is_beside=True) for one in names]
            self.packages = [one for one in found if one is not None]
        return self.packages

    def modules(self, script: ScriptView) -> list[ScriptView]:
        """The modules whose names the script uses, and those that they use, up to MAX_MODULES, nearest first."""
        found: list[ScriptView] = []
        for file in self._files()[1:]:
            most = MAX_MODULES if self.library.followed < MAX_FOLLOWED else FEW_MODULES
            if len(found) >= most or self.library.main.left < BUNDLE_STEPS // 2:
                break
            module = self.module(file)
            if module is not None:
                self.library.followed += 1
                found.append(module)
        # What a package changes is known with its view; it is none of the modules that may train.
        for name in self._packages() if found else ():
            self.module(name)
        return found

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
                _, file = self._imported(given.value, beside)
                yield from [(file, key)] if file is not None else []

    def document(self, reference: str, beside: str) -> Mapping[str, WrittenValue] | None:
        """What a data file holds, seen from the command, else from the file that names it."""
        for place in (self.beside, beside):
            name = self.library.find(posixpath.normpath(reference), place, DATA, is_wanted=True)
            document = self.library.document(name) if name is not None else None
            if name is not None and document is not None:
                return self.library.attempt(name, partial(written_values, document, name))
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
