"""Memory at the longest batch: whether the measured peaks cover it."""

from __future__ import annotations

from autotune.model.evidence import Evidence
from autotune.model.tuned import Candidate, Space
from autotune.tune.excluded import takes_more
from autotune.tune.points import TRAIN


def unknown_peak(evidence: Evidence, space: Space, candidate: Candidate) -> str:
    """Why the peak of `candidate` is not known; "" where it takes no more memory than the baseline, or no batch can be
    larger than those that were measured."""
    shapes, static, width, longest = (
        evidence.lookup(TRAIN, name)
        for name in ("loader.num_shapes", "loader.is_static_padding", "loader.width", "data.max_length")
    )
    is_known = shapes == 1 or static is True
    if is_known or not takes_more(space, candidate):
        return ""
    if not isinstance(width, int):
        return "memory at the largest batch is not known: batches are not all alike, and larger ones may come"
    if isinstance(longest, int) and longest <= width:
        return ""
    most = f"of the {longest} that a sample may have" if isinstance(longest, int) else "and longer samples may come"
    return f"memory at the longest batch is not known: the longest that was seen has {width} tokens, {most}"
