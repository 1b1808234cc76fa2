"""The value of an expression, where it is certain, with the place where a person would edit it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from autotune.catalogue.coercion import LARGEST, WORDS
from autotune.model.evidence import Value
from autotune.model.scanned import WrittenValue
from autotune.pycode import loaded_configs
from autotune.pycode.cli_options import Option, option_name
from autotune.pycode.dicts import CHANGES
from autotune.pycode.index import Index
from autotune.pycode.names import full_name
from autotune.pycode.origins import origins
from autotune.pycode.script_view import ScriptView, ValueOrigin
from autotune.syntax.python import last_name

LARGEST_POWER = 64
"""No larger base or exponent is worked out."""

MAX_DEPTH = 40
"""Expressions that are worked out one inside another."""

OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}

COMPARISONS: Mapping[type[ast.cmpop], Callable[[object, object], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: lambda one, other: is_same(one, other),
    ast.IsNot: lambda one, other: not is_same(one, other),
}

ORDERS: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

CONVERSIONS: Mapping[str, Callable[[Value], Value]] = {"int": int, "float": float, "str": str, "bool": bool}  # type: ignore[dict-item]


def written_value(view: ScriptView, node: ast.AST) -> WrittenValue:
    """The value of an expression when all its origins agree; its key is left empty."""
    if node in view.values:
        return view.values[node]
    view = view.at(node)
    unknown = WrittenValue("", None, view.place(node), known=False)
    if len(view.following) > MAX_DEPTH:
        return unknown
    view.values[node] = unknown
    view.following.append(node)
    try:
        found = [value_of_origin(view, origin, node) for origin in origins(view, node)]
    finally:
        view.following.pop()
    value = common_value(found) or replace(unknown, doubt=next((one.doubt for one in found if one.doubt), ""))
    view.values[node] = (
        replace(value, is_default=True) if isinstance(node, ast.Name) and _may_be_replaced(view) else value
    )
    return view.values[node]


def _may_be_replaced(view: ScriptView) -> bool:
    """Whether names are defaults: the script runs other files over its own constants, as nanoGPT does."""
    return "exec" in view.index.called


def common_value(found: list[WrittenValue]) -> WrittenValue | None:
    """The first of several values when all are known and the same; of several places none is sure to decide."""
    first = found[0] if found else None
    if first is None or not all(one.known and is_same(one.value, first.value) for one in found):
        return None
    lines = sorted({one.location.line for one in found})
    doubt = f"more than one place sets it: lines {', '.join(map(str, lines))}" if len(lines) > 1 else first.doubt
    return replace(first, is_default=any(one.is_default for one in found), doubt=doubt)


def is_same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def is_true(view: ScriptView, node: ast.AST) -> bool | None:
    """Whether a condition holds; None when it is not known, or a command line that is not known may change it."""
    found = written_value(view, node)
    return bool(found.value) if is_certain(view, found) else None


def is_certain(view: ScriptView, found: WrittenValue) -> bool:
    return found.known and not (found.is_default and view.is_open)


def value_of_origin(view: ScriptView, origin: ValueOrigin, asked: ast.AST) -> WrittenValue:
    """The value of one origin of the expression `asked`."""
    if origin.option is not None:
        return value_of_option(view, origin.option)
    unknown = WrittenValue("", None, view.place(asked), known=False)
    if origin.path or not isinstance(origin.node, ast.expr):
        return unknown
    view = view.at(origin.node)
    if isinstance(origin.node, ast.Call):
        return (
            _conversion_value(view, origin.node)
            or loaded_configs.config_values(view, origin.node, written_value)
            or unknown
        )
    known, value = _literal(view, origin.node)
    return (
        WrittenValue("", value, view.place(origin.node))
        if known
        else loaded_configs.config_values(view, origin.node, written_value) or unknown
    )


def value_of_option(view: ScriptView, option: Option) -> WrittenValue:
    """What the command line says, else the option's default."""
    view = view.at(option.node)
    found = _option_value(view, option)
    return replace(found, doubt=_doubt_of_option(view, option))


def _doubt_of_option(view: ScriptView, option: Option) -> str:
    """Why the option's value may not be what its parser gave."""
    names = {option_name(flag).rpartition(".")[2] for flag in option.flags}
    every = list(view.views.values()) or [view]
    stores = [store for one in every for name in names for store in one.index.stores.get(name, ())]
    own = [store for store in stores if not _is_of_other(view, store.node, store.base, option)]
    again = [store.node for store in own if view.reach(view, store.node) is not False]
    if again:
        return f"the script sets it again at {_line(view, again[0])}"
    calls = [(one.index, call) for one in every for call in one.index.called.get("vars", ())]
    updates = [call for index, call in calls if _is_namespace_changed(index, call, names)]
    return f"the script may change its options at {_line(view, updates[0])} (vars)" if updates else ""


def _line(view: ScriptView, node: ast.AST) -> str:
    """ "line 4" of the file that is read, "src/config.py:4" of another."""
    at = view.place(node)
    return f"line {at.line}" if at.file == view.file else f"{at.file}:{at.line}"


def _is_of_other(view: ScriptView, node: ast.AST, base: ast.expr, option: Option) -> bool:
    """Whether an attribute that is set is no field that an option fills: `self.workers = workers` of a data module."""
    function = view.index.enclosing_function(node)
    class_ = view.index.method_class(function) if function is not None else None
    is_field = view.index.enclosing_function(option.node) is None and any(
        one is class_ for one in view.index.ancestors(option.node)
    )
    return last_name(base) == "self" and class_ is not None and not is_field


def _is_namespace_changed(index: Index, call: ast.Call, options: Collection[str]) -> bool:
    """Whether what `vars(args)` gives gets other values for one of `options`: it is only shown, or copied, in most
    scripts, and some set another key of it."""
    outer = index.parents.get(call)
    names = [last_name(one) for one in outer.targets] if isinstance(outer, ast.Assign) else []
    methods = {last_name(one.func) for name in names for one in index.methods.get(name, ())}
    is_updated = isinstance(outer, ast.Attribute) and outer.attr in CHANGES
    stored = [store.node for name in names for store in index.items.get(name, ())]
    stored += [outer] if isinstance(outer, ast.Subscript) and not isinstance(outer.ctx, ast.Load) else []
    return is_updated or bool(methods & CHANGES) or any(_may_be(node, options) for node in stored)


def _may_be(node: ast.AST, options: Collection[str]) -> bool:
    """Whether the key of an item that is set is one of these, or not known."""
    key = node.slice if isinstance(node, ast.Subscript) else None
    return not isinstance(key, ast.Constant) or key.value in options


def _option_value(view: ScriptView, option: Option) -> WrittenValue:
    for flag in option.flags:
        said = (view.flags or {}).get(option_name(flag))
        if said is not None:
            return _flag_value(option, said)
    configured = _config_value(view, option)
    if configured is not None:
        return replace(configured, key="")
    place = view.place(option.node, option.flags[0])
    if option.default is None:
        return WrittenValue("", option.implied, place, is_default=True)
    known, value = _literal(view, option.default)
    default = WrittenValue("", value, place, known=known, is_default=True)
    return _convert_text(default, value, option.type) if isinstance(value, str) and option.type != "flag" else default


def _config_value(view: ScriptView, option: Option) -> WrittenValue | None:
    """What a config that the command names gives an option, by its whole name: a key of a section is another's."""
    names = (option_name(flag) for flag in option.flags)
    return next((view.configured[name] for name in names if name in view.configured), None)


def _flag_value(option: Option, said: WrittenValue) -> WrittenValue:
    """What a flag of a command line becomes: a switch its other value, a word what the parser's type makes of it."""
    if option.type == "flag":
        value = (said.value is not False) is not bool(option.implied)
        return replace(said, key="", value=value, known=True)
    if option.type == "word" and said.text is None and said.known:
        return replace(said, key="")
    return _convert_text(replace(said, key=""), said.text, option.type)


def _convert_text(found: WrittenValue, text: str | None, type_: str) -> WrittenValue:
    """`found` with the value that a parser's type makes of the text; unknown where it is not one of the types."""
    value = WORDS.get((text or "").lower()) if type_ == "word" else None if text is None else _convert(type_, text)
    return replace(found, value=value, known=value is not None)


def _conversion_value(view: ScriptView, call: ast.Call) -> WrittenValue | None:
    """int(x) and its like: the value of x, converted, at its own place."""
    name = full_name(view.index, call.func) or ""
    if name not in CONVERSIONS or len(call.args) != 1 or call.keywords:
        return None
    inner = written_value(view, call.args[0])
    value = _convert(name, inner.value) if inner.known and inner.value is not None else None
    return replace(inner, value=value) if value is not None else None


def _convert(type_: str, value: Value) -> Value | None:
    try:
        return CONVERSIONS[type_](value) if type_ in CONVERSIONS else None
    except (ValueError, TypeError, OverflowError):
        return None


Literal = tuple[bool, Value | None]
"""Whether a value is known, and the value."""

UNKNOWN: Literal = (False, None)


def _literal(view: ScriptView, node: ast.expr) -> Literal:
    """The value of an expression that is no name of the script."""
    if isinstance(node, ast.Constant):
        return (True, node.value) if isinstance(node.value, bool | int | float | str | None) else UNKNOWN
    if isinstance(node, ast.UnaryOp):
        return _unary(view, node)
    if isinstance(node, ast.BinOp):
        return _binary(view, node)
    if isinstance(node, ast.BoolOp):
        return _logical(view, node)
    if isinstance(node, ast.Compare):
        return _comparison(view, node)
    if isinstance(node, ast.Tuple | ast.List):
        return _integers(view, node)
    return _constant(view, node) if isinstance(node, ast.Name | ast.Attribute) else UNKNOWN


def _known_value(view: ScriptView, node: ast.expr) -> Literal:
    found = written_value(view, node)
    return found.known, found.value


def _unary(view: ScriptView, node: ast.UnaryOp) -> Literal:
    known, value = _known_value(view, node.operand)
    if known and isinstance(node.op, ast.Not):
        return True, not value
    if known and isinstance(value, int | float) and isinstance(node.op, ast.USub | ast.UAdd):
        return True, -value if isinstance(node.op, ast.USub) else value
    return UNKNOWN


def _binary(view: ScriptView, node: ast.BinOp) -> Literal:
    """Arithmetic on numbers of a size that settings have."""
    left, right = _number(view, node.left), _number(view, node.right)
    work = OPERATORS.get(type(node.op))
    if work is None or left is None or right is None:
        return UNKNOWN
    if isinstance(node.op, ast.Pow) and not (abs(left) <= LARGEST_POWER >= abs(right)):
        return UNKNOWN
    try:
        value = work(left, right)
    except ArithmeticError:
        return UNKNOWN
    return (True, value) if isinstance(value, int | float) and abs(value) < LARGEST else UNKNOWN


def _number(view: ScriptView, node: ast.expr) -> float | None:
    _, value = _known_value(view, node)
    return value if isinstance(value, int | float) and abs(value) < LARGEST else None


def _logical(view: ScriptView, node: ast.BoolOp) -> Literal:
    """and, or: known as soon as one operand decides."""
    decides = isinstance(node.op, ast.Or)
    found = UNKNOWN
    is_open = False
    for operand in node.values:
        found = _known_value(view, operand)
        if found[0] and bool(found[1]) is decides:
            return found if not is_open else (True, decides) if isinstance(found[1], bool) else UNKNOWN
        is_open |= not found[0]
    return UNKNOWN if is_open else found


def _comparison(view: ScriptView, node: ast.Compare) -> Literal:
    (known, left), (also, right) = _known_value(view, node.left), _known_value(view, node.comparators[0])
    kind = type(node.ops[0])
    if not known or not also or len(node.ops) > 1:
        return UNKNOWN
    if kind in COMPARISONS:
        return True, bool(COMPARISONS[kind](left, right))
    if kind in ORDERS and isinstance(left, int | float) and isinstance(right, int | float):
        return True, ORDERS[kind](left, right)
    return UNKNOWN


def _integers(view: ScriptView, node: ast.Tuple | ast.List) -> Literal:
    values = [_known_value(view, item)[1] for item in node.elts]
    numbers = tuple(value for value in values if isinstance(value, int))
    return (True, numbers) if numbers and len(numbers) == len(values) else UNKNOWN


def _constant(view: ScriptView, node: ast.Name | ast.Attribute) -> Literal:
    """A constant of a library."""
    value = view.models.constant(full_name(view.index, node) or "")
    return UNKNOWN if value is None else (True, value)
