"""Workflow commands, read back as the runner reads them."""

from __future__ import annotations

import pytest
from check_builders import CALL, CASES, CHECKED, GOLDEN, WORKERS, bundle, checked, finding
from hypothesis import given, settings

from autotune import outlet
from autotune.model.checked import Checked
from autotune.model.evidence import Location
from autotune.outlet import clean
from autotune.report import findings as say
from autotune.report import render

Command = tuple[str, dict[str, str], str]


def read(line: str) -> Command:
    """`::name key=value,key=value::message` (actions/runner, src/Runner.Common/ActionCommand.cs, TryParseV2)."""
    head, message = line.removeprefix("::").split("::", 1)
    name, _, given = head.partition(" ")
    properties = dict(pair.split("=", 1) for pair in given.split(",") if "=" in pair)
    return name, {key: plain(value, in_property=True) for key, value in properties.items()}, plain(message)


def plain(text: str, *, in_property: bool = False) -> str:
    for code, char in [("%3A", ":"), ("%2C", ",")] if in_property else []:
        text = text.replace(code, char)
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def without_backslashes(text: str) -> str:
    """`text` without what stands before a command to another CI."""
    return text.replace("\\", "")


def commands(made: Checked) -> list[Command]:
    lines = render("check", made, "github").split("\n")
    assert lines[-1] == ""
    assert lines[-2].startswith("autotune: ")
    assert all(line.startswith("::") for line in lines[:-2])
    return [read(line) for line in lines[:-2]]


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert render("check", CASES[name](), "github") == (GOLDEN / f"{name}.github").read_text(encoding="utf-8")


def test_no_command_to_another_ci_is_in_a_line() -> None:
    where = Location("##vso[task.setvariable variable=PATH]x.py", 23)
    made = checked(bundle("x.py", finding(WORKERS, "##[group]y", where)))
    assert "##\\vso[task" in render("check", made, "github")
    assert "##[" not in render("check", made, "github")


@settings(max_examples=100, deadline=None)
@given(CHECKED)
def test_the_runner_reads_what_was_meant(made: Checked) -> None:
    found = commands(made)
    for each, (name, properties, message) in zip(say.locate_findings(made), found, strict=False):
        assert name in ("error", "warning", "notice")
        assert without_backslashes(properties["file"]) == without_backslashes(outlet.escape_marks(each.location.file))
        assert properties["line"] == str(each.location.line)
        assert properties.get("col", "0") == str(each.location.column)
        assert without_backslashes(message.split("\n")[0]) == without_backslashes(clean(each.finding.message))
    others = sum(note.is_error for note in say.notes(made)) + sum(not gate.holds for gate in made.gates)
    assert len(found) == len(made.findings) + others
    assert "\r" not in render("check", made, "github")


def test_a_hostile_file_name_and_message_stay_inside_their_command() -> None:
    made = finding(WORKERS, "50 %\n::set-output name=x::y", Location("a,b:c%0A\n::error::.py", 3))
    ((name, properties, message),) = commands(checked(bundle("train.py", made)))
    assert (name, properties["file"]) == ("error", "a,b:c%0A\n::error::.py")
    assert message == "50 % ::set-output name=x::y\nwhy: autotune explain DL001"


def test_the_title_is_the_rule() -> None:
    ((_, properties, _),) = commands(checked(bundle("train.py", finding(WORKERS, "", CALL))))
    assert properties["title"] == "DL001 batches prepared in the training process"
