"""What is said where nothing was found: in a file that the user named, in code that uses torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from autotune.model.scanned import Bundle, ScanNote
from autotune.scan.files import File, FileSearch, grouped

_USES_TORCH = re.compile(rb"^[ \t]*(?:from|import)[ \t]+torch\b", re.MULTILINE)


def notes(found: FileSearch, bundles: Sequence[Bundle], known: Sequence[ScanNote]) -> Iterator[ScanNote]:
    """Notes beside those that are `known`: on files that the user named, and on a project in which nothing trains."""
    told = {name for bundle in bundles for name in bundle.files} | {_file(note) for note in known}
    quiet = [file for file in found.files if file.name in found.named - told]
    yield from grouped(ScanNote(file.name, _why(file)) for file in quiet)
    trying = [file for file in found.files if _may_train(file) and file.name not in told | found.named]
    if trying and not bundles:
        what = "1 file uses" if len(trying) == 1 else f"{len(trying):,} files use"
        yield ScanNote(trying[0].name, f"{what} torch, but no training loop was recognised")


def _why(file: File) -> str:
    return "uses torch, but no training loop was recognised" if _may_train(file) else "says nothing about training"


def _may_train(file: File) -> bool:
    return file.syntax == "python" and b"backward" in file.data and _USES_TORCH.search(file.data) is not None


def _file(note: ScanNote) -> str:
    """The file of "train.py:3:1"."""
    return note.where.split(":", maxsplit=1)[0]
