"""What docs/ci.md tells people to write exists."""

from __future__ import annotations

import re
from typing import Any

from consumers import PROJECT, read
from ruamel.yaml import YAML

from autotune.cli.check import command
from autotune.report import formats

PAGE = (PROJECT / "docs" / "ci.md").read_text(encoding="utf-8")


def blocks() -> list[Any]:
    """The YAML of the page."""
    return [YAML(typ="safe", pure=True).load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def test_every_option_is_one_of_check() -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - known == set()


def test_every_format_is_listed() -> None:
    assert re.findall(r"^\| `(\w+)` \| (?=people|programs|a job|SARIF|annotations|Code)", PAGE, re.M) == [
        *formats("check")
    ]


def test_every_input_of_the_action_is_listed_and_none_is_invented() -> None:
    table = PAGE.split("| input | meaning |")[1].split("\n\n")[0]
    inputs = set(read("action.yml")["inputs"])
    assert set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == inputs
    steps = [step for block in blocks() for job in block.get("jobs", {}).values() for step in job["steps"]]
    ours = [step for step in steps if "autotune@" in step["uses"]]
    assert ours
    assert {name for step in ours for name in step["with"]} <= inputs


def test_the_hook_is_the_one_that_exists() -> None:
    named = [hook["id"] for block in blocks() for repo in block.get("repos", []) for hook in repo["hooks"]]
    assert named == [hook["id"] for hook in read(".pre-commit-hooks.yaml")]
