"""Reads the small text files of /proc and /sys. A file that is missing or unreadable is None, never empty."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str | None:
    """The text of `path` without surrounding space, or None when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The only integer in `path`; None when it cannot be read or holds a word such as "max"."""
    content = text(path)
    try:
        return int(content) if content else None
    except ValueError:
        return None


def table(path: Path) -> dict[str, int]:
    """The "key integer" lines of a flat keyed file such as cpu.stat; empty when it cannot be read."""
    rows = (line.split() for line in (text(path) or "").splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].lstrip("-").isdigit()}
