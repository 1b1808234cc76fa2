"""The commands that lead on, as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from autotune.report.next_commands import NextCommand

if TYPE_CHECKING:
    from autotune.report.json import documents as doc


def next_json(commands: Iterable[NextCommand]) -> list[doc.NextCommand]:
    """The first to type first."""
    return [{"command": one.command, "why": one.why} for one in commands]
