"""The options of a script's command line: argparse, click, typer, fire, and the dataclasses of HfArgumentParser."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotune.scan.python.index import Function, Index, last_name
from autotune.scan.python.names import full_name

CONSTANT_ACTIONS = {"store_true": False, "store_false": True}
"""Actions of argparse and the value that they have when the flag is absent."""

CLASS_PARSERS = frozenset({"HfArgumentParser", "TrlParser", "H4ArgumentParser"})
"""Parsers of dataclasses."""

CLASS_RUNNERS = frozenset({"tyro.cli", "simple_parsing.parse", "pyrallis.parse", "draccus.parse", "jsonargparse.CLI"})
"""Functions that fill the dataclass that they get from the command line."""

FUNCTION_RUNNERS = frozenset({"typer.run", "fire.Fire", "jsonargparse.CLI", "tyro.cli"})

COMMANDS = frozenset({"command", "callback"})
"""Decorators of click and typer that make a function a command."""


@dataclass(frozen=True, slots=True, eq=False)
class Option:
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


def read(index: Index) -> Mapping[str, Option]:
    """Every option of argparse by the name under which the script reads it; one with two defaults is left out."""
    found: dict[str, Option] = {}
    twice: set[str] = set()
    for call in index.called["add_argument"]:
        option = _argparse(index, call)
        if option is not None:
            name = _destination(call, option.flags[0])
            twice |= {name} & found.keys()
            found[name] = option
    for keyword in (one for call in index.called["set_defaults"] for one in call.keywords):
        twice |= found.keys() if keyword.arg is None else {keyword.arg}
    return {name: option for name, option in found.items() if name not in twice}


def of_function(index: Index, function: Function) -> Mapping[str, Option]:
    """The options that become parameters of `function`: by click, typer or fire; empty when none of them calls it."""
    clicked = dict(_clicked(index, function))
    if clicked:
        return clicked
    commands = {last_name(_undecorated(one)) for one in function.decorator_list if _is_typer(index, one)}
    if commands & COMMANDS or _is_run(index, function):
        return dict(_parameters(function))
    return {}


def of_class(class_: ast.ClassDef) -> Mapping[str, Option]:
    """The fields of a dataclass as options."""
    fields = [node for node in class_.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {
        last_name(field.target): _option(last_name(field.target), field.value, field.annotation)
        for field in fields
        if field.value is not None
    }


def unwrapped(value: ast.expr) -> ast.expr | None:
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
    if full_name(index, call.func) in CLASS_RUNNERS:
        return tuple(call.args[:1]) or tuple(one.value for one in call.keywords if one.arg == "config_class")
    parser = call.func.value if isinstance(call.func, ast.Attribute) else None
    return given_classes(index, parser_of(index, parser)) if parser is not None else ()


def parser_of(index: Index, node: ast.expr) -> ast.Call | None:
    """The call that made a parser of dataclasses."""
    node = _assigned(index, node)
    if isinstance(node, ast.Call) and last_name(node.func) in CLASS_PARSERS:
        return node
    return None


def given_classes(index: Index, parser: ast.Call | None) -> tuple[ast.expr, ...]:
    """The classes given to HfArgumentParser or TrlParser."""
    if parser is None:
        return ()
    named = [one.value for one in parser.keywords if one.arg == "dataclass_types"]
    classes = next(iter([*parser.args[:1], *named]), None)
    classes = _assigned(index, classes) if classes is not None else None
    if isinstance(classes, ast.Tuple | ast.List):
        return tuple(classes.elts)
    return () if classes is None else (classes,)


def _assigned(index: Index, node: ast.expr) -> ast.expr:
    """What a name is given, where it is given one thing."""
    values = [binding.value for binding in index.lookup(node)] if isinstance(node, ast.Name) else []
    return values[0] if len(values) == 1 and values[0] is not None else node


def _argparse(index: Index, call: ast.Call) -> Option | None:
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


def _clicked(index: Index, function: Function) -> Iterator[tuple[str, Option]]:
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
        kind = "flag" if is_flag else _clicked_type(type_, default)
        yield name, Option(flags, default or call, default, False if is_flag else None, kind)


def _clicked_type(type_: ast.expr | None, default: ast.expr | None) -> str:
    """The type that is given, else that of the default value, else text."""
    if type_ is not None:
        name = {"INT": "int", "FLOAT": "float", "STRING": "str", "BOOL": "bool"}.get(last_name(type_), _type(type_))
    else:
        name = (
            type(default.value).__name__ if isinstance(default, ast.Constant) and default.value is not None else "str"
        )
    return _by_words(name)


def _undecorated(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_typer(index: Index, decorator: ast.expr) -> bool:
    """Whether `@app.command()` belongs to an app that typer made."""
    base = _undecorated(decorator)
    if not isinstance(base, ast.Attribute) or not isinstance(base.value, ast.Name):
        return False
    values = [binding.value for binding in index.lookup(base.value)]
    return any(isinstance(value, ast.Call) and full_name(index, value.func) == "typer.Typer" for value in values)


def _is_run(index: Index, function: Function) -> bool:
    """Whether `typer.run(main)` or `fire.Fire(main)` calls the function."""
    reads = index.reads.get(function.name, ())
    calls = [index.parents.get(read) for read in reads]
    return any(isinstance(call, ast.Call) and full_name(index, call.func) in FUNCTION_RUNNERS for call in calls)


def _parameters(function: Function) -> Iterator[tuple[str, Option]]:
    every = function.args
    plain = [*every.posonlyargs, *every.args]
    defaults = [*[None] * (len(plain) - len(every.defaults)), *every.defaults, *every.kw_defaults]
    for argument, default in zip([*plain, *every.kwonlyargs], defaults, strict=True):
        if default is not None:
            yield argument.arg, _option(argument.arg, default, argument.annotation)


def _option(name: str, value: ast.expr, annotation: ast.expr | None) -> Option:
    default = unwrapped(value)
    return Option((f"--{name}",), default or value, default, None, _annotated(annotation))


def _annotated(annotation: ast.expr | None) -> str:
    """The type in `int`, `Optional[int]`, `int | None` or "int"."""
    names = {last_name(node) for node in ast.walk(annotation)} if annotation is not None else set()
    known = names & {"int", "float", "str", "bool"}
    return _by_words(known.pop()) if len(known) == 1 else ""


def _by_words(type_: str) -> str:
    """The type for a parser that reads truth values, as all but argparse do."""
    return "word" if type_ == "bool" else type_
