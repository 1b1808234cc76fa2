"""Changed files as a unified diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from io import StringIO
from pathlib import Path


def unified(files: Iterable[tuple[Path, bytes, bytes]], root: Path, context: int = 3) -> Iterator[str]:
    """The lines of (path, before, after), named from `root`; `context` lines around each change."""
    for path, before, after in files:
        name = path.relative_to(root).as_posix()
        # A line ends at a line feed alone, as for git and patch: a form feed is part of it.
        old, new = (list(StringIO(data.decode(errors="replace"), newline="\n")) for data in (before, after))
        for line in unified_diff(old, new, f"a/{name}", f"b/{name}", n=context):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
