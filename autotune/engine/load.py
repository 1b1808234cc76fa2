"""rules/<family>/<ID>.toml -> Rules."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from autotune.catalogue.disk_cache import kept
from autotune.errors import RuleError, UsageError
from autotune.model.rule import Rule

_PACKAGE = Path(__file__).resolve().parents[1]


def rules_folder() -> Path:
    """The rules that came with this installation; in a checkout, the folder beside the package."""
    installed = _PACKAGE / "_rules"
    return installed if installed.is_dir() else _PACKAGE.parent / "rules"


def load_rules(folder: Path | None = None) -> tuple[Rule, ...]:
    """Every rule under `folder` (None: the shipped ones, judged once and then kept), by id.

    Raises RuleError that lists every mistake of every file, UsageError when there is no rule at all.
    """
    place = folder or rules_folder()
    if folder is None:
        return kept("rules", _state(place), lambda: _judged(_files(place)), tuple[Rule, ...])
    return _judged(_files(place))


def _files(place: Path) -> dict[Path, Path]:
    """The rule files by their names below the folder. Raises UsageError where there is none."""
    files = {file.relative_to(place): file for file in sorted(place.glob("*/*.toml"))}
    if not files:
        raise UsageError(
            "there is no rule file here", where=str(place), to_do="Rules are <family>/<ID>.toml in this folder."
        )
    return files


def load_rule(file: Path) -> Rule:
    """The rule in one file. Raises RuleError with every mistake in it."""
    return _judged({Path(file.parent.name, file.name): file}, is_whole=False)[0]


def _state(rules: Path) -> Iterator[bytes]:
    """What decides whether rules are right: their files, the vocabulary, and the code that judges them.

    A file stands for its content with its name, size and time, as for Python when it imports a module.
    """
    engine = Path(__file__).parent
    families = sorted(entry.path for entry in os.scandir(rules) if entry.is_dir()) if rules.is_dir() else []
    for folder in (*families, str(engine), str(engine.parent / "catalogue")):
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            about = entry.stat()
            yield f"{entry.path} {about.st_size} {about.st_mtime_ns}".encode("utf-8", "surrogateescape")


def _judged(files: Mapping[Path, Path], *, is_whole: bool = True) -> tuple[Rule, ...]:
    """The rules in these files by id; `is_whole`: all that there are. Raises RuleError with every mistake of every
    file."""
    wrong: list[str] = []
    rules = [rule for name, file in files.items() if (rule := _load(file, name, wrong)) is not None]
    wrong += [*_twice(rules), *(_unknown_rules(rules) if is_whole else ())]
    if wrong:
        raise RuleError("\n".join(wrong), to_do="docs/adding-a-rule.md shows the format.")
    return tuple(sorted(rules, key=lambda rule: rule.id))


def _load(file: Path, name: Path, wrong: list[str]) -> Rule | None:
    """The rule in `file`; when it is wrong, its mistakes are added to `wrong`, one line each."""
    try:
        rule, found = _parsed(file.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        rule, found = None, (f"cannot be read: {error}",)
    wrong += [f"{name.as_posix()}: {each}" for each in found]
    return rule


@cache
def _parsed(text: str, name: Path) -> tuple[Rule | None, tuple[str, ...]]:
    """The rule in `text`, or None with its mistakes."""
    import tomllib  # only rules that are not kept need these

    from autotune.engine.parse import parse_rule
    from autotune.engine.rule_mistakes import mistakes as mistakes_between

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


def _unknown_rules(rules: Sequence[Rule]) -> list[str]:
    ids = {rule.id for rule in rules}
    named = [(rule, other) for rule in rules for other in rule.yields_to]
    return [f'{rule.file}: yields_to: there is no rule "{other}"' for rule, other in named if other not in ids]
