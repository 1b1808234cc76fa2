"""Bundles of earlier scans, in the user's cache folder: one whose files have not changed is not read again.

With each bundle all names are kept that were looked for while it was read, those that were not there included, and what
stood behind them. It counts as long as all of that is the same, and the program that read it. Nothing is kept where
reading took too much, and of a scan that took little.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from time import process_time
from typing import TypeVar

from msgspec import Raw, Struct, field, msgpack

from autotune import __version__
from autotune.catalogue import disk_cache
from autotune.model.scanned import IgnoreComment, ScanNote
from autotune.scan.library import ANYTHING, Library
from autotune.scan.program import is_limited_alike

Made = TypeVar("Made")

ENCODING_ERRORS = (TypeError, ValueError, OverflowError)
"""What msgpack raises for what it cannot hold: names that are no text, integers beyond 64 bits."""

READERS = (
    *("scan", "scan/facts", "scan/script", "pycode", "syntax", "invocation", "model"),
    *("catalogue", "catalogue/dialects", "catalogue/frameworks"),
)
"""What decides what is read, below the package."""

WORTHWHILE_S = 0.5
"""CPU seconds of reading from which on the bundles are kept."""

MAX_PROJECTS = 50
"""Projects of which bundles are kept, those that were scanned last."""

Told = tuple[tuple[IgnoreComment, ...], tuple[ScanNote, ...]]


class KeptBundle(Struct, frozen=True):
    """A bundle as it was made, nil for none, and on what that depends.

    `begin` is the file with which it begins. Numbers are places among the names of the project: `names` were looked
    for, `found` are those of them that are files, `parsed` the files that were parsed; `told` is what parsing said of
    these, where it said anything. `before` modules had been followed, and `followed` more were.
    """

    begin: str
    names: tuple[int, ...]
    found: tuple[int, ...]
    parsed: tuple[int, ...]
    told: dict[int, Told]
    before: int
    followed: int
    made: Raw


class KeptProject(Struct, frozen=True):
    """What the cache holds of one project: `states` are what its `names` stood for, `reader` is what read them."""

    reader: str
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    bundles: dict[bytes, KeptBundle] = field(default_factory=dict)


class KeptScan(Struct):
    """The bundles of a project that are known, from the cache or from this scan.

    `changed` are the names that stand for something else than when they were looked for. `spent_s` are the CPU seconds
    that went into bundles that the cache did not have.
    """

    library: Library
    file: Path
    known: KeptProject
    changed: frozenset[int]
    names: dict[str, int]
    bundles: dict[bytes, KeptBundle] = field(default_factory=dict)
    spent_s: float = 0.0

    def bundle(self, name: str, begin: object, make: Callable[[], Made | None], of: type[Made]) -> Made | None:
        """The bundle that begins with the file `name`, as an earlier scan has made it, else as `make` does; `begin`
        tells it from others, `of` is its type."""
        try:
            key = msgpack.encode(begin)
        except ENCODING_ERRORS:
            return make()
        kept, before = self.known.bundles.get(key), self.library.followed
        is_alike = kept is not None and is_limited_alike(kept.before, before, kept.followed)
        if kept is not None and is_alike and self.changed.isdisjoint(kept.names):
            self._restore(kept)
            self.bundles[key] = kept
            return msgpack.decode(kept.made, type=of | None)
        start = process_time()
        made, names = self.library.tracked(make)
        self.spent_s += process_time() - start
        if ANYTHING not in names:
            with suppress(*ENCODING_ERRORS):
                self.bundles[key] = self._kept(name, names, before, Raw(msgpack.encode(made)))
        return made

    def _restore(self, kept: KeptBundle) -> None:
        """Leave in the library what reading the bundle would leave there."""
        names = self.known.names
        for place in kept.found:
            self.library.add(names[place])
        for place in kept.parsed:
            self.library.add_told(names[place], kept.told.get(place, ((), ())))
        self.library.followed += kept.followed

    def _kept(self, begin: str, names: Sequence[str], before: int, made: Raw) -> KeptBundle:
        library = self.library
        places = {name: self.names.setdefault(name, len(self.names)) for name in names}
        parsed = [name for name in names if name in library.told]
        return KeptBundle(
            begin,
            tuple(places.values()),
            tuple(place for name, place in places.items() if name in library.files),
            tuple(places[name] for name in parsed),
            {places[name]: told for name in parsed if any(told := (library.ignored.get(name, ()), library.told[name]))},
            before,
            library.followed - before,
            made,
        )

    def save(self) -> None:
        """Write what is known now, if it took long to find it."""
        if self.spent_s < WORTHWHILE_S:
            return
        others = {
            key: kept
            for key, kept in self.known.bundles.items()
            if kept.begin not in self.library.files  # of another folder of the project
            and self.changed.isdisjoint(kept.names)
            and os.path.exists(f"{self.library.root}/{kept.begin}")  # noqa: PTH110
        }
        states = [
            self.known.states[place]
            if place < len(self.known.states) and place not in self.changed
            else self.library.state(name)
            for name, place in self.names.items()
        ]
        project = KeptProject(_reader(), tuple(self.names), tuple(states), {**others, **self.bundles})
        try:
            data = msgpack.encode(project)
        except ENCODING_ERRORS:
            return
        disk_cache.write(self.file, data)
        _leave_newest(self.file.parent)


def load(library: Library) -> KeptScan:
    """What is known of the project whose files the library has."""
    of_project = "\0".join([str(library.root), *library.exclude]).encode("utf-8", "surrogateescape")
    file = disk_cache.cache_folder() / f"scan-{source_hash(of_project).hex()}.msgpack"
    try:
        known = msgpack.decode(file.read_bytes(), type=KeptProject)
    except (OSError, ValueError):
        known = KeptProject("")
    if known.reader != (_reader() if known.reader else ""):
        known = KeptProject("")
    pairs = zip(known.names, known.states, strict=True)
    changed = frozenset(place for place, (name, state) in enumerate(pairs) if library.state(name) != state)
    return KeptScan(library, file, known, changed, {name: place for place, name in enumerate(known.names)})


def _reader() -> str:
    """What reads the files: this version on this Python, with the files of its code as Python tells them apart."""
    package = Path(__file__).resolve().parents[1]
    about = [__version__, sys.version]
    for folder in READERS:
        for entry in sorted(os.scandir(package / folder), key=lambda entry: entry.name):
            stored = entry.stat()
            about.append(f"{entry.name} {stored.st_size} {stored.st_mtime_ns}" if entry.is_file() else "")
    return source_hash("\0".join(about).encode("utf-8", "surrogateescape")).hex()


def _leave_newest(folder: Path) -> None:
    """Remove what is kept of projects that were not scanned for long."""
    try:
        files = sorted(folder.glob("scan-*.msgpack"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[MAX_PROJECTS:]:
            file.unlink(missing_ok=True)
    except OSError:
        pass  # another process has removed one
