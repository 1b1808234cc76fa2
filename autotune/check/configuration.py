"""[tool.autotune] of pyproject.toml: which rules `check` uses, and where.

[tool.autotune]
select = ["DL", "EN012"]                 rules by id or the beginning of ids; without it, all
ignore = ["SY"]
exclude = ["examples/old", "*_test.py"]  files and folders that are not read
[tool.autotune.per-file-ignores]
"experiments/*" = ["PR"]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.rule import Rule
from autotune.model.scanned import ScanNote
from autotune.scan.files import read_below

_NAME = "pyproject.toml"
_TO_DO = "The keys of [tool.autotune] are: select, ignore, exclude, per-file-ignores."


class Configuration(Struct, frozen=True):
    """What `file` says; patterns of files are relative to the root of the check. An empty `select` means all rules.

    `notes` are nearer files that were not read.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    file: str = ""
    notes: tuple[ScanNote, ...] = ()


def read(folder: Path, root: Path) -> Configuration:
    """The table of the nearest pyproject.toml, from `folder` up to `root`, that has one.

    Raises UsageError for a mistake in it.
    """
    notes: list[ScanNote] = []
    for place in (folder, *folder.parents):
        table = _table(place / _NAME, root)
        if isinstance(table, ScanNote):
            notes.append(table)
        elif table is not None:
            found = _configuration(table, place / _NAME, place.relative_to(root).as_posix())
            return replace(found, notes=tuple(notes))
        if place == root:
            break
    return Configuration(notes=tuple(notes))


def select_rules(
    rules: Sequence[Rule], config: Configuration, select: Sequence[str], ignore: Sequence[str]
) -> tuple[Rule, ...]:
    """The rules to use: `select` of the command line replaces that of the file, `ignore` adds to it.

    Raises UsageError for a name that no rule begins with.
    """
    ids = [rule.id for rule in rules]
    _refuse_unknown(ids, (*select, *ignore), "--select or --ignore")
    _refuse_unknown(ids, (*config.select, *config.ignore, *chain(*config.per_file_ignores.values())), config.file)
    wanted, unwanted = select or config.select, (*ignore, *config.ignore)
    return tuple(
        rule for rule in rules if (not wanted or matches_rule(wanted, rule.id)) and not matches_rule(unwanted, rule.id)
    )


def matches_rule(selectors: Iterable[str], rule: str) -> bool:
    """Whether one of `selectors`, ids or beginnings of ids, means `rule`."""
    return any(rule.startswith(selector) for selector in selectors)


def _refuse_unknown(ids: Sequence[str], selectors: Iterable[str], where: str) -> None:
    for selector in selectors:
        if not any(matches_rule([selector], rule) for rule in ids):
            raise UsageError(f'no rule is called "{selector}"', where=where, to_do="`autotune rules` lists them.")


def _table(file: Path, root: Path) -> Mapping[str, Any] | ScanNote | None:
    """The table of `file`, or why it is not read; None without a table of ours."""
    if not os.path.lexists(file):
        return None
    read = read_below(root, file.relative_to(root).as_posix())
    if isinstance(read, ScanNote):
        return read
    if b"autotune" not in read.data:
        return None
    import tomllib  # most projects have no table of ours, and pay nothing

    try:
        document = tomllib.loads(read.data.decode())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not TOML: {error}", where=str(file)) from error
    tool = document.get("tool")
    table = tool.get("autotune") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError("tool.autotune is not a table", where=str(file), to_do=_TO_DO)
    return table


def _configuration(table: Mapping[str, Any], file: Path, folder: str) -> Configuration:
    unknown = set(table) - {"select", "ignore", "exclude", "per-file-ignores"}
    if unknown:
        raise UsageError(f"unknown key: {', '.join(sorted(unknown))}", where=f"{file}: tool.autotune", to_do=_TO_DO)
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, dict):
        raise UsageError("is not a table", where=f"{file}: tool.autotune.per-file-ignores", to_do=_TO_DO)
    return Configuration(
        select=_texts(table, "select", file),
        ignore=_texts(table, "ignore", file),
        exclude=tuple(_relative_to_root(folder, pattern) for pattern in _texts(table, "exclude", file)),
        per_file_ignores={_relative_to_root(folder, pattern): _texts(per_file, pattern, file) for pattern in per_file},
        file=str(file),
    )


def _texts(table: Mapping[str, Any], key: str, file: Path) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise UsageError("must be a list of strings", where=f"{file}: tool.autotune: {key}")
    return tuple(value)


def _relative_to_root(folder: str, pattern: str) -> str:
    """A pattern relative to `folder`; a bare name means a file or folder at any depth and stays."""
    return pattern if "/" not in pattern.strip("/") or folder == "." else f"{folder}/{pattern.lstrip('/')}"
