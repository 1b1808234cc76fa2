"""Builds the index of a script in one pass, however deep it is nested."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from autotune.pycode.index import AttributeWrite, Binding, Index, Nodes, Scope
from autotune.pycode.work_budget import Work
from autotune.syntax.python import last_name

NOT_CODE = frozenset({"annotation", "returns", "ctx", "type_comment", "type_params"})
"""Fields of nodes that say nothing about what runs."""

_OF_FILES = r"yaml|json|toml|file|dict|c(on)?fi?g|arg|cli|env|list|over|opt"

_CHANGES = "update|merge|overrid|overwrit|populat|modif|patch"

CHANGING = re.compile(rf"_*({_CHANGES})\w*")
"""How functions are called that change any of what they are given."""

CHANGING_OTHERS = re.compile(rf"_*({_CHANGES})[a-z]*_\w+")
"""How members of a module are called that do so: `shown.update(cfg)` is a method of a dict, which only reads it."""

FUNCTIONS = re.compile(
    r"_*(?!parse_(known_|intermixed_)?args)"
    rf"(({_CHANGES})\w*|(load|parse|read|from|apply|add|fill)(_\w*({_OF_FILES})\w*)?)"
)
"""How functions are called that change the config which they are given first."""

METHODS = re.compile(rf"{FUNCTIONS.pattern}|set(_\w+|default)?|pop(item)?|clear|__(set|del)(item|attr)__")
"""How methods are called that change the config which has them."""

NO_KEYS = (ast.Slice, ast.Tuple, ast.List, ast.UnaryOp, ast.BinOp, ast.Compare)
"""Expressions in brackets that are no key of a config."""


def build(tree: ast.Module, work: Work, nodes: Nodes | None = None) -> Index:
    """The index of a tree, made and followed with `work`; `nodes` are those of the files that are read with it."""
    index = Index(tree, Scope(tree), nodes=nodes or Nodes(), work=work)
    stack: list[tuple[ast.AST, Scope]] = [(tree, index.module)]
    while stack:
        work.spend()
        node, scope = stack.pop()
        visit = VISITS.get(type(node))
        inner = visit(index, node, scope) if visit else None
        children = list(_children(node))
        for child in reversed(children):
            index.parents[child] = node
            stack.append((child, inner or scope))
    return index


def _children(node: ast.AST) -> Iterator[ast.AST]:
    fields = _FIELDS.get(type(node))
    if fields is None:
        fields = _FIELDS[type(node)] = tuple(name for name in node._fields if name not in NOT_CODE)
    for name in fields:
        child = getattr(node, name, None)
        if isinstance(child, list):
            for item in child:
                if isinstance(item, ast.AST) and item._fields:
                    yield item
        elif isinstance(child, ast.AST) and child._fields:
            yield child


_FIELDS: dict[type, tuple[str, ...]] = {}


def _name(index: Index, node: ast.Name, scope: Scope) -> None:
    index.scopes[node] = scope
    if isinstance(node.ctx, ast.Load):
        index.reads[node.id].append(node)


def _attribute(index: Index, node: ast.Attribute, scope: Scope) -> None:
    index.attributes[node.attr].append(node)


def _constant(index: Index, node: ast.Constant, scope: Scope) -> None:
    if isinstance(node.value, str):
        index.strings.append(node)


def _call(index: Index, node: ast.Call, scope: Scope) -> None:
    index.scopes[node] = scope
    index.calls.append(node)
    index.called[last_name(node.func)].append(node)
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        index.methods[node.func.value.id].append(node)
    for base, key in _changed_objects(node):
        _write(index, base, node, key)


def _changed_objects(call: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    """The objects that a call may change, each with the attribute or key that it sets there ("": any)."""
    name = last_name(call.func)
    for one in call.keywords:
        if one.arg == "namespace":
            yield one.value, ""
    if name in ("setattr", "delattr") and isinstance(call.func, ast.Name):
        yield from ((base, _text(call.args[1:2])) for base in call.args[:1])
    elif name == "update" and last_name(getattr(call.func, "value", call)) == "OmegaConf":
        yield from ((base, _text(call.args[1:2]).partition(".")[0]) for base in call.args[:1])
    elif isinstance(call.func, ast.Attribute) and METHODS.fullmatch(name):
        yield from ((call.func.value, key) for key in _keys(call, name))
    elif isinstance(call.func, ast.Name) and FUNCTIONS.fullmatch(name):
        yield from ((base, "") for base in call.args[:1])
    if (CHANGING if isinstance(call.func, ast.Name) else CHANGING_OTHERS).fullmatch(name):
        others = call.args[1:] if isinstance(call.func, ast.Name) else call.args
        yield from ((base, "") for base in (*others, *(one.value for one in call.keywords)))


def _keys(call: ast.Call, method: str) -> tuple[str, ...]:
    """The keys that a method sets, where they are written there."""
    if method in ("pop", "setdefault", "__setitem__", "__setattr__", "__delitem__", "__delattr__"):
        return (_text(call.args[:1]),)
    if method != "update" or not all(isinstance(one, ast.Dict) for one in call.args):
        return ("",)
    named = [key for one in call.args if isinstance(one, ast.Dict) for key in one.keys]
    keys = [_text([key] if key is not None else []) for key in named]
    return tuple(dict.fromkeys([*keys, *(one.arg or "" for one in call.keywords)]))


def _text(given: list[ast.expr]) -> str:
    """The text that is written there; "" for any other expression."""
    key = given[0].value if given and isinstance(given[0], ast.Constant) else None
    return key if isinstance(key, str) else ""


def _write(index: Index, base: ast.expr, node: ast.stmt | ast.expr, key: str, value: ast.expr | None = None) -> None:
    """`vars(args)` and `args.__dict__` stand for the object itself."""
    if isinstance(base, ast.Call) and last_name(base.func) == "vars" and base.args:
        base = base.args[0]
    if isinstance(base, ast.Attribute) and base.attr == "__dict__":
        base = base.value
    index.writes[key].append(AttributeWrite(base, node, value))


def _function(index: Index, node: ast.FunctionDef, scope: Scope) -> Scope:
    scope.bind(node.name, Binding("function", node))
    index.functions.append(node)
    index.scopes[node] = scope
    return _lambda(index, node, scope)


def _lambda(index: Index, node: ast.FunctionDef | ast.Lambda, scope: Scope) -> Scope:
    inner = index.inner[node] = Scope(node, scope)
    every = node.args
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
        inner.bind(argument.arg, Binding("parameter", argument))
    for packed in filter(None, (every.vararg, every.kwarg)):
        inner.bind(packed.arg, Binding("other", packed))
    return inner


def _return(index: Index, node: ast.Return, scope: Scope) -> None:
    # A bare return gives None where it stands.
    index.returns[scope.node].append(node.value or ast.copy_location(ast.Constant(None), node))


def _generator(index: Index, node: ast.Yield | ast.YieldFrom, scope: Scope) -> None:
    """What a generator gives cannot be followed: itself stands for it."""
    index.returns[scope.node].append(node)


def _class(index: Index, node: ast.ClassDef, scope: Scope) -> Scope:
    scope.bind(node.name, Binding("class", node))
    index.classes.append(node)
    index.scopes[node] = scope
    index.inner[node] = Scope(node, scope)
    return index.inner[node]


def _assign(index: Index, node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        _bind(index, target, node, scope, Binding("value", node, node.value))


def _annotated_assign(index: Index, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        _bind(index, node.target, node, scope, Binding("value", node, node.value))


def _walrus(index: Index, node: ast.NamedExpr, scope: Scope) -> None:
    scope.bind(node.target.id, Binding("value", node, node.value))


def _augmented_assign(index: Index, node: ast.AugAssign, scope: Scope) -> None:
    _bind(index, node.target, node, scope, Binding("other", node))
    if isinstance(node.op, ast.BitOr):
        _write(index, node.target, node, "")


def _delete(index: Index, node: ast.Delete, scope: Scope) -> None:
    for target in node.targets:
        _note_write(index, target, None)


def _note_write(index: Index, target: ast.expr, value: ast.expr | None) -> None:
    """Note the attribute or key that is set or deleted: a number or a slice is no key of a config, and what a class
    sets on itself is known with the class."""
    if isinstance(target, ast.Attribute) and target.attr == "__dict__":
        _write(index, target.value, target, "")
    elif isinstance(target, ast.Attribute) and last_name(target.value) != "self":
        _write(index, target.value, target, target.attr, value)
    elif isinstance(target, ast.Subscript) and not isinstance(target.slice, NO_KEYS):
        key = _text([target.slice])
        if key or not isinstance(target.slice, ast.Constant):
            _write(index, target.value, target, key, value if key else None)


def _for(index: Index, node: ast.For | ast.comprehension, scope: Scope) -> None:
    index.scopes[node] = scope
    index.loops.append(node)
    _bind(index, node.target, node, scope, Binding("loop", node, node.iter))


def _with(index: Index, node: ast.withitem, scope: Scope) -> None:
    if node.optional_vars is not None:
        _bind(index, node.optional_vars, node, scope, Binding("with", node, node.context_expr))


def _import(index: Index, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        index.imports.add(alias.name)
        name = alias.asname or alias.name.split(".")[0]
        scope.bind(name, Binding("import", alias, text=alias.name if alias.asname else name))


def _import_from(index: Index, node: ast.ImportFrom, scope: Scope) -> None:
    module = "." * node.level + (node.module or "")
    dot = "" if module.endswith(".") else "."
    index.imports.add(module)
    for alias in node.names:
        if alias.name == "*":
            index.stars.append(module)
        else:
            index.aliases[alias.name][alias.asname or alias.name] = None
            scope.bind(alias.asname or alias.name, Binding("import", alias, text=f"{module}{dot}{alias.name}"))


def _global(index: Index, node: ast.Global, scope: Scope) -> None:
    scope.elsewhere.update(dict.fromkeys(node.names, index.module))


def _nonlocal(index: Index, node: ast.Nonlocal, scope: Scope) -> None:
    for name in node.names:
        outer = scope.outer
        while outer is not None and name not in outer.bindings:
            outer = outer.outer
        if outer is not None:
            scope.elsewhere[name] = outer


def _caught_name(index: Index, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar, scope: Scope) -> None:
    if node.name:
        scope.bind(node.name, Binding("other", node))


def _bind(index: Index, target: ast.expr, node: ast.AST, scope: Scope, binding: Binding) -> None:
    """Bind every name in `target`, and note the attributes and keys that it sets."""
    waiting = [(target, binding)]
    while waiting:
        one, bound = waiting.pop()
        value = bound.value if bound.kind == "value" else None
        if isinstance(one, ast.Name):
            scope.bind(one.id, bound)
        elif isinstance(one, ast.Tuple | ast.List):
            waiting += [(item, _item(bound, place)) for place, item in enumerate(one.elts)]
        elif isinstance(one, ast.Starred):
            waiting.append((one.value, Binding("other", node)))
        elif isinstance(one, ast.Attribute):
            index.stores[one.attr].append(AttributeWrite(one.value, one, value))
            _note_write(index, one, value)
        elif isinstance(one, ast.Subscript):
            index.items[last_name(one.value)].append(AttributeWrite(one.value, one, value))
            _note_write(index, one, value)


def _item(bound: Binding, place: int) -> Binding:
    if bound.kind not in ("value", "item"):
        return bound
    values = bound.value.elts if bound.kind == "value" and isinstance(bound.value, ast.Tuple | ast.List) else []
    if place < len(values) and not any(isinstance(one, ast.Starred) for one in values):
        return Binding("value", bound.node, values[place])
    return Binding("item", bound.node, bound.value, (*bound.path, place))


VISITS: Mapping[type, Callable[[Index, Any, Scope], Scope | None]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.Call: _call,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.Return: _return,
    ast.Yield: _generator,
    ast.YieldFrom: _generator,
    ast.ClassDef: _class,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated_assign,
    ast.NamedExpr: _walrus,
    ast.AugAssign: _augmented_assign,
    ast.Delete: _delete,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.comprehension: _for,
    ast.withitem: _with,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.ExceptHandler: _caught_name,
    ast.MatchAs: _caught_name,
    ast.MatchStar: _caught_name,
}
