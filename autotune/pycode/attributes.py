"""The values of an attribute of an object: a field of its class, a value set on self, an option of a parser."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from autotune.pycode import cli_options
from autotune.pycode.cli_options import Option
from autotune.pycode.functions import argument, called_class, passed_arguments, with_bases
from autotune.pycode.index import Index
from autotune.pycode.mutations import may_happen
from autotune.pycode.script_view import ScriptView
from autotune.syntax.python import last_name

PARSES = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args"})

DATACLASSES = frozenset({"dataclass", "define", "frozen", "mutable", "attrs", "s", "chz"})
"""Decorators of classes whose fields are arguments."""

DATA_BASES = frozenset({"BaseModel", "BaseSettings", "NamedTuple", "Tap", "BaseConfig", "Struct"})
"""Classes of libraries that make the annotated fields of what extends them arguments."""

NAMESPACES = frozenset({"SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict"})


def members(view: ScriptView, base: ast.AST, path: tuple[int, ...], name: str) -> Iterator[ast.expr | Option | None]:
    """The expressions that `base.name` may be, or the option; None for one that cannot be followed.

    `base` is the origin of an object, or has it as its item at `path`. Nothing when nothing is known.
    """
    index = view.index
    if isinstance(base, ast.arg) and base.arg != "self":
        yield from _options_of_parameter(index, base, name)
    elif isinstance(base, ast.arg) or last_name(base) == "hparams":
        yield from _values_of_self(view, base, name)
    elif isinstance(base, ast.Name) and (named := called_class(index, base)) is not None:
        yield from _values_set_in_class(index, named, name)
    elif isinstance(base, ast.ClassDef):
        yield from _values_set_in_class(index, base, name)
    elif isinstance(base, ast.Call) and last_name(base.func) in PARSES:
        known = _parsed_options(view, base)
        if path in ((), (0,)) and name in known:
            yield known[name] if _reads_command_line(base) else None
    elif isinstance(base, ast.Call):
        yield from _values_of_call(index, base, path, name)


def _parsed_options(view: ScriptView, call: ast.Call) -> Mapping[str, Option]:
    """What `parser.parse_args()` fills: the options of its file's parsers, else of those of the other files; the fields
    of the class itself in `Args().parse_args()`."""
    made = call.func.value if isinstance(call.func, ast.Attribute) else None
    class_ = called_class(view.index, made.func) if isinstance(made, ast.Call) else None
    if class_ is not None:
        return cli_options.class_options(view.index, class_)
    others = [one.options for one in view.views.values()]
    return view.options or {name: one for each in others for name, one in each.items()}


def _reads_command_line(call: ast.Call) -> bool:
    """Whether a parser is given what was typed: not a list of its own, nor a namespace that is filled already."""
    is_fixed = any(isinstance(one, ast.List | ast.Tuple | ast.Call) for one in call.args)
    return not is_fixed and all(keyword.arg != "namespace" for keyword in call.keywords)


def assigned_values(view: ScriptView, base: ast.expr, name: str) -> Iterator[ast.expr | None]:
    """What the file sets `base.name` to, wherever a run does so under the same name; None for what is not known."""
    index = view.index
    own = last_name(base)
    if own in ("self", ""):
        return
    for store in index.stores.get(name, ()):
        if last_name(store.base) == own and may_happen(view, store.node):
            yield store.value


def nested_option(index: Index, holder: Option, name: str) -> Option | None:
    """The field `name` of the dataclass that another field, itself an option, holds: `cfg.data.num_workers`."""
    made = holder.node.func if isinstance(holder.node, ast.Call) else holder.node
    class_ = called_class(index, made)
    return cli_options.class_options(index, class_, holder.flags[0]).get(name) if class_ is not None else None


def _options_of_parameter(index: Index, parameter: ast.arg, name: str) -> Iterator[Option]:
    """A field of the class of a parameter that a command line fills."""
    function = index.enclosing_function(parameter)
    if function is None or parameter.annotation is None or not cli_options.fills_parameters(index, function):
        return
    index.place(parameter.annotation, parameter, index.scopes[function])
    class_ = called_class(index, parameter.annotation)
    if class_ is not None:
        found = cli_options.class_options(index, class_).get(name)
        yield from [found] if found is not None else []


def _values_of_self(view: ScriptView, base: ast.AST, name: str) -> Iterator[ast.expr | Option | None]:
    """`self.name`, or `self.hparams.name` of Lightning: the constructor's parameter."""
    index = view.index
    function = index.enclosing_function(base)
    class_ = index.method_class(function) if function else None
    if class_ is None:
        return
    if isinstance(base, ast.arg):
        if base.arg == "self":
            yield from _values_set_in_class(index, class_, name)
        return
    for constructor in index.inner[class_].bindings.get("__init__", ()):
        if isinstance(constructor.node, ast.FunctionDef):
            yield from _values_of_parameter(view, class_, constructor.node, name)


def _values_of_parameter(
    view: ScriptView, class_: ast.ClassDef, constructor: ast.FunctionDef, name: str
) -> Iterator[ast.expr | Option | None]:
    """What the constructor's parameter gets: from a config, else from every call."""
    sections = view.sections(class_)
    option = cli_options.constructor_options(constructor, sections).get(name) if sections else None
    if option is not None:
        yield option
    else:
        yield from [None] if view.is_module and not view.views else passed_arguments(view.index, constructor, name)


def values_set_by_first_name(view: ScriptView, made: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """What is set on an object by the name that it is first given, where that is another one than it is read by:
    `C = CfgNode(); C.workers = 4; return C`."""
    index = view.index
    outer = index.parents.get(made)
    target = outer.targets[0] if isinstance(outer, ast.Assign) and isinstance(made, ast.Call) else None
    if not isinstance(target, ast.Name):
        return
    bindings = index.lookup(target)
    for store in index.stores.get(name, ()):
        is_own = isinstance(store.base, ast.Name) and index.lookup(store.base) is bindings
        if is_own and may_happen(view, store.node):
            yield store.value


def _values_set_in_class(index: Index, class_: ast.ClassDef, name: str) -> Iterator[ast.expr | None]:
    """What the body and the methods of the class, or of the nearest base that does, set the attribute to."""
    for one in with_bases(index, class_):
        found = [
            cli_options.unwrap_default(binding.value) if binding.kind == "value" and binding.value else None
            for binding in index.inner[one].bindings.get(name, ())
        ]
        for store in index.stores.get(name, ()):
            function = index.enclosing_function(store.node)
            if last_name(store.base) == "self" and function and index.method_class(function) is one:
                found.append(store.value)
        if found:
            yield from found
            return


def _values_of_call(
    index: Index, call: ast.Call, path: tuple[int, ...], name: str
) -> Iterator[ast.expr | Option | None]:
    """A field of what a call makes: a parsed dataclass, a namespace, an instance of a class of this file."""
    classes = cli_options.parsed_classes(index, call)
    if classes:
        place = path[0] if path else 0
        class_ = called_class(index, classes[place]) if place < len(classes) else None
        field = cli_options.class_options(index, class_).get(name) if class_ else None
        if field is not None:
            yield field
        if class_ is not None or not isinstance(call.func, ast.Name):
            return
    class_ = called_class(index, call.func)
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if class_ is None:
        is_namespace = last_name(call.func) in NAMESPACES and None not in given
        yield from [given[name]] if is_namespace and name in given else []
    elif _is_dataclass(index, class_):
        yield None if _sets_itself(index, class_, name) else _field_value(index, class_, call, name)
    else:
        yield from _values_set_in_class(index, class_, name)


def _sets_itself(index: Index, class_: ast.ClassDef, name: str) -> bool:
    """Whether a method of the class sets the attribute (__post_init__)."""
    functions = [index.enclosing_function(store.node) for store in index.stores.get(name, ())]
    return any(function is not None and index.method_class(function) is class_ for function in functions)


def _is_dataclass(index: Index, class_: ast.ClassDef) -> bool:
    """Whether the class gets its fields when it is made: a dataclass, one of attrs or pydantic, a NamedTuple."""
    family = list(with_bases(index, class_))
    decorators = [one.func if isinstance(one, ast.Call) else one for each in family for one in each.decorator_list]
    bases = [last_name(one) for each in family for one in each.bases]
    return any(last_name(one) in DATACLASSES for one in decorators) or any(one in DATA_BASES for one in bases)


def _field_value(index: Index, class_: ast.ClassDef, call: ast.Call, name: str) -> ast.expr | None:
    """The value that a dataclass's instance gets for a field: given, or the field's default."""
    fields = cli_options.fields(index, class_)
    if name not in fields:
        return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    stated = fields[name].value
    default = cli_options.unwrap_default(stated) if stated is not None else None
    return argument(index, call, list(fields), name, default)
