"""The last step of all text on its way out: what a terminal or a CI would act on is written out instead.

Names of files, keys, values and messages of scripts are other people's. A file's name may hold an escape sequence that
renames the window or fills the clipboard, or marks that turn the reading direction; a line that begins with `::` is a
command to GitHub Actions, and so is `##[` or `##vso[` anywhere in one to it and to Azure Pipelines.
"""

from __future__ import annotations

import re
import sys

_ACTED_ON = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but tab and line feed
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    "\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # marks of direction; characters that are not seen
    "\ud800-\udfff]"  # no character: bytes of a name that are no UTF-8
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_COMMAND = re.compile(r"^([^\S\n]*)(?=::)|(?<=##)(?=\[|vso\[)", re.MULTILINE)
"""GitHub's runner takes blanks of every kind away before it looks for a command."""


def plain(text: str) -> str:
    """`text` as `visible` makes it, with a backslash before what is a command to a CI."""
    return _COMMAND.sub(lambda found: f"{found[1] or ''}\\", escape_marks(text))


def escape_marks(text: str) -> str:
    """`text` with nothing but characters that are seen, tabs and line feeds; others as Python escapes them: `\\x1b`."""
    return _ACTED_ON.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def clean(text: str) -> str:
    """`text` in one line, with single spaces and without the colours of a terminal."""
    return plain(" ".join(_COLOURS.sub("", text).split()))


def print_stdout(text: str) -> None:
    """Print `text` and a line feed on standard output."""
    print(plain(text), flush=True)


def print_stderr(text: str) -> None:
    """Print `text` and a line feed on standard error."""
    print(plain(text), file=sys.stderr, flush=True)
