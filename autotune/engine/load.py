"""rules/<family>/<ID>.toml -> Rules."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from autotune.engine.check import mistakes as mistakes_between
from autotune.engine.parse import parse_rule
from autotune.errors import RuleError, UsageError
from autotune.model.rule import Rule

_PACKAGE = Path(__file__).resolve().parents[1]


def rules_folder() -> Path:
    """The rules that came with this installation; in a checkout, the folder beside the package."""
    installed = _PACKAGE / "_rules"
    return installed if installed.is_dir() else _PACKAGE.parent / "rules"


def load_rules(folder: Path | None = None) -> tuple[Rule, ...]:
    """Every rule under `folder` (None: the shipped ones), by id.

    Raises RuleError that lists every mistake of every file, UsageError when there is no rule at all.
    """
    folder = folder or rules_folder()
    files = sorted(folder.glob("*/*.toml"))
    if not files:
        raise UsageError(
            "there is no rule file here", where=str(folder), to_do="Rules are <family>/<ID>.toml in this folder."
        )
    wrong: list[str] = []
    rules = [rule for file in files if (rule := _load(file, file.relative_to(folder), wrong)) is not None]
    wrong += _twice(rules)
    if wrong:
        raise RuleError("\n".join(wrong), to_do="docs/adding-a-rule.md shows the format.")
    return tuple(sorted(rules, key=lambda rule: rule.id))


def load_rule(file: Path) -> Rule:
    """The rule in one file. Raises RuleError with every mistake in it."""
    wrong: list[str] = []
    rule = _load(file, Path(file.parent.name, file.name), wrong)
    if rule is None:
        raise RuleError("\n".join(wrong), to_do="docs/adding-a-rule.md shows the format.")
    return rule


def _load(file: Path, name: Path, wrong: list[str]) -> Rule | None:
    """The rule in `file`; without one, its mistakes are added to `wrong`, one line each."""
    try:
        rule, found = _parsed(file.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        rule, found = None, (f"cannot be read: {error}",)
    wrong += [f"{name.as_posix()}: {each}" for each in found]
    return rule


@cache
def _parsed(text: str, name: Path) -> tuple[Rule | None, tuple[str, ...]]:
    """The rule in `text`, or None with its mistakes."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return None, (f"cannot be read: {error}",)
    found: list[str] = []
    rule = parse_rule(data, name.as_posix(), found)
    if not found:
        found += mistakes_between(rule)
        found += [] if rule.id == name.stem else [f'id: "{rule.id}" must be the name of the file, "{name.stem}"']
    return (None, tuple(found)) if found else (rule, ())


def _twice(rules: Sequence[Rule]) -> list[str]:
    first: dict[str, Rule] = {}
    for rule in rules:
        first.setdefault(rule.id, rule)
    return [f"{rule.file}: id: {first[rule.id].file} has it too" for rule in rules if first[rule.id] is not rule]
