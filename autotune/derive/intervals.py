"""Arithmetic on stretches of time: (start, end) in ns, half open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Stretch = tuple[int, int]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """What they cover together: disjoint, in order, none empty."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if end <= start:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def total(stretches: Iterable[Stretch]) -> int:
    """Nanoseconds in disjoint stretches."""
    return sum(end - start for start, end in stretches)


def without(stretches: Sequence[Stretch], taken: Sequence[Stretch]) -> list[Stretch]:
    """What `taken` leaves of `stretches`; both disjoint and in order."""
    found: list[Stretch] = []
    place = 0
    for start, end in stretches:
        while place < len(taken) and taken[place][1] <= start:
            place += 1
        at = place
        while at < len(taken) and taken[at][0] < end:
            if taken[at][0] > start:
                found.append((start, taken[at][0]))
            start = max(start, taken[at][1])
            at += 1
        if start < end:
            found.append((start, end))
    return found


def common(stretches: Sequence[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """What is in both; both disjoint and in order."""
    found: list[Stretch] = []
    place = 0
    for start, end in stretches:
        while place < len(others) and others[place][1] <= start:
            place += 1
        at = place
        while at < len(others) and others[at][0] < end:
            found.append((max(start, others[at][0]), min(end, others[at][1])))
            at += 1
    return found
