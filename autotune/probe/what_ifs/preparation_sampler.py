"""What fills the preparation of batches, by looks at the stack at each call and return.

The sampler's thread cannot tell: it gets the interpreter lock when a call lets go of it, so that what holds the lock
(json, zlib, converting a list) is hardly ever seen. Here every interval is put down to the function that filled it.
"""

from __future__ import annotations

import sys

from .. import call_sites, clock, describe, sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, Callable

    from ..shapes import Row, Samples

INTERVAL_NS = 200_000
ENOUGH_NS, MOST_NS = 200_000_000, 1_000_000_000
LEAST_BATCHES = 4


def samples(loader: Any) -> list[Row]:
    """The samples of some batches but the first, as the sampler's rows; none where a profiler of the script is on."""
    if describe.records_calls():
        return []
    iterator = iter(loader)
    next(iterator, None)
    counts: Samples = {}
    sys.setprofile(_noting(counts))
    try:
        _take(iterator)
    finally:
        sys.setprofile(None)
    return sampler.rows_of(counts)


def _take(iterator: Iterator[Any]) -> None:
    begin, taken = clock.now(), 0
    while next(iterator, None) is not None:
        taken += 1
        spent = clock.now() - begin
        if spent > MOST_NS or (spent > ENOUGH_NS and taken >= LEAST_BATCHES):
            return


def _noting(counts: Samples) -> Callable[[FrameType, str, object], None]:
    """A profile function. What passed since the event before belongs to the frame itself, of a call to its caller.

    What the function itself takes is nobody's.
    """
    due = clock.now() + INTERVAL_NS

    def on_event(frame: FrameType, event: str, _: object) -> None:
        nonlocal due
        began = clock.now()
        late = began - due
        if late >= 0:
            passed = late // INTERVAL_NS + 1
            due += passed * INTERVAL_NS
            filled = frame.f_back if event == "call" else frame
            if filled is not None:
                key = ("fetch", *sampler.describe(call_sites.outwards(filled)))
                counts[key] = counts.get(key, 0) + passed
        due += clock.now() - began

    return on_event
