"""From an estimate, and from what else the machine did meanwhile, to the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.verified import Estimate, Start, Verdict

MARGIN = 1.02
"""A winner is faster by more than this for sure: less is not worth a change, and processes differ by it."""

SAME = 1.05
"""No difference: the speedup lies between 1 / SAME and SAME."""

FULL_SHARE = 0.9
"""CPUs busy above this share leave the training to wait for one."""

OTHERS_SHARE = 0.15
"""Share of the machine's CPUs that other work may use while the CPUs are full."""

MOST_CROWDED = 0.25
"""Share of the starts that may be crowded."""


def verdict(estimate: Estimate, starts: Sequence[Start]) -> tuple[Verdict, str]:
    """The verdict and, where it is not obvious, why."""
    crowded = sum(map(is_crowded, starts))
    if crowded > MOST_CROWDED * len(starts):
        return Verdict.CANNOT_TELL, f"other work kept the CPUs busy during {crowded} of {len(starts)} starts"
    surely_low, surely_high = estimate.surely
    if surely_low > MARGIN and estimate.is_apart:
        return Verdict.FASTER, ""
    if surely_high < 1 / MARGIN and estimate.is_apart:
        return Verdict.SLOWER, ""
    if estimate.low > 1 / SAME and estimate.high < SAME:
        return Verdict.NO_DIFFERENCE, f"the speedup is between {estimate.low:.2f} and {estimate.high:.2f}"
    return Verdict.CANNOT_TELL, f"starts of the same files differ by {estimate.spread:.1%}, too much for this effect"


def is_crowded(start: Start) -> bool:
    """Whether other work took CPUs that the training may have wanted; not where the system does not tell."""
    if start.others_share is None or start.busy_share is None:
        return False
    return start.busy_share > FULL_SHARE and start.others_share > OTHERS_SHARE
