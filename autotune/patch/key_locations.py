"""Where the key of an edit stands in a file: a path in a config, a flag of a command, a value in a script."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from autotune.catalogue.dialects import functions
from autotune.model.evidence import Location, Span
from autotune.model.patch import Edit
from autotune.model.source import Document, ShellCommand, ShellWord
from autotune.patch import statement, syntax_for
from autotune.pycode.cli_options import unwrap_default
from autotune.pycode.functions import defaults
from autotune.syntax import shell_effect
from autotune.syntax.python import Source, calls_of, last_name

_POSITIONAL = re.compile(r"(\w+)\[(\d{1,3})\]")

IMPORT = "import "
"""What stands before the name of a key that a script imports."""


class KeyLocation(Struct, frozen=True):
    """One place of a key."""

    span: Span | None = None
    """Where the value stands, in bytes of the file; None where the key is missing."""
    holder: ast.Call | ShellCommand | None = None
    """The call or the command that the key belongs to; None in a config, and for a name."""


def key_of(at: Location, argument: str) -> str:
    """How an edit names the value at `at`, which `argument` of a consumer gets: `key_locations` finds it by that.

    "--workers" is the default of an option, "DataLoader.num_workers" what a call gets, "WORKERS" a name, and
    "set_num_threads()" what a function takes that sets it.
    """
    if at.call in functions() and not at.key.startswith("-"):
        return statement.statement_key(at.call)
    key = at.key.partition("=")[0] or argument
    return key if key.startswith("-") or not at.call else f"{at.call}.{key}"


def key_to_add(data: bytes, at: Location, argument: str, flag: str) -> str:
    """How an edit names the `argument` that it adds to `at`: a call, a config, or a command that gets the `flag`.

    "train.py --workers" is a flag of the command that runs train.py.
    """
    source = syntax_for.read(data, at.file)
    if isinstance(source, Source):
        return f"{at.call}.{argument}"
    if isinstance(source, Document):
        return argument
    command = next((one for one in source.commands if one.line == at.line), None)
    return flag if command is None else f"{shell_effect.program(command)} {flag}"


def name_at(source: Source, span: Span) -> str:
    """How an edit names the expression at `span` of a script by what stands around it; "" where nothing names it.

    "DataLoader[1]" is the second positional argument of a call.
    """
    for node in ast.walk(source.tree):
        for name, value in _named_children(node):
            if source.span(value) == span:
                return name
    return ""


def _named_children(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The expressions in a node that have a name there."""
    if isinstance(node, ast.Call) and (call := last_name(node.func)):
        yield from ((f"{call}.{one.arg}", one.value) for one in node.keywords if one.arg)
        yield from ((f"{call}[{number}]", one) for number, one in enumerate(node.args))
    elif isinstance(node, ast.arguments):
        yield from ((f"--{name}", default) for name, default in defaults(node))
    else:
        yield from _assigned_values(node)


def key_locations(source: Any, edit: Edit) -> list[KeyLocation]:
    """The places of an edit's key in a file that `syntax_for.read` read, in the order of the file.

    What a call gets has a place in each call of that name, also where that call lacks it; so has a flag in each command
    that runs the program of the key. A key that nothing has yet has one place: where it would be added.
    """
    if isinstance(source, Source):
        found = list(_in_script(source, edit.key))
    elif isinstance(source, Document):
        found = [KeyLocation(entry.span) for entry in source.entries if entry.key == edit.key] or [KeyLocation()]
    else:
        found = list(_in_commands(source.commands, edit))
    # Several flags may get one variable: its value is one place.
    return list({one.span or number: one for number, one in enumerate(found)}.values())


def _in_script(source: Source, key: str) -> Iterator[KeyLocation]:
    head, *below = key.split(".")
    if key.startswith("-"):
        yield from (KeyLocation(source.span(node)) for node in _defaults(source.tree, key))
    elif key.startswith(IMPORT):
        yield from (KeyLocation(source.span(node)) for node in _imported(source.tree, key.removeprefix(IMPORT)))
    elif function := statement.function_of_key(key):
        taken = [value for call in calls_of(source, function) for value in statement.value_arguments(call)]
        yield from [KeyLocation(source.span(value)) for value in taken] or [KeyLocation()]
    elif positional := _POSITIONAL.fullmatch(key):
        for call in calls_of(source, positional[1]):
            number = int(positional[2])
            yield KeyLocation(source.span(call.args[number]) if number < len(call.args) else None, call)
    elif below:
        for call in calls_of(source, head):
            value = next(_argument(call, below), None)
            yield KeyLocation(None if value is None else source.span(value), call)
    else:
        nodes = sorted(_values_of_name(source.tree, key), key=lambda node: source.span(node).start)
        yield from (KeyLocation(source.span(node)) for node in nodes)


def _in_commands(commands: Sequence[ShellCommand], edit: Edit) -> Iterator[KeyLocation]:
    program, blank, flag = edit.key.rpartition(" ")
    for command in commands:
        if blank and shell_effect.program(command) != program:
            continue
        words = list(_words(command, flag, edit.old))
        yield from (KeyLocation(word.span, command) for word in words)
        if blank and not words:
            yield KeyLocation(None, command)


def _imported(tree: ast.AST, name: str) -> Iterator[ast.alias]:
    """What a script imports from a module by that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias for alias in node.names if alias.name == name)


def _argument(call: ast.Call, names: Sequence[str]) -> Iterator[ast.expr]:
    """The keyword of a call; names[1:] are keys of the dicts that it is given."""
    values = [one.value for one in call.keywords if one.arg == names[0]]
    for name in names[1:]:
        values = [item for value in values for item in values_of_key(value, name)]
    yield from values


def values_of_key(value: ast.expr | None, name: str) -> Iterator[ast.expr]:
    """What stands in a dict for the key `name`."""
    if isinstance(value, ast.Dict):
        yield from (item for key, item in zip(value.keys, value.values, strict=True) if _is_text(key, name))


def _values_of_name(tree: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a name, an attribute or the key of a dict is given."""
    for node in ast.walk(tree):
        yield from (value for given, value in _assigned_values(node) if given == name)


def _assigned_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names, attributes and keys that a node gives a value."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield from _pairs(node.targets[0], node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _pairs(node.target, node.value)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """A target with its value; those of `a, b = 1, 2` one by one."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, other in zip(target.elts, value.elts, strict=True):
            yield from _pairs(one, other)
    elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        yield str(target.slice.value), value
    elif name := last_name(target):
        yield name, value


def _defaults(tree: ast.AST, flag: str) -> Iterator[ast.expr]:
    """The defaults of an option: in a call that names the flag, of a field of a class or a parameter of a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and any(_is_text(one, flag) for one in node.args):
            yield from (one.value for one in node.keywords if one.arg == "default")
        elif isinstance(node, ast.ClassDef):
            fields = ast.Module([one for one in node.body if isinstance(one, ast.Assign | ast.AnnAssign)], [])
            yield from (unwrap_default(one) or one for one in _values_of_name(fields, flag.removeprefix("--")))
        elif isinstance(node, ast.arguments):
            yield from (unwrap_default(one) or one for name, one in defaults(node) if name == flag.removeprefix("--"))


def _words(command: ShellCommand, key: str, old: str) -> Iterator[ShellWord]:
    """What a command gives a flag, an override or a variable."""
    yield from (word for name, word in command.variables if name == key)
    for word, behind in zip(command.words, (*command.words[1:], None), strict=True):
        text = _text(word)
        name, joined, _ = text.partition("=")
        if _bare_flag(name) == _bare_flag(key) and (joined or name.startswith("-")):
            yield word if joined or behind is None or _is_alone(text, _text(behind), old) else behind


def _bare_flag(flag: str) -> str:
    """--num-workers and --num_workers are one flag; +key=value is an addition of Hydra's."""
    return flag.lstrip("-+~").replace("-", "_")


def _is_alone(flag: str, behind: str, old: str) -> bool:
    """Whether the word behind a flag is no value of it; before a plain word (--bf16 train.py) only `old` tells."""
    return behind.startswith("-") or (flag == old and behind.lower() not in ("true", "false"))


def _text(word: ShellWord) -> str:
    return word.text if word.value is None else word.value


def _is_text(node: ast.expr | None, text: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == text
