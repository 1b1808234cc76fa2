"""Edits of pins: package==1.2.3 in requirements.txt, pyproject.toml or environment.yml. Ranges stay what they are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autotune.errors import UsageError
from autotune.model.source import Splice
from autotune.syntax import toml, yaml
from autotune.syntax.text import Text, decode

_PIN = re.compile(
    r"""[ \t"']*(?P<name>[A-Za-z0-9][\w.-]*)[ \t]*(?:\[[^\]]*\])?[ \t]*={1,3}[ \t]*(?P<version>[0-9][^\s;,\#\\"'=]*)"""
)
_VERSION = re.compile(r"[0-9][\w.!+-]*", re.ASCII)


def replaced(data: bytes, where: str, package: str, version: str) -> tuple[Splice, ...]:
    """The edits that pin `package` to `version` wherever the file pins it; `where` is the file's name.

    Raises UsageError when it is not pinned, or pinned together with a hash.
    """
    if not _VERSION.fullmatch(version):
        raise UsageError(f"{version!r} is no version")
    text = decode(data, where)
    found = [match for match in _pins(data, where, text) if _name(match["name"]) == _name(package)]
    if not found:
        raise UsageError(f"{package} is not pinned here", where=where)
    for match in found:
        if "--hash" in text.text[match.end() : _entry_end(text.text, match.end())]:
            raise text.error(f"{package} is pinned with a hash", match.start("name"), "Make the file anew.")
    return tuple(Splice(text.span(*match.span("version")), version) for match in found)


def _name(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def _pins(data: bytes, where: str, text: Text) -> Iterator[re.Match[str]]:
    if where.endswith((".toml", ".yml", ".yaml")):
        document = toml.read(data, where) if where.endswith(".toml") else yaml.read(data, where)
        starts = [text.lines[entry.line - 1] + entry.column - 1 for entry in document.entries]
    else:
        starts = list(text.lines)
    return (match for start in starts if (match := _PIN.match(text.text, start)))


def _entry_end(text: str, place: int) -> int:
    """The end of a line with the lines that go on with it."""
    found = re.compile(r"(?:[^\r\n\\]|\\\r?\n|\\)*").match(text, place)
    return found.end() if found else place
