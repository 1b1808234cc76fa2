"""The options of a script's command line: argparse, click, typer, fire, and the dataclasses of HfArgumentParser."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from msgspec import Struct

from autotune.pycode.functions import called_class, defaults, with_bases
from autotune.pycode.index import Function, Index
from autotune.pycode.names import full_name
from autotune.syntax.python import last_name

CONSTANT_ACTIONS = {"store_true": False, "store_false": True}
"""Actions of argparse and the value that they have when the flag is absent."""

CLASS_PARSERS = frozenset({"HfArgumentParser", "TrlParser", "H4ArgumentParser"})
"""Parsers of dataclasses."""

CLASS_RUNNERS = re.compile(r"(parse|cli|auto_cli|entrypoint|run|load)(_args|_and_run)?", re.IGNORECASE)
"""Functions of libraries that fill the class that they get from the command line: tyro.cli, simple_parsing.parse ..."""

FUNCTION_RUNNERS = re.compile(r"typer\.run|fire\.Fire|(jsonargparse|tyro|chz)\.\w*(cli|CLI|entrypoint)")

WRAPS = frozenset({"wrap"})
"""Decorators that fill the dataclass that a function takes: `@draccus.wrap()`, `@pyrallis.wrap()`."""

COMMANDS = frozenset({"command", "callback"})
"""Decorators of click and typer that make a function a command."""


class Option(Struct, frozen=True, eq=False):
    """`flags` are its names on a command line, the long one first, `default` the expression of its default value.

    `node` is where a person edits the default. Without an expression the default is `implied`. `type` names the type
    that a command line's text becomes: "int", "float", "str", "bool" (as Python's bool(text)), "word" (yes, no), "flag"
    (no text: the flag changes `implied`), or "" when it is not known.
    """

    flags: tuple[str, ...]
    node: ast.expr
    default: ast.expr | None
    implied: bool | None
    type: str


def parser_options(index: Index) -> Mapping[str, Option]:
    """Every option of argparse by the name under which the script reads it; one with two defaults is left out."""
    found: dict[str, Option] = {}
    twice: set[str] = set()
    for call in index.called["add_argument"]:
        found |= _field_options(index, call)
        option = _argparse_option(index, call)
        if option is not None:
            name = _destination(call, option.flags[0])
            twice |= {name} & found.keys()
            found[name] = option
    for keyword in (one for call in index.called["set_defaults"] for one in call.keywords):
        twice |= found.keys() if keyword.arg is None else {keyword.arg}
    return {name: option for name, option in found.items() if name not in twice}


def function_options(index: Index, function: Function) -> Mapping[str, Option]:
    """The options that become parameters of `function`: by click, typer or fire; empty when none of them calls it."""
    clicked = dict(_click_options(index, function))
    if clicked:
        return clicked
    commands = {last_name(_decorator_name(one)) for one in function.decorator_list if _is_typer(index, one)}
    if commands & COMMANDS or _is_run(index, function):
        return dict(_parameter_options(function))
    return {}


def class_options(index: Index, class_: ast.ClassDef, owner: str = "") -> Mapping[str, Option]:
    """The fields of a dataclass as options; `owner` is the flag of the field that holds the class itself."""
    return {
        name: _option(name, field.value, field.annotation, owner)
        for name, field in fields(index, class_).items()
        if field.value is not None
    }


def fields(index: Index, class_: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """The fields of a dataclass by name, those of its bases first, each as the nearest class has it."""
    found: dict[str, ast.AnnAssign] = {}
    for one in reversed(list(with_bases(index, class_))):
        found |= {last_name(node.target): node for node in one.body if isinstance(node, ast.AnnAssign)}
    return found


def fills_parameters(index: Index, function: Function) -> bool:
    """Whether a library calls the function with classes that it fills from the command line: `@draccus.wrap()`."""
    is_wrapped = any(last_name(_decorator_name(one)) in WRAPS for one in function.decorator_list)
    return is_wrapped or _is_run(index, function)


def constructor_options(function: Function, sections: Sequence[str]) -> Mapping[str, Option]:
    """The parameters of a constructor whose arguments a config, or a flag, gives below one of these keys."""
    every = function.args
    given = dict(defaults(function.args))
    found = {}
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
        # Without a default, a config has to give it: where none does, nothing is known.
        default = given.get(argument.arg, cast(ast.expr, argument))
        flags = tuple(f"--{section}.{argument.arg}" for section in sections)
        found[argument.arg] = Option(flags, default, default, None, _annotated_type(argument.annotation))
    return found


def unwrap_default(value: ast.expr) -> ast.expr | None:
    """The default in `field(default=4)`, `typer.Option(4)` or `4`; None when there is none."""
    if not isinstance(value, ast.Call) or last_name(value.func) not in ("field", "Option", "Argument", "Field"):
        return value
    keywords = {keyword.arg: keyword.value for keyword in value.keywords}
    factory = keywords.get("default_factory")
    if factory is not None:
        return factory.body if isinstance(factory, ast.Lambda) else factory
    return keywords.get("default", value.args[0] if value.args else None)


def parsed_classes(index: Index, call: ast.Call) -> tuple[ast.expr, ...]:
    """The classes that `parser.parse_...()` or `tyro.cli(Config)` makes instances of, in their order."""
    if CLASS_RUNNERS.fullmatch(last_name(call.func)) and "." in (full_name(index, call.func) or ""):
        given = [*call.args[:1], *(one.value for one in call.keywords if one.arg and one.arg.endswith("class"))]
        return tuple(given[:1])
    parser = call.func.value if isinstance(call.func, ast.Attribute) else None
    return classes_of_parser(index, parser_of(index, parser)) if parser is not None else ()


def parser_of(index: Index, node: ast.expr) -> ast.Call | None:
    """The call that made a parser of dataclasses."""
    node = _single_value(index, node)
    if isinstance(node, ast.Call) and last_name(node.func) in CLASS_PARSERS:
        return node
    return None


def classes_of_parser(index: Index, parser: ast.Call | None) -> tuple[ast.expr, ...]:
    """The classes given to HfArgumentParser or TrlParser."""
    if parser is None:
        return ()
    named = [one.value for one in parser.keywords if one.arg == "dataclass_types"]
    classes = next(iter([*parser.args[:1], *named]), None)
    classes = _single_value(index, classes) if classes is not None else None
    if isinstance(classes, ast.Tuple | ast.List):
        return tuple(classes.elts)
    return () if classes is None else (classes,)


def _single_value(index: Index, node: ast.expr) -> ast.expr:
    """What a name is given, where it is given one thing."""
    values = [binding.value for binding in index.lookup(node)] if isinstance(node, ast.Name) else []
    return values[0] if len(values) == 1 and values[0] is not None else node


def _argparse_option(index: Index, call: ast.Call) -> Option | None:
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    if not names or None in keywords:
        return None
    flags = _long_first(names)
    action = keywords.get("action")
    named = action.value if isinstance(action, ast.Constant) else last_name(action) if action else "store"
    default = keywords.get("default")
    if named in CONSTANT_ACTIONS:
        return Option(flags, default or call, default, CONSTANT_ACTIONS[str(named)], "flag")
    if named == "BooleanOptionalAction":
        return Option(flags, default or call, default, None, "flag")
    is_plain = named == "store" and "nargs" not in keywords
    type_ = _type(keywords["type"]) if "type" in keywords else "str"
    return Option(flags, default or call, default, None, type_ if is_plain else "")


def _field_options(index: Index, call: ast.Call) -> Mapping[str, Option]:
    """The fields of a dataclass of which each becomes an option: `for field in fields(Config): ...`."""
    if not call.args or not isinstance(call.args[0], ast.JoinedStr | ast.BinOp):
        return {}
    loops = [outer.iter for outer in index.ancestors_in_function(call) if isinstance(outer, ast.For)]
    named = [one.args[0] for one in loops if isinstance(one, ast.Call) and last_name(one.func) == "fields" and one.args]
    class_ = called_class(index, named[0]) if named else None
    return class_options(index, class_) if class_ is not None else {}


def _destination(call: ast.Call, flag: str) -> str:
    named = [one.value.value for one in call.keywords if one.arg == "dest" and isinstance(one.value, ast.Constant)]
    return str(named[0]) if named else option_name(flag)


def _long_first(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: not name.startswith("--")))


def option_name(flag: str) -> str:
    """The name under which a flag is read: "num_workers" for "--num-workers"."""
    return flag.lstrip("-").replace("-", "_")


def _type(node: ast.AST) -> str:
    name = last_name(node)
    return name if name in ("int", "float", "str", "bool") else ""


def _click_options(index: Index, function: Function) -> Iterator[tuple[str, Option]]:
    """The options of `@click.option("--workers", default=4)`; `is_flag` makes one that takes no value."""
    for call in function.decorator_list:
        if not isinstance(call, ast.Call) or full_name(index, call.func) != "click.option":
            continue
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        names = [str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)]
        flags = _long_first([name.split("/")[0] for name in names if name.startswith("-")]) or ("",)
        name = next((name for name in names if not name.startswith("-")), option_name(flags[0]))
        is_flag = "is_flag" in keywords
        default, type_ = keywords.get("default"), keywords.get("type")
        kind = "flag" if is_flag else _click_type(type_, default)
        yield name, Option(flags, default or call, default, False if is_flag else None, kind)


def _click_type(type_: ast.expr | None, default: ast.expr | None) -> str:
    """The type that is given, else that of the default value, else text."""
    if type_ is not None:
        name = {"INT": "int", "FLOAT": "float", "STRING": "str", "BOOL": "bool"}.get(last_name(type_), _type(type_))
    else:
        name = (
            type(default.value).__name__ if isinstance(default, ast.Constant) and default.value is not None else "str"
        )
    return _type_of_words(name)


def _decorator_name(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_typer(index: Index, decorator: ast.expr) -> bool:
    """Whether `@app.command()` belongs to an app that typer made."""
    base = _decorator_name(decorator)
    if not isinstance(base, ast.Attribute) or not isinstance(base.value, ast.Name):
        return False
    values = [binding.value for binding in index.lookup(base.value)]
    return any(isinstance(value, ast.Call) and full_name(index, value.func) == "typer.Typer" for value in values)


def _is_run(index: Index, function: Function) -> bool:
    """Whether `typer.run(main)` or `fire.Fire(main)` calls the function."""
    reads = index.reads.get(function.name, ())
    calls = [index.parents.get(read) for read in reads]
    return any(
        isinstance(call, ast.Call) and FUNCTION_RUNNERS.fullmatch(full_name(index, call.func) or "") for call in calls
    )


def _parameter_options(function: Function) -> Iterator[tuple[str, Option]]:
    every = function.args
    given = dict(defaults(function.args))
    for argument in (*every.posonlyargs, *every.args, *every.kwonlyargs):
        if argument.arg in given:
            yield argument.arg, _option(argument.arg, given[argument.arg], argument.annotation)


def _option(name: str, value: ast.expr, annotation: ast.expr | None, owner: str = "") -> Option:
    default = unwrap_default(value)
    flags = (f"{owner}.{name}", f"--{name}") if owner else (f"--{name}",)
    return Option(flags, default or value, default, None, _annotated_type(annotation))


def _annotated_type(annotation: ast.expr | None) -> str:
    """The type in `int`, `Optional[int]`, `int | None` or "int"."""
    names = {last_name(node) for node in ast.walk(annotation)} if annotation is not None else set()
    known = names & {"int", "float", "str", "bool"}
    return _type_of_words(known.pop()) if len(known) == 1 else ""


def _type_of_words(type_: str) -> str:
    """The type for a parser that reads truth values, as all but argparse do."""
    return "word" if type_ == "bool" else type_
