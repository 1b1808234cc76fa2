"""The call graph of a project: which function a call runs, what it passes for a parameter, and who calls whom."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autotune.pycode.index import Binding, Function, Index
from autotune.pycode.names import full_name
from autotune.syntax.python import last_name

METHODS = frozenset({"staticmethod", "classmethod"})
"""Decorators that leave what a function returns as it is."""

MAX_CALLERS = 200
"""Uses of functions that are followed from one place; more is no script that a person wrote."""


def bindings_of(index: Index, node: ast.AST) -> Sequence[Binding]:
    """What binds a name, or the name of a module of the project's own: followed through its imports."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return ()
    own = index.lookup(node) if isinstance(node, ast.Name) else ()
    if index.program is None or (own and any(one.kind != "import" for one in own)):
        return own
    name = full_name(index, node)
    return (index.program.imported(name, index.at(node)) if name is not None and "." in name else ()) or own


def passed_arguments(index: Index, function: Function, parameter: str) -> Iterator[ast.expr | None]:
    """What each use of the function passes, its default for one that passes nothing; None where it is not known.

    Nothing when no file of the run uses the function.
    """
    class_ = index.method_class(function)
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if class_ is not None and not _is_static(function):
        names = names[1:]
    default = dict(defaults(function.args)).get(parameter)
    for use in uses(index, function):
        outer = index.parents.get(use)
        if isinstance(outer, ast.Call) and outer.func is use:
            yield argument(index, outer, names, parameter, default)
        elif isinstance(outer, ast.Call) and last_name(outer.func) == "spawn" and outer.args[:1] == [use]:
            yield _spawned_argument(outer, names[1:], parameter, default)
        else:
            yield None


def uses(index: Index, function: Function) -> Sequence[ast.expr]:
    """Every read of the function's name; of a constructor, of its class's. Of a method, every attribute of its name."""
    index = index.at(function)
    if index.program is None:
        return tuple(_uses(index, function))
    if function not in index.program.uses:
        index.program.uses[function] = tuple(_uses(index, function))
    return index.program.uses[function]


def _uses(index: Index, function: Function) -> Iterator[ast.expr]:
    class_ = index.method_class(function)
    if class_ is None:
        yield from index.reads.get(function.name, ())
    elif function.name == "__init__":
        yield from (read for read in index.reads.get(class_.name, ()) if not _is_owner(index, read))
    else:
        yield from index.attributes.get(function.name, ())
    for other in index.program.importers(index) if index.program is not None else ():
        if class_ is not None and function.name != "__init__":
            yield from other.attributes.get(function.name, ())
        else:
            yield from _imported_uses(other, function if class_ is None else class_)


def _imported_uses(index: Index, definition: Function | ast.ClassDef) -> Iterator[ast.expr]:
    """Every read of a function or class of another file, under the name that it has here."""
    names = {definition.name, *index.aliases.get(definition.name, ())}
    reads = (read for name in sorted(names) for read in index.reads.get(name, ()))
    for node in (*reads, *index.attributes.get(definition.name, ())):
        index.work.spend()
        is_asked = isinstance(definition, ast.ClassDef) and _is_owner(index, node)
        if not is_asked and any(one.node is definition for one in bindings_of(index, node)):
            yield node


def _is_owner(index: Index, node: ast.expr) -> bool:
    """Whether a class is only asked for something of its own, `Config.default`, and not made."""
    return isinstance(index.parents.get(node), ast.Attribute)


def defaults(every: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function that have a default, each with it."""
    plain = [*every.posonlyargs, *every.args]
    values = [*[None] * (len(plain) - len(every.defaults)), *every.defaults, *every.kw_defaults]
    for argument, default in zip([*plain, *every.kwonlyargs], values, strict=True):
        if default is not None:
            yield argument.arg, default


def called_function(index: Index, call: ast.Call) -> Function | None:
    """The function or method of the project that a call runs: `train(...)`, `self.train(...)` in its class, or
    `Config.default()` of another."""
    func = call.func
    if nodes := [binding.node for binding in bindings_of(index, func)]:
        found = nodes[0] if len(nodes) == 1 else None
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None
    if isinstance(func, ast.Attribute):
        around = index.enclosing_function(call)
        is_self = isinstance(func.value, ast.Name) and func.value.id in ("self", "cls")
        class_ = (index.method_class(around) if around else None) if is_self else called_class(index, func.value)
        nodes = [binding.node for binding in index.inner[class_].bindings.get(func.attr, ())] if class_ else []
        found = nodes[0] if len(nodes) == 1 else None
        return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return None


def called_class(index: Index, func: ast.AST) -> ast.ClassDef | None:
    """The class of the project that a name stands for."""
    nodes = [binding.node for binding in bindings_of(index, func)]
    return nodes[0] if len(nodes) == 1 and isinstance(nodes[0], ast.ClassDef) else None


def with_bases(index: Index, class_: ast.ClassDef) -> Iterator[ast.ClassDef]:
    """The class and the classes of the project that it extends, nearest first."""
    found = {class_: None}
    for one in (waiting := [class_]):
        yield one
        bases = [base for node in one.bases if (base := called_class(index, node)) is not None and base not in found]
        found.update(dict.fromkeys(bases))
        waiting += dict.fromkeys(bases)


def with_callers(index: Index, node: ast.AST) -> Iterator[ast.AST]:
    """The node, every use of the function around it, every use of the functions around those, and so on.

    Not many more than MAX_CALLERS of them.
    """
    seen: set[ast.AST] = set()
    for one in (waiting := [node]):
        yield one
        function = index.enclosing_function(one)
        if function is not None and function not in seen and len(waiting) < MAX_CALLERS:
            seen.add(function)
            waiting += uses(index, function)


def returned_values(index: Index, function: Function) -> Sequence[ast.expr]:
    """What the function returns; nothing for a coroutine, and where a decorator may change it."""
    decorators = [last_name(one) for one in function.decorator_list]
    if set(decorators) - METHODS or isinstance(function, ast.AsyncFunctionDef):
        return ()
    return index.returns.get(function, ())


def argument(
    index: Index, call: ast.Call, names: Sequence[str], parameter: str, default: ast.expr | None
) -> ast.expr | None:
    """What a call passes for a parameter, of which `names` are those by place; None where it is not known."""
    named = {keyword.arg: keyword for keyword in call.keywords}
    if parameter in named:
        return named[parameter].value
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    place = names.index(parameter) if parameter in names else len(call.args)
    if place < len(call.args):
        return call.args[place]
    packed = [keyword for keyword in call.keywords if keyword.arg is None]
    if not packed:
        return default
    return index.unpacked(packed[0], call, parameter, default) if len(packed) == 1 else None


def _spawned_argument(call: ast.Call, names: list[str], parameter: str, default: ast.expr | None) -> ast.expr | None:
    """`mp.spawn(main_worker, args=(...))` passes the rank, and then what is in the tuple."""
    packed = next((one.value for one in call.keywords if one.arg == "args"), None)
    if not isinstance(packed, ast.Tuple) or any(isinstance(one, ast.Starred) for one in packed.elts):
        return None
    place = names.index(parameter) if parameter in names else len(packed.elts)
    return packed.elts[place] if place < len(packed.elts) else default


def _is_static(function: Function) -> bool:
    return any(last_name(one) == "staticmethod" for one in function.decorator_list)
