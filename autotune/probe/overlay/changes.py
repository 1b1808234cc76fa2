"""What the script tried to change: remembered while it runs, summed up for the report."""

from __future__ import annotations

import posix
from os.path import dirname
from stat import S_ISREG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..shapes import Row
    from .world import World

    Found = dict[str, tuple[str, int]]
    Sums = dict[tuple[str, str], int]

MOST_ROWS = 50


class Changes:
    """The places that this process changed: {place: (kind, bytes)}. The last kind counts, bytes never shrink."""

    def __init__(self) -> None:
        self._seen: Found = {}

    def add(self, kind: str, place: str, size: int = 0) -> None:
        """`kind` is write, delete, rename or mkdir."""
        self._seen[place] = (kind, max(size, self._seen.get(place, ("", 0))[1]))

    def rows(self, world: World) -> list[Row]:
        """At most 50 rows {path (absolute), kind, bytes}, one per folder and kind."""
        found = dict(self._seen)
        for layer in world.layers():
            _add_kept(layer.upper, "", found)
        groups = _group([(place, kind, size) for place, (kind, size) in found.items()])
        return [{"path": place, "kind": kind, "bytes": size} for (place, kind), size in sorted(groups.items())]


def _add_kept(upper: str, folder: str, found: Found) -> None:
    """Add the sizes of what is in scratch; that includes what forked workers wrote."""
    try:
        with posix.scandir(upper + folder) as entries:
            rows = [(entry.name, entry.is_dir(follow_symlinks=False), entry) for entry in entries]
    except OSError:
        return
    for name, is_folder, entry in rows:
        place = folder + "/" + name
        if is_folder:
            _add_kept(upper, place, found)
        else:
            status = entry.stat(follow_symlinks=False)
            kind, size = found.get(place, ("write", 0))
            found[place] = (kind, max(size, status.st_size if S_ISREG(status.st_mode) else 0))


def _group(rows: list[tuple[str, str, int]]) -> Sums:
    """{(place, kind): bytes}: a lone file stands for itself, several in one folder for the folder.

    A folder that was only made is not named beside what was written into it.
    """
    rows = _without_parents(rows)
    groups: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for place, kind, size in rows:
        groups.setdefault((dirname(place), kind), []).append((place, size))
    sums = {
        (members[0][0] if len(members) == 1 else folder, kind): sum(size for _, size in members)
        for (folder, kind), members in groups.items()
    }
    while len(sums) > MOST_ROWS:
        sums = _shorten(sums)
    return sums


def _without_parents(rows: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    parents = set()
    for place, _, _ in rows:
        while place != "/":
            place = dirname(place)
            parents.add(place)
    return [row for row in rows if not (row[1] == "mkdir" and row[0] in parents)]


def _shorten(sums: Sums) -> Sums:
    """The deepest places replaced by their folders."""
    deepest = max(place.count("/") for place, _ in sums)
    shorter: Sums = {}
    for (place, kind), size in sums.items():
        key = (dirname(place) if place.count("/") == deepest and place != "/" else place, kind)
        shorter[key] = shorter.get(key, 0) + size
    return shorter if deepest > 1 else {("/", "write"): sum(sums.values())}
