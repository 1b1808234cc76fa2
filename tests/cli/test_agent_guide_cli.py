"""The guide names what there is, and the skill file in the repository is not stale."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from ruamel.yaml import YAML

from autotune.cli import VERBS, autotune, run
from autotune.cli.agent_guide import page
from autotune.errors import EXIT_CODES, AutotuneError, UsageError
from autotune.report.json import documents

ROOT = Path(__file__).parents[2]


def test_the_skill_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agent-guide", "--skill"]) == 0
    text = capsys.readouterr().out
    assert (ROOT / "skills" / "autotune" / "SKILL.md").read_text(encoding="utf-8") == text
    _, front, body = text.split("---\n", 2)
    assert YAML(typ="safe").load(front)["name"] == "autotune"
    assert body.strip() == page().strip()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_it_with_what_it_may_do(verb: str) -> None:
    assert f"| `{verb}` |" in page()


def test_every_exit_code_is_in_it() -> None:
    assert all(f"| {code} |" in page() for code in EXIT_CODES)
    own = {AutotuneError.exit_code, *(one.exit_code for one in AutotuneError.__subclasses__()), UsageError.exit_code}
    assert own <= set(EXIT_CODES)


def test_the_readme_has_the_same_exit_codes() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"| {code} | {text} |" in readme for code, text in EXIT_CODES.items())


def test_its_commands_and_options_exist() -> None:
    context = click.Context(autotune)
    commands = re.findall(r"`autotune ([a-z-]+)([^`]*)`", page())
    assert len(commands) >= 7
    for verb, rest in commands:
        command = autotune.get_command(context, verb)
        assert command is not None, verb
        known = {name for one in command.params for name in one.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, (verb, rest)


def test_the_keys_that_it_names_are_in_the_report() -> None:
    keys = set(documents.ReportDocument.__annotations__)
    assert {"verdict", "recommendations", "expected", "next", "skipped", "outlook"} <= keys
    assert "promise" in documents.Outlook.__annotations__
    schemas = re.findall(r"`(\w+\.schema\.json)`", page())
    assert schemas
    assert all((ROOT / "autotune" / "report" / "json" / name).is_file() for name in schemas)
