"""The origins of a value: the expressions that it comes from, through names, parameters, attributes and returns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from autotune.pycode import cli_options
from autotune.pycode.attributes import PARSES, assigned_values, members, nested_option, values_set_by_first_name
from autotune.pycode.cli_options import Option
from autotune.pycode.dicts import CHANGES, dict_entries
from autotune.pycode.functions import (
    bindings_of,
    called_class,
    called_function,
    passed_arguments,
    returned_values,
    with_bases,
)
from autotune.pycode.index import AttributeWrite, Binding
from autotune.pycode.mutations import IsKnown, changed_keys, later_values, sets_global, sets_itself
from autotune.pycode.names import full_name
from autotune.pycode.script_view import DictEntries, ObjectWrites, ScriptView, ValueOrigin
from autotune.syntax.python import last_name

MAX_DEPTH = 40
"""Names and calls that are followed one after another; more is no script that a person wrote."""

MAX_PATH = 8
"""Items of items of items that one expression means."""

MAX_ROUNDS = 3
"""How often one variable is followed within itself, as in `p = p[0]`: each time another item of it is meant."""

MAX_ORIGINS = 50
"""Expressions that one may come from; of more nothing is known."""

Path = tuple[int, ...]

OriginStep = tuple[ast.AST, Path] | ValueOrigin
"""What an expression leads to: another expression and the item of it that is meant, or an end."""


def origins(view: ScriptView, node: ast.AST, path: Path = (), depth: int = 0) -> tuple[ValueOrigin, ...]:
    """Every expression that `node`, or the item at `path` of it, may come from.

    An expression that cannot be followed is its own origin, and so is one that is being followed already.
    """
    asked = (node, path, bool(view.identified))
    known = view.origins.get(asked)
    if known is not None:
        return known
    view = view.at(node)
    unknown = (ValueOrigin(node, path),)
    bindings = view.index.lookup(node) if isinstance(node, ast.Name) else ()
    variable = bindings[0] if bindings else None
    if depth > MAX_DEPTH or len(path) > MAX_PATH or view.followed[variable] >= MAX_ROUNDS:
        return unknown
    view.origins[asked] = unknown
    if variable is not None:
        view.followed[variable] += 1
    try:
        view.origins[asked] = _ends(view, node, path, depth) or unknown
    finally:
        if variable is not None:
            view.followed[variable] -= 1
    return view.origins[asked]


def _ends(view: ScriptView, node: ast.AST, path: Path, depth: int) -> tuple[ValueOrigin, ...]:
    """What all steps from `node` come to; nothing when that is too much."""
    found: dict[ValueOrigin, None] = {}
    for step in _steps(view, node, path, depth):
        view.index.work.spend()
        ends = (step,) if isinstance(step, ValueOrigin) else origins(view, *step, depth + 1)
        found.update(dict.fromkeys(ends))
        if len(found) > MAX_ORIGINS:
            return ()
    return tuple(found)


def _steps(view: ScriptView, node: ast.AST, path: Path, depth: int) -> Iterator[OriginStep]:
    if isinstance(node, ast.Name):
        found = bindings_of(view.index, node)
        for binding in found:
            yield from _binding_steps(view, binding, path)
        yield from _as_steps([None] if _is_rebound(view, found) else (), node, path)
    elif isinstance(node, ast.Attribute):
        yield from _attribute_steps(view, node, path, depth)
    elif isinstance(node, ast.Subscript):
        yield from _subscript_steps(view, node, path)
    elif isinstance(node, ast.Call):
        yield from _call_steps(view, node, path)
    elif isinstance(node, ast.IfExp):
        yield from [(node.body, path), (node.orelse, path)]
    elif isinstance(node, ast.NamedExpr | ast.Await):
        yield node.value, path
    elif isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
        yield node.elts[path[0]], path[1:]


def _binding_steps(view: ScriptView, binding: Binding, path: Path) -> Iterator[OriginStep]:
    if binding.kind in ("value", "item") and binding.value is not None:
        yield binding.value, binding.path + path
    elif binding.kind == "parameter":
        yield from _parameter_steps(view, binding.node, path)
    else:
        yield ValueOrigin(binding.node, path)


def _parameter_steps(view: ScriptView, node: ast.AST, path: Path) -> Iterator[OriginStep]:
    """The option that the parameter is, else what every call in the file passes, where there are no others."""
    function = view.index.parents[view.index.parents[node]]
    if isinstance(function, ast.Lambda) or not isinstance(node, ast.arg) or node.arg == "self":
        yield ValueOrigin(node, path)
        return
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    class_ = view.index.method_class(function) if function.name == "__init__" else None
    sections = view.sections(class_) if class_ is not None else ()
    known = (
        cli_options.constructor_options(function, sections)
        if sections
        else cli_options.function_options(view.index, function)
    )
    option = known.get(node.arg)
    if option is not None:
        yield ValueOrigin(option.node, path, option)
    elif view.is_module and not view.views:
        yield ValueOrigin(node, path)
    else:
        yield from _as_steps(passed_arguments(view.index, function, node.arg), node, path)


def _attribute_steps(view: ScriptView, node: ast.Attribute, path: Path, depth: int) -> Iterator[OriginStep]:
    """What the attribute of its base is, and what the script sets it to."""
    if full_name(view.index, node) is not None:
        found_elsewhere = bindings_of(view.index, node)
        for binding in found_elsewhere:
            yield from _binding_steps(view, binding, path)
        yield from _as_steps([None] if _is_rebound(view, found_elsewhere) else (), node, path)
        if found_elsewhere or all(one.kind == "import" for one in bindings_of(view.index, node.value)):
            return
    bases = [one for one in origins(view, node.value, (), depth + 1) if not _is_parser(view, one)]
    here = list(assigned_values(view, node.value, node.attr))
    for base in bases:
        inner = nested_option(view.index, base.option, node.attr) if base.option is not None else None
        at = view.at(base.node)
        found: list[ast.expr | Option | None] = [inner] if inner is not None else []
        found += members(at, base.node, base.path, node.attr) if inner is None else ()
        if not base.path and not (at is view and last_name(node.value) in _assigned_names(at, base.node)):
            found += values_set_by_first_name(at, base.node, node.attr)
        if found or not (here and _is_parsed(base)):
            yield from _as_steps(found or [None], node, path)
    yield from _as_steps([*here, *_later_attribute_values(view, node.value, bases, node.attr)], node, path)


def _later_attribute_values(
    view: ScriptView, owner: ast.expr, bases: Sequence[ValueOrigin], name: str
) -> Iterator[ast.expr | None]:
    """What an attribute of an object is set to beside what `assigned_values` and `values_set_by_first_name` find."""
    if not view.identified:
        yield from later_values(view, name, _holder(view, owner, bases, name), _known_attributes(view, owner, bases))


def changed_attributes(view: ScriptView, made: ast.Call, owner: ast.expr, *, has_setters: bool) -> frozenset[str]:
    """The attributes of the object that a call of a library makes which something changes, and not `owner.name = ...`
    of its file. Methods of such objects do their work (`fabric.setup(model)`); where it `has_setters`, its methods
    that are called set_... change it."""
    bases = [ValueOrigin(made)]
    is_followed = _known_attributes(view, owner, bases)

    def is_known(at: ScriptView, store: AttributeWrite) -> bool:
        method = store.node.func if isinstance(store.node, ast.Call) else None
        is_own = isinstance(method, ast.Attribute) and method.value is store.base
        is_setter = has_setters and last_name(method or store.base).startswith("set_")
        return is_followed(at, store) or (is_own and not is_setter)

    return changed_keys(view, _holder(view, owner, bases, ""), is_known)


def _known_attributes(view: ScriptView, owner: ast.expr, bases: Sequence[ValueOrigin]) -> IsKnown:
    def is_known(at: ScriptView, store: AttributeWrite) -> bool:
        is_here = at.file == view.file and last_name(store.base) == last_name(owner)
        return isinstance(store.node, ast.Attribute) and (is_here or _is_of_maker(at, store, bases))

    return is_known


def _later_item_values(view: ScriptView, owner: ast.expr, key: str) -> Iterator[ast.expr | None]:
    """What a dict's value for a key is set to beside what `dict_entries` finds."""
    if not view.identified:
        bases = origins(view, owner)
        yield from later_values(view, key, _holder(view, owner, bases, key), _known_items(bases))


def changed_items(view: ScriptView, owner: ast.expr) -> frozenset[str]:
    """The keys of a dict that something changes beside what `dict_entries` finds; ANY where it may be any."""
    bases = origins(view, owner)
    return changed_keys(view, _holder(view, owner, bases, ""), _known_items(bases))


def _known_items(bases: Sequence[ValueOrigin]) -> IsKnown:
    def is_known(at: ScriptView, store: AttributeWrite) -> bool:
        is_method = last_name(getattr(store.node, "func", store.base)) in CHANGES
        is_stored = isinstance(store.node, ast.Subscript) and not isinstance(store.node.ctx, ast.Del)
        return (is_method or is_stored) and _is_of_maker(at, store, bases)

    return is_known


class _ObjectHolder(Struct, frozen=True):
    """What holds one of some `objects`, of which `owner.key` is asked."""

    objects: Mapping[tuple[ast.AST, Path], None]
    owner: ast.expr
    key: str

    def holds(self, view: ScriptView, node: ast.expr) -> bool:
        """Whether an expression may stand for one of the objects; a parameter that nobody fills may, by its name."""
        if _is_self(node):
            return any(sets_itself(view, made, node, self.key) for made, _ in self.objects)
        view.identified.append(node)
        try:
            ends = origins(view, node)
        finally:
            view.identified.pop()
        named = last_name(self.owner)
        return any(
            (end.node, end.path) in self.objects or (isinstance(end.node, ast.arg) and end.node.arg == named != "self")
            for end in ends
        )

    def possible_writes(self, view: ScriptView, key: str) -> Sequence[AttributeWrite]:
        """Most writes of a file are of other objects: those whose object is known are looked up by it."""
        stores = view.index.writes.get(key)
        if not stores or view.identified:  # an origin that is being followed is not known yet
            return stores or ()
        known = view.object_writes.setdefault((view.index.tree, key), ObjectWrites(list(range(len(stores)))))
        known.unknown = [at for at in known.unknown if not _is_located(view, stores[at].base, at, known)]
        places = {at for one in self.objects for at in known.by_object.get(one, ())}
        places.update(known.by_parameter.get(last_name(self.owner), ()), known.unknown)
        return [stores[at] for at in sorted(places)]


def _is_located(view: ScriptView, base: ast.expr, place: int, known: ObjectWrites) -> bool:
    """Note the objects that a write is of, where they have been found."""
    ends = view.origins.get((base, (), True)) if not _is_self(base) else None
    for end in ends or ():
        known.by_object[end.node, end.path].append(place)
        if isinstance(end.node, ast.arg):
            known.by_parameter[end.node.arg].append(place)
    return ends is not None


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _holder(view: ScriptView, owner: ast.expr, bases: Sequence[ValueOrigin], key: str) -> _ObjectHolder:
    return _ObjectHolder(_objects(view, bases), owner, key)


def _is_of_maker(view: ScriptView, store: AttributeWrite, bases: Sequence[ValueOrigin]) -> bool:
    """Whether an object is changed by the name that it is first given."""
    names = [name for base in bases if (name := _first_name(view, base.node)) is not None]
    return isinstance(store.base, ast.Name) and any(
        view.index.lookup(store.base) is view.index.lookup(name) for name in names
    )


def _first_name(view: ScriptView, made: ast.AST) -> ast.Name | None:
    outer = view.index.parents.get(made)
    target = outer.targets[0] if isinstance(outer, ast.Assign) else getattr(outer, "target", None)
    return target if isinstance(target, ast.Name) else None


def _objects(view: ScriptView, bases: Sequence[ValueOrigin]) -> dict[tuple[ast.AST, Path], None]:
    """The objects that are meant, and the classes that they have values of."""
    found = {(base.node, base.path): None for base in bases}
    made = [base.node for base in bases if isinstance(base.node, ast.Call)]
    for class_ in [one for call in made if (one := called_class(view.index, call.func)) is not None]:
        found |= {(one, ()): None for one in with_bases(view.index, class_)}
    return found


def _is_rebound(view: ScriptView, found: Sequence[Binding]) -> bool:
    """Whether another file, or the file itself through globals(), may set a name of a module to something else."""
    return any(_is_set(view.at(binding.node), binding) for binding in found if binding.kind == "value")


def _is_set(view: ScriptView, binding: Binding) -> bool:
    targets = binding.node.targets if isinstance(binding.node, ast.Assign) else [getattr(binding.node, "target", None)]
    names = [one.id for one in targets if isinstance(one, ast.Name)]
    own = [name for name in names if any(one is binding for one in view.index.module.bindings.get(name, ()))]
    program = view.index.program
    return any(sets_global(view.index, one) or (program and program.is_set(view.index, one)) for one in own)


def _is_parsed(base: ValueOrigin) -> bool:
    """Whether an object has what a parser gives it, and what the script adds."""
    return isinstance(base.node, ast.Call) and last_name(base.node.func) in PARSES


def _assigned_names(view: ScriptView, made: ast.AST) -> tuple[str, ...]:
    """The name that an object is first given: what is set by it is a change that is known already."""
    outer = view.index.parents.get(made)
    return tuple(map(last_name, outer.targets)) if isinstance(outer, ast.Assign) else ()


def _is_parser(view: ScriptView, base: ValueOrigin) -> bool:
    """A parser has no options: in `args = get_parser(); args = args.parse_args()` only the second args is meant."""
    return isinstance(base.node, ast.Call) and full_name(view.index, base.node.func) == "argparse.ArgumentParser"


def _subscript_steps(view: ScriptView, node: ast.Subscript, path: Path) -> Iterator[OriginStep]:
    """An item of a tuple, or the value of a dict's key."""
    if not isinstance(node.slice, ast.Constant):
        return
    if isinstance(node.slice.value, int):
        yield node.value, (node.slice.value, *path)
    else:
        yield from _item_steps(view, node, node.value, str(node.slice.value), path, None)


def _item_steps(
    view: ScriptView, node: ast.expr, owner: ast.expr, key: str, path: Path, default: ast.expr | None
) -> Iterator[OriginStep]:
    """What a dict holds for a key; `default` where it certainly does not have it, None: `node` itself stands for it."""
    namespaces = [inner for one in origins(view, owner) for inner in _vars_arguments(one)]
    for base in [base for one in namespaces for base in origins(view, one)]:
        found = list(members(view.at(base.node), base.node, base.path, key))
        yield from _as_steps(found or [None], node, path)
    if namespaces:
        return
    held = _entries(view, owner)
    if key in held.values:
        yield from _as_steps(_later_item_values(view, owner, key), node, path)
    is_there, may_be_missing = key in held.values, key in held.maybe or held.is_open
    yield from _as_steps(held.values.get(key, ()), node, path)
    if may_be_missing or not is_there:
        yield from _as_steps([default if not may_be_missing and not is_there else None], node, path)


def _vars_arguments(origin: ValueOrigin) -> Iterator[ast.expr]:
    """The object in `vars(args)`, whose attributes are the keys of what it gives."""
    node = origin.node
    if isinstance(node, ast.Call) and last_name(node.func) == "vars" and len(node.args) == 1 and not origin.path:
        yield node.args[0]


def _entries(view: ScriptView, node: ast.expr) -> DictEntries:
    """What a dict holds, also where a function gets it, or another file makes it."""
    held = dict_entries(view, node)
    bases = origins(view, node) if held.is_open and not held.values else ()
    made = bases[0].node if len(bases) == 1 and not bases[0].path else None
    if not isinstance(made, ast.Dict | ast.Call) or made is node:
        return held
    return dict_entries(view.at(made), _first_name(view, made) or made)


def _lookup_steps(view: ScriptView, node: ast.Call, path: Path) -> Iterator[OriginStep]:
    """`cfg.get("workers", 0)` of a dict, `getattr(cfg, "workers", 0)` of an object."""
    asked = node.args if last_name(node.func) == "get" else node.args[1:]
    name = asked[0].value if asked and isinstance(asked[0], ast.Constant) else None
    if not isinstance(name, str):
        return
    if last_name(node.func) == "getattr":
        bases = origins(view, node.args[0])
        for base in bases:
            yield from _as_steps(members(view.at(base.node), base.node, base.path, name), node, path)
        yield from _as_steps(_later_attribute_values(view, node.args[0], bases, name), node, path)
    elif isinstance(node.func, ast.Attribute):
        yield from _item_steps(view, node, node.func.value, name, path, asked[1] if asked[1:] else None)


def _call_steps(view: ScriptView, node: ast.Call, path: Path) -> Iterator[OriginStep]:
    """What a function of the project returns, what a key or a name is asked for, what a library wraps and returns."""
    function = called_function(view.index, node)
    if function is not None:
        for value in returned_values(view.index, function):
            yield value, path
    elif last_name(node.func) in ("get", "getattr"):
        yield from _lookup_steps(view, node, path)
    elif last_name(node.func) in view.models.return_arguments and node.args:
        place = path[0] if path else 0
        if place < len(node.args) and (path or len(node.args) == 1):
            yield node.args[place], path[1:]


def _as_steps(found: Iterable[ast.expr | Option | None], node: ast.AST, path: Path) -> Iterator[OriginStep]:
    """What was found as steps; what is not known ends at `node`."""
    for one in found:
        if one is None:
            yield ValueOrigin(node, path)
        elif isinstance(one, Option):
            yield ValueOrigin(one.node, path, one)
        else:
            yield one, path
