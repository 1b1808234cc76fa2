"""Options that several verbs have are declared once, in cli/options.py."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from autotune.cli import VERBS, autotune, options, outlook_options
from autotune.report import RENDERERS, formats

RENDERED = {"report": "diagnose"}
"""Whose result a verb prints, where it is another's."""

OF_ANOTHER_KIND = {"--against"}
"""One name, two meanings: a profile for `check`, a script for `verify`."""


def declared(file: Path) -> list[str]:
    """The options that a module declares by itself."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    named = [call for call in calls if ast.unparse(call.func) == "click.option"]
    return [
        arg.value for call in named for arg in call.args if isinstance(arg, ast.Constant) and "--" in str(arg.value)
    ]


def commands() -> dict[str, click.Command]:
    context = click.Context(autotune)
    found = {verb: autotune.get_command(context, verb) for verb in VERBS}
    return {verb: command for verb, command in found.items() if command is not None}


def test_an_option_of_several_verbs_is_declared_in_options() -> None:
    folder = Path(options.__file__).parent
    counts = Counter(name for file in folder.glob("*.py") if file.name != "options.py" for name in declared(file))
    assert {name for name, count in counts.items() if count > 1} == OF_ANOTHER_KIND


def test_every_shared_option_is_used_by_several_verbs() -> None:
    used = Counter(name for command in commands().values() for one in command.params for name in one.opts)
    shared = declared(Path(options.__file__))
    assert {"--format", "--quiet"} <= set(shared)
    assert [name for name in shared if used[name] < 2] == []


def read_names(callback: Callable[..., object]) -> set[str]:
    """The parameters that a callback reads by name, and those that its module reads off `given`."""
    function = ast.parse(inspect.getsource(callback)).body[0]
    assert isinstance(function, ast.FunctionDef)
    names = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
    if function.args.kwarg is None:
        return names
    modules = [sys.modules[callback.__module__], *([outlook_options] if "outlook_request" in names else [])]
    trees = [ast.parse(inspect.getsource(module)) for module in modules]
    subscripts = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Subscript)]
    return names | {
        one.slice.value
        for one in subscripts
        if ast.unparse(one.value) == "given" and isinstance(one.slice, ast.Constant) and isinstance(one.ctx, ast.Load)
    }


@pytest.mark.parametrize("verb", VERBS)
def test_every_declared_parameter_is_read(verb: str) -> None:
    command = commands()[verb]
    assert command.callback is not None
    declared_names = {str(one.name) for one in command.params if one.expose_value}
    assert declared_names - read_names(inspect.unwrap(command.callback)) == set()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("trace", "agent-guide")])  # no report
def test_the_formats_of_a_verb_are_those_of_the_registry(verb: str) -> None:
    found = [one for one in commands()[verb].params if "--format" in one.opts]
    assert len(found) == (len(RENDERERS[RENDERED.get(verb, verb)]) > 1)
    for option in found:
        assert isinstance(option.type, click.Choice)
        offered = formats(RENDERED.get(verb, verb))
        assert (tuple(option.type.choices), option.default) == (offered, offered[0])


@pytest.mark.parametrize(("text", "expected"), [("a,b", ("a", "b")), (" a , ,", ("a",)), ("", ())])
def test_names_stand_between_commas(text: str, expected: tuple[str, ...]) -> None:
    context = click.Context(autotune)
    assert options.names(context, click.Option(["--select"]), (text, "z")) == (*expected, "z")


@pytest.mark.parametrize(("text", "expected"), [("5%", 0.05), ("0.1", 0.1), ("x", None), ("nan", None), ("inf%", None)])
def test_numbers_may_be_percentages(text: str, expected: float | None) -> None:
    assert options.number(text) == expected
