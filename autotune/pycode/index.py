"""The index of a file: its scopes and bindings, its calls, reads and writes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field

from autotune.pycode.work_budget import Work
from autotune.syntax.python import last_name

Kind = Literal["value", "item", "parameter", "loop", "with", "import", "function", "class", "other"]

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Binding(Struct, frozen=True, eq=False):
    """One place that binds a name.

    `value` is the expression that it gets (kind "value"), is an item of at `path` (kind "item"), or iterates over
    (kind "loop"); `text` is what an import names, with its package.
    """

    kind: Kind
    node: ast.AST
    value: ast.expr | None = None
    path: tuple[int, ...] = ()
    text: str = ""


class Scope(Struct, frozen=True, eq=False):
    """A module, class or function and the names that it binds."""

    node: ast.AST
    outer: Scope | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    elsewhere: dict[str, Scope] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        self.elsewhere.get(name, self).bindings[name].append(binding)

    def lookup(self, name: str) -> list[Binding]:
        """What binds `name` as it is read in this scope; nothing for builtins and star imports."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope.bindings[name]
            scope = scope.outer
        return []


class AttributeWrite(Struct, frozen=True, eq=False):
    """`base.attribute = value`, or `base[key] = value`; without a value where it is changed in another way."""

    base: ast.expr
    node: ast.stmt | ast.expr
    value: ast.expr | None


class FileSet(Protocol):
    """The files of one run, as a file of it sees them; `uses` remembers where each of its functions is used."""

    uses: dict[ast.AST, Sequence[ast.expr]]

    def index(self, node: ast.AST) -> Index:
        """That of the file in which `node` stands."""

    def imported(self, name: str, index: Index) -> Sequence[Binding]:
        """What binds the full name `name` ("config.Config", "..data.make_loader"), which `index` imports, in another
        file of the project; nothing for a library, and for a module itself."""

    def importers(self, index: Index) -> Sequence[Index]:
        """The other files of the run that import something of this one."""

    def is_set(self, index: Index, name: str) -> bool:
        """Whether a file of the run sets this name of a module from outside: `conf.WORKERS = 8`."""


class Nodes(Struct, frozen=True, eq=False):
    """What is known of nodes, whichever file they stand in: what is around them, and what their names mean."""

    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    scopes: dict[ast.AST, Scope] = field(default_factory=dict)
    inner: dict[ast.AST, Scope] = field(default_factory=dict)
    returns: dict[ast.AST, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    unpacked: dict[tuple[ast.AST, str], ast.Call] = field(default_factory=dict)
    roots: dict[ast.AST, ast.AST] = field(default_factory=dict)
    """The trees of the files in which nodes stand, as far as that was asked."""
    names: dict[ast.AST, str | None] = field(default_factory=dict)
    """The full names of expressions, as far as these were asked."""


class Index(Struct, frozen=True, eq=False):
    """The tree of one file with its scopes, and its nodes by what they are, in the order of the file."""

    tree: ast.Module
    module: Scope
    nodes: Nodes = field(default_factory=Nodes)
    """Shared by all files that are read together."""
    calls: list[ast.Call] = field(default_factory=list)
    called: dict[str, list[ast.Call]] = field(default_factory=lambda: defaultdict(list))
    """The calls, by the last part of what they call."""
    functions: list[Function] = field(default_factory=list)
    classes: list[ast.ClassDef] = field(default_factory=list)
    stores: dict[str, list[AttributeWrite]] = field(default_factory=lambda: defaultdict(list))
    """Where an attribute is set, by its name."""
    items: dict[str, list[AttributeWrite]] = field(default_factory=lambda: defaultdict(list))
    """Where an item is set by its key, by the name of the object."""
    writes: dict[str, list[AttributeWrite]] = field(default_factory=lambda: defaultdict(list))
    """All that may change an object, by the attribute or key that it sets; "" for what may set any."""
    methods: dict[str, list[ast.Call]] = field(default_factory=lambda: defaultdict(list))
    """The calls of methods, by the name of their object."""
    reads: dict[str, list[ast.Name]] = field(default_factory=lambda: defaultdict(list))
    """Where a name is read."""
    attributes: dict[str, list[ast.Attribute]] = field(default_factory=lambda: defaultdict(list))
    """The attributes, read or set, by their name."""
    loops: list[ast.For | ast.comprehension] = field(default_factory=list)
    strings: list[ast.Constant] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    """The modules that the file imports."""
    stars: list[str] = field(default_factory=list)
    """The modules of which it imports every name."""
    aliases: dict[str, dict[str, None]] = field(default_factory=lambda: defaultdict(dict))
    """The names that imports give, by the last part of what is imported."""
    work: Work = field(default_factory=Work)
    """What may still be spent on following names."""
    program: FileSet | None = None
    """The other files of the run; None for a file that is read alone."""

    @property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return self.nodes.parents

    @property
    def scopes(self) -> dict[ast.AST, Scope]:
        return self.nodes.scopes

    @property
    def inner(self) -> dict[ast.AST, Scope]:
        return self.nodes.inner

    @property
    def returns(self) -> dict[ast.AST, list[ast.expr]]:
        return self.nodes.returns

    def at(self, node: ast.AST) -> Index:
        """The index of the file in which `node` stands."""
        return self if self.program is None else self.program.index(node)

    def root(self, node: ast.AST) -> ast.AST:
        """The file, as its tree, in which `node` stands."""
        found = self.nodes.roots.get(node)
        if found is None:
            found = node
            while (outer := self.nodes.parents.get(found)) is not None:
                self.work.spend()
                found = outer
            if isinstance(found, ast.Module):  # an annotation gets its place later
                self.nodes.roots[node] = found
        return found

    def place(self, node: ast.AST, parent: ast.AST, scope: Scope) -> None:
        """Make an expression known that says nothing about what runs: an annotation."""
        waiting = [(node, parent)]
        for one, outer in waiting:
            self.nodes.parents[one] = outer
            self.nodes.scopes[one] = scope
            waiting += [(inner, one) for inner in ast.iter_child_nodes(one)]

    def unpacked(self, keyword: ast.keyword, call: ast.Call, name: str, default: ast.expr | None) -> ast.Call:
        """What `**options` in a call gives for a parameter, as the expression `options.get("workers", default)`."""
        found = self.nodes.unpacked.get((keyword, name))
        if found is None:
            asked = ast.Constant(name)
            method = ast.Attribute(keyword.value, "get", ast.Load())
            found = ast.Call(method, [asked, *([default] if default is not None else [])], [])
            self.nodes.parents.update({asked: found, method: found, found: call})
            self.nodes.scopes[found] = self.nodes.scopes[call]
            for node in (asked, method, found):
                ast.copy_location(node, keyword.value)
            self.nodes.unpacked[keyword, name] = found
        return found

    def lookup(self, name: ast.Name) -> list[Binding]:
        self.work.spend()
        return self.scopes[name].lookup(name.id)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, from the inside."""
        while node in self.parents:
            self.work.spend()
            node = self.parents[node]
            yield node

    def ancestors_in_function(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node` that belong to the same function, or to the module."""
        for outer in self.ancestors(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
                return
            yield outer

    def enclosing_function(self, node: ast.AST) -> Function | None:
        """The function around `node`; None at module or class level."""
        for outer in self.ancestors(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                return outer
        return None

    def descendants(self, node: ast.AST) -> Iterator[ast.AST]:
        """The node and all nodes in it, in no order that matters."""
        for inner in ast.walk(node):
            self.work.spend()
            yield inner

    def method_class(self, function: ast.AST) -> ast.ClassDef | None:
        """The class whose body defines `function`."""
        parent = self.parents.get(function)
        return parent if isinstance(parent, ast.ClassDef) else None


def base_name(call: ast.Call) -> str:
    """What a method is called on: "optimizer" of optimizer.step(), "" where nothing names it."""
    return last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
