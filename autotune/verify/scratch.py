"""The scratch folder of one verification: gone when it ends in any way, or when the next measurement finds it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from autotune.collect import artefacts, stale_runs
from autotune.errors import UsageError
from autotune.machine import identity
from autotune.model.verified import SIDES
from autotune.verify.scratch_copy import Mirror


@contextmanager
def mirrored(root: Path, edited: frozenset[Path]) -> Iterator[Mapping[str, Mirror]]:
    """A Mirror for each side in a run folder of its own; none when no file differs: the real files serve both then.

    Raises UsageError when one of the `edited` files lies outside the project.
    """
    outside = next((path for path in edited if not path.is_relative_to(root)), None)
    if outside is not None:
        raise UsageError(
            f"it lies outside the project {root}, so it cannot be changed in a copy",
            where=str(outside),
            to_do="Start autotune in a folder that holds all of the files.",
        )
    if not edited:
        yield {}
        return
    run = artefacts.new_run(root)
    places = {side: run / f"scratch-mirror-{number}" for number, side in enumerate(SIDES)}
    try:
        artefacts.write_json(run / artefacts.MANIFEST, identity())
        # Listed before it is made: a crash in between leaves nothing that the next measurement does not delete.
        lines = [f"{run.stat().st_dev} {place}\n" for place in places.values()]
        artefacts.write_text(run / stale_runs.SCRATCH_LIST, "".join(lines))
        yield {side: Mirror(root, place, edited) for side, place in places.items()}
    finally:
        shutil.rmtree(run, ignore_errors=True)


@contextmanager
def start_folder(root: Path) -> Iterator[Path]:
    """The run folder of one start; what matters is read from it before it is deleted."""
    run = artefacts.new_run(root)
    try:
        yield run
    finally:
        shutil.rmtree(run, ignore_errors=True)
