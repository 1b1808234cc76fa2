"""The scratch folder of one verification: gone when it ends in any way, or when the next measurement finds it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.collect import artefacts, leftovers
from autotune.machine import identity
from autotune.verify.mirror import Mirror


@contextmanager
def mirrored(root: Path, edited: frozenset[Path]) -> Iterator[Mirror | None]:
    """A Mirror in a run folder of its own; None when no file differs: then the real files serve both sides."""
    if not edited:
        yield None
        return
    run = artefacts.new_run(root)
    place = run / "scratch-mirror"
    try:
        artefacts.write_json(run / artefacts.MANIFEST, identity())
        # Listed before it is made: a crash in between leaves nothing that the next measurement does not delete.
        artefacts.write_text(run / leftovers.SCRATCH_LIST, f"{run.stat().st_dev} {place}\n")
        yield Mirror(root, place, edited)
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
