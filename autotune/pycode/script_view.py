"""The view of one file of a run that every reader of code gets, and the records that it remembers."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.evidence import Location
from autotune.model.scanned import WrittenValue
from autotune.pycode.cli_options import Option
from autotune.pycode.cli_options import parser_options as read_options
from autotune.pycode.index import AttributeWrite, Binding, Index
from autotune.pycode.library_models import LibraryModels
from autotune.syntax.python import Source, last_name


class ValueOrigin(Struct, frozen=True):
    """An expression that a value comes from, or the item at `path` of it; `option` when it is an option's default."""

    node: ast.AST
    path: tuple[int, ...] = ()
    option: Option | None = None


class DictEntries(Struct, frozen=True):
    """`values` are the expressions that each key may have. Keys in `maybe` may be missing, and there may be others
    when `is_open`."""

    values: Mapping[str, tuple[ast.expr, ...]] = field(default_factory=dict)
    maybe: frozenset[str] = frozenset()
    is_open: bool = False


class LoadedConfig(Struct, frozen=True):
    """What a data file holds below the key `prefix` ("" for all of it).

    `made` are the calls that made the object: `own`, and behind a copy what that is a copy of.
    """

    entries: Mapping[str, WrittenValue]
    prefix: str = ""
    made: frozenset[ast.AST] = frozenset()
    own: frozenset[ast.AST] = frozenset()

    def below(self, key: str) -> LoadedConfig:
        return replace(self, prefix=f"{self.prefix}.{key}" if self.prefix else key)

    def is_of(self, other: LoadedConfig) -> bool:
        """Whether both hold the same, whatever calls made it."""
        return (self.entries, self.prefix) == (other.entries, other.prefix)

    @property
    def is_there(self) -> bool:
        return not self.prefix or any(f"{name}.".startswith(f"{self.prefix}.") for name in self.entries)


class ObjectWrites(Struct):
    """The writes of one key in one file, by their place among these: of which objects each of them is.

    Of those in `unknown` it was not asked yet, or the object is one of several that have a class.
    """

    unknown: list[int]
    by_object: dict[tuple[ast.AST, tuple[int, ...]], list[int]] = field(default_factory=lambda: defaultdict(list))
    by_parameter: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


Documents = Callable[[str, str], Mapping[str, WrittenValue] | None]
"""What the data file holds, by dotted key, that a word ("configs/base.yaml") means in a script; None for none."""


def no_document(reference: str, beside: str) -> None:
    """Where no other file can be read."""


Reach = Callable[["ScriptView", ast.AST], bool | None]
"""Whether a run comes to a node: what follows values cannot ask for conditions itself."""


def unknown_reach(view: ScriptView, node: ast.AST) -> None:
    """Where no condition is worked out."""


Sections = Callable[[ast.ClassDef], tuple[str, ...]]


def no_sections(class_: ast.ClassDef) -> tuple[str, ...]:
    """Where no config makes a class."""
    return ()


class ScriptView(Struct, frozen=True, eq=False):
    """One file of a run: its index, its text, and what the command line and the configs of the run give it.

    The views of a run share all that they remember of nodes, so that each may be asked for a node of another. What is
    being followed is remembered as unknown: an expression that leads back to itself comes to an end.
    """

    index: Index
    source: Source
    file: str
    options: Mapping[str, Option]
    """What the parsers of the file accept, by the name under which the script reads it."""
    flags: Mapping[str, WrittenValue] | None = None
    """The command line that starts the script, by option; None when it is not known."""
    is_open: bool = True
    """Whether the command line is not known, or may have more flags than these."""
    is_module: bool = False
    """Whether another script imports the file, and calls its functions with what only the views of a run show."""
    origins: dict[tuple[ast.AST, tuple[int, ...], bool], tuple[ValueOrigin, ...]] = field(default_factory=dict)
    """The origins found so far, by expression, item of it, and whether only its object was asked for."""
    values: dict[ast.AST, WrittenValue] = field(default_factory=dict)
    """The values found so far."""
    following: list[ast.AST] = field(default_factory=list)
    """The expressions whose value is being worked out."""
    followed: Counter[Binding | None] = field(default_factory=Counter)
    """How often a variable, by its first binding, is being followed."""
    identified: list[ast.AST] = field(default_factory=list)
    """The expressions of which only the object is asked for that they stand for, whatever changes it."""
    entries: dict[ast.AST, DictEntries] = field(default_factory=dict)
    """The entries of dicts found so far."""
    held: dict[tuple[ast.AST, int, bool], LoadedConfig | None] = field(default_factory=dict)
    """What expressions hold of data files, by expression, depth and whether only its object was asked for."""
    object_writes: dict[tuple[ast.AST, str], ObjectWrites] = field(default_factory=dict)
    """The writes of each file and key, by what they change."""
    followed_writes: dict[AttributeWrite, bool] = field(default_factory=dict)
    """Whether a function of the project gets what a write changes."""
    reached: dict[ast.AST, bool | None] = field(default_factory=dict)
    """Whether a run calls a function, as far as that was asked."""
    views: dict[ast.AST, ScriptView] = field(default_factory=dict)
    """The views of all files of the run, by their trees; empty for a script that is read alone."""
    documents: Documents = no_document
    """Reads the config that a script loads."""
    configured: Mapping[str, WrittenValue] = field(default_factory=dict)
    """What the configs that the command names give, by dotted key, to options that no flag gives."""
    sections: Sections = no_sections
    """The keys of `configured` below which the arguments of a class stand."""
    composed: Mapping[str, WrittenValue] = field(default_factory=dict)
    """What Hydra puts together for the script."""
    reach: Reach = unknown_reach
    """Whether a run comes to a node."""
    models: LibraryModels = LibraryModels()

    def at(self, node: ast.AST) -> ScriptView:
        """The view of the file in which `node` stands."""
        return self.views.get(self.index.root(node), self) if self.views else self

    def beside(self, index: Index, source: Source, file: str) -> ScriptView:
        """The view of another file of the same run."""
        return replace(self, index=index, source=source, file=file, options=read_options(index))

    def place(self, node: ast.AST, key: str = "") -> Location:
        """Where `node` stands, and the call that it is an argument of."""
        call, view = self._call(node), self.at(node)
        return Location(
            file=view.file,
            line=getattr(node, "lineno", 1),
            call=last_name(call.func) if call else "",
            column=view.source.column(node),
            end_line=getattr(call or node, "end_lineno", None) or 1,
            key=key or self._key(node),
            span=view.source.span(node),
        )

    def _call(self, node: ast.AST) -> ast.Call | None:
        """The call itself, or the one that has `node` for an argument."""
        if isinstance(node, ast.Call):
            return node
        outer = self.index.parents.get(node)
        outer = self.index.parents.get(outer) if isinstance(outer, ast.keyword) else outer
        return outer if isinstance(outer, ast.Call) else None

    def _key(self, node: ast.AST) -> str:
        """How the value at `node` is called there: a keyword, the key of a dict, the name that it is given."""
        outer = self.index.parents.get(node)
        if isinstance(outer, ast.keyword):
            return outer.arg or ""
        if isinstance(outer, ast.Assign):
            return last_name(outer.targets[0])
        if isinstance(outer, ast.AnnAssign):
            return last_name(outer.target)
        if isinstance(outer, ast.Dict) and node in outer.values:
            key = outer.keys[outer.values.index(node)]
            return str(key.value) if isinstance(key, ast.Constant) else ""
        return ""
