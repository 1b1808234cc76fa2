"""Scripts, configs and launch commands below some paths, as bundles of facts and settings. Nothing is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autotune.catalogue.dialects import Version
from autotune.model.scanned import Scanned
from autotune.scan.files import find

__all__ = ["scan"]


def scan(
    paths: Sequence[Path],
    *,
    root: Path,
    exclude: Sequence[str] = (),
    versions: Mapping[str, Version] | None = None,
    progress: Callable[[str, int, int], object] | None = None,
) -> Scanned:
    """Everything below `paths` that trains, with names relative to `root`; `exclude` are patterns of names.

    `versions` are those of installed packages, whose facts the caller has; without them, those that the project
    declares are used and stated. `progress` gets the next file to read, how many files are done, and of how many.
    Raises UsageError for a path that does not exist.
    """
    found = find(paths, root=root, exclude=exclude)
    if not found.files:
        return Scanned((), found.notes, found.num_files)
    from autotune.scan.bundles import read_bundles  # the readers of scripts and configs: most folders have none to read

    return read_bundles(found, root, exclude, versions, progress)
