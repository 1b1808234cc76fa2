"""Bundles of earlier scans, in the user's cache folder: one whose files have not changed is not read again.

With each bundle all names are kept that were looked for while it was read, those that were not there included, and what
stood behind them. It counts as long as all of that is the same, and the program that read it. Nothing is kept where
reading took too much, and of a scan that took little.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Sequence
from functools import partial
from importlib.util import source_hash
from pathlib import Path
from time import process_time
from typing import TypeVar

from msgspec import Raw, Struct, field, msgpack
from msgspec.structs import replace

from autotune import __version__
from autotune.catalogue import disk_cache
from autotune.model.scanned import IgnoreComment, ScanNote
from autotune.scan import ahead
from autotune.scan.library import ANYTHING, Library
from autotune.scan.program import is_limited_alike

Made = TypeVar("Made")

READERS = (
    *("scan", "scan/facts", "scan/script", "pycode", "syntax", "invocation", "model"),
    *("catalogue", "catalogue/dialects", "catalogue/frameworks"),
)
"""What decides what is read, below the package."""

WORTHWHILE_S = 0.5
"""CPU seconds of reading from which on the bundles are kept."""

AHEAD_S = 1.0
"""CPU seconds of reading that are left from which on other processes read ahead: each takes some 50 ms to start."""

MAX_PROCESSES = 8
"""More read the same modules again and again."""

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

    `names` are those of the cache and of this scan, `places` the place of each; `changed` are those that stand for
    something else than when they were looked for. `spent_s` are the CPU seconds that went into `num_made` bundles which
    the cache did not have; those of other processes count by their share. These make what is `waiting`, and give
    `results`.
    """

    library: Library
    file: Path
    known: KeptProject
    changed: frozenset[int]
    names: list[str]
    places: dict[str, int]
    bundles: dict[bytes, KeptBundle] = field(default_factory=dict)
    spent_s: float = 0.0
    num_made: int = 0
    waiting: deque[bytes] = field(default_factory=deque)
    results: Generator[bytes, None, None] = field(default_factory=lambda: ahead.results((), 0))

    def bundle(self, name: str, begin: object, make: Callable[[], Made | None], of: type[Made]) -> Made | None:
        """The bundle that begins with the file `name`, as an earlier scan or another process has made it, else as
        `make` does; `begin` tells it from others, `of` is its type."""
        key = _encoded(begin)
        kept = self.known.bundles.get(key)
        if kept is None or not self._is_valid(kept):
            kept = self._made_ahead(key)
        if kept is None:
            start = process_time()
            made, kept = self._make(name, make, self._place)
            self.spent_s += process_time() - start
            self.num_made += 1
            self.bundles |= {key: kept} if kept is not None and key else {}
            return made
        self._restore(kept)
        self.bundles[key] = kept
        return msgpack.decode(kept.made, type=of | None)

    def read_ahead(self, begins: Sequence[tuple[str, object, Callable[[], object]]]) -> bool:
        """Have other processes read bundles that the cache does not have, each with its name, its begin and what makes
        it, in the order in which they will be asked for; False where that is not worth it."""
        keys = [_encoded(begin) for _, begin, _ in begins]
        missing = [at for at, key in enumerate(keys) if key and not self._is_known(key)]
        num_processes = min(ahead.num_cpus(), MAX_PROCESSES)
        if num_processes < 2 or self.spent_s / max(self.num_made, 1) * len(missing) < AHEAD_S:
            return False
        self.results.close()
        jobs = [partial(self._made_for_others, begins[at][0], begins[at][2]) for at in missing]
        self.waiting = deque(keys[at] for at in missing)
        self.results = ahead.results(jobs, num_processes)
        return True

    def _is_known(self, key: bytes) -> bool:
        return key in self.known.bundles and self.changed.isdisjoint(self.known.bundles[key].names)

    def _is_valid(self, kept: KeptBundle) -> bool:
        return self._is_made_alike(kept) and self.changed.isdisjoint(kept.names)

    def _is_made_alike(self, kept: KeptBundle) -> bool:
        """Whether as many modules could be followed when it was made as now."""
        return is_limited_alike(kept.before, self.library.followed, kept.followed)

    def _place(self, name: str) -> int:
        """The place of a name among all names of the project."""
        place = self.places.setdefault(name, len(self.names))
        self.names += [name] if place == len(self.names) else []
        return place

    def _make(self, name: str, make: Callable[[], Made], place: Callable[[str], int]) -> tuple[Made, KeptBundle | None]:
        """The bundle, and as what it is kept, if at all; `place` gives the places of names."""
        before = self.library.followed
        made, names = self.library.tracked(make)
        data = _encoded(made)
        if not data or ANYTHING in names:
            return made, None
        library, places = self.library, {one: place(one) for one in names}
        told = {one: (library.ignored.get(one, ()), library.told[one]) for one in names if one in library.told}
        return made, KeptBundle(
            name,
            tuple(places.values()),
            tuple(at for one, at in places.items() if one in library.files),
            tuple(places[one] for one in told),
            {places[one]: each for one, each in told.items() if any(each)},
            before,
            library.followed - before,
            Raw(data),
        )

    def _made_for_others(self, name: str, make: Callable[[], object]) -> bytes:
        """In another process: the bundle with the names on which it depends, nothing for one that is not kept."""
        names: dict[str, int] = {}
        _, kept = self._make(name, make, lambda one: names.setdefault(one, len(names)))
        return _encoded((list(names), kept)) if kept is not None else b""

    def _made_ahead(self, key: bytes) -> KeptBundle | None:
        """The bundle that another process has made, if one has: what comes before it is not asked for any more."""
        while key in self.waiting:
            data, done = next(self.results, b""), self.waiting.popleft()
            if done == key and data:
                self.spent_s += self.spent_s / max(self.num_made, 1)
                self.num_made += 1
                names, kept = msgpack.decode(data, type=tuple[list[str], KeptBundle])
                moved = _moved(kept, list(map(self._place, names)))
                return moved if self._is_made_alike(moved) else None
        return None

    def _restore(self, kept: KeptBundle) -> None:
        """Leave in the library what reading the bundle would leave there."""
        for place in kept.found:
            self.library.add(self.names[place])
        for place in kept.parsed:
            self.library.add_told(self.names[place], kept.told.get(place, ((), ())))
        self.library.followed += kept.followed

    def save(self) -> None:
        """Write what is known now, if it took long to find it."""
        self.results.close()
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
            for place, name in enumerate(self.names)
        ]
        project = KeptProject(_reader(), tuple(self.names), tuple(states), {**others, **self.bundles})
        if data := _encoded(project):
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
    return KeptScan(
        library, file, known, changed, list(known.names), {name: place for place, name in enumerate(known.names)}
    )


def _moved(kept: KeptBundle, places: Sequence[int]) -> KeptBundle:
    """With other places of its names."""
    names, found, parsed = (tuple(places[at] for at in each) for each in (kept.names, kept.found, kept.parsed))
    told = {places[at]: each for at, each in kept.told.items()}
    return replace(kept, names=names, found=found, parsed=parsed, told=told)


def _encoded(value: object) -> bytes:
    """Nothing for what msgpack cannot hold: names that are no text, integers beyond 64 bits."""
    try:
        return msgpack.encode(value)
    except (TypeError, ValueError, OverflowError):
        return b""


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
