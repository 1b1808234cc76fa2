"""Changed files as a unified diff."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path


def unified(files: Iterable[tuple[Path, bytes, bytes]], root: Path, context: int = 3) -> Iterator[str]:
    """The lines of (path, before, after), named from `root`; `context` lines around each change."""
    for path, before, after in files:
        name = path.relative_to(root).as_posix()
        old, new = (data.decode(errors="replace").splitlines(keepends=True) for data in (before, after))
        for line in unified_diff(old, new, f"a/{name}", f"b/{name}", n=context):
            yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
