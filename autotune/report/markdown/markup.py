"""Foreign text in GitHub Flavored Markdown: names and messages are other people's, and none of them is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable

from autotune.outlet import clean, escape_marks

_INLINE = r"[&<|\\`*\[\]~#$@]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])"
_SPECIAL = re.compile(rf"{_INLINE}|^[-+=>]|^\d+[.)]")
_WITHIN = re.compile(rf"{_INLINE}|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""GitHub makes a link of an address, wherever it stands."""

_AT_START = re.compile(r"^[-+=>]|^\d+[.)]")


def escape(text: str) -> str:
    """`text` in one line that is no markup anywhere, a table included: what could be is a character reference."""
    return _SPECIAL.sub(_references, clean(text))


def escape_within(text: str) -> str:
    """The same of what stands behind other text of its line, and of which no address becomes a link."""
    return _WITHIN.sub(_references, clean(text))


def escape_start(line: str) -> str:
    """An escaped line whose beginning is no list, heading or quotation."""
    return _AT_START.sub(_references, line)


def _references(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(char)};" for char in found[0])


def code(text: str) -> str:
    """`text` as it is typed."""
    return f"<code>{escape_within(text)}</code>"


def fenced(text: str, language: str = "") -> str:
    """Lines as they are. The fence is longer than any run of backticks in them, so that none of them ends it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", escape_marks(text).rstrip("\n"), fence])


def folded(summary: str, body: Iterable[str]) -> str:
    """The empty lines around the body let it be read as Markdown."""
    return "\n\n".join([f"<details><summary>{summary}</summary>", *body, "</details>"])
