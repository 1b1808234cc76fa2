from __future__ import annotations

import pytest
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE, Clock, Estimate, Verdict
from autotune.verify.verdict import verdict


def estimated(low: float, high: float) -> Estimate:
    return Estimate((low * high) ** 0.5, low, high, 0.01)


CASES = {
    "faster": (estimated(1.03, 1.1), Verdict.FASTER),
    "faster, at the margin": (estimated(1.02, 1.1), Verdict.CANNOT_TELL),
    "slower": (estimated(0.9, 0.97), Verdict.SLOWER),
    "slower, at the margin": (estimated(0.9, 1 / 1.02), Verdict.CANNOT_TELL),
    "no difference": (estimated(0.98, 1.03), Verdict.NO_DIFFERENCE),
    "no difference, although 1 is excluded": (estimated(1.01, 1.04), Verdict.NO_DIFFERENCE),
    "too wide below": (estimated(0.95, 1.03), Verdict.CANNOT_TELL),
    "too wide above": (estimated(0.99, 1.05), Verdict.CANNOT_TELL),
    "shows nothing": (estimated(0.5, 2.0), Verdict.CANNOT_TELL),
}


@pytest.mark.parametrize(("found", "said"), CASES.values(), ids=CASES)
def test_the_interval_decides(found: Estimate, said: Verdict) -> None:
    given, why = verdict(found, [start()] * 8)
    assert given is said
    assert bool(why) == (said is Verdict.CANNOT_TELL)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (estimated(1.01, 1.06), "the difference is not clearly above 2%, by which runs of the same files may differ"),
        (estimated(0.94, 0.99), "the difference is not clearly above 2%, by which runs of the same files may differ"),
        (estimated(0.9, 1.1), "runs of the same files differ by 1.0%, too much for this effect"),
    ],
)
def test_why_nothing_is_told_fits_the_interval_that_is_printed(found: Estimate, why: str) -> None:
    assert verdict(found, [start()] * 8) == (Verdict.CANNOT_TELL, why)


CROWDED = {"others_share": 0.5, "busy_share": 0.99}
FASTER, SLOWER, SAME = estimated(2.0, 2.1), estimated(0.4, 0.5), estimated(0.98, 1.02)


def crowded(old: float | None, new: float | None, num: int = 8):
    """Starts of sides that keep so many CPUs busy; `num` of eight are crowded."""
    sides = [(BEFORE, old), (AFTER, new)] * 4
    return [start(side, cpus=cpus, **(CROWDED if at < num else {})) for at, (side, cpus) in enumerate(sides)]


@pytest.mark.parametrize(("found", "said"), [(FASTER, Verdict.FASTER), (SLOWER, Verdict.SLOWER)])
def test_other_work_is_no_reason_where_both_sides_want_as_many_cpus(found: Estimate, said: Verdict) -> None:
    assert verdict(found, crowded(1.0, 1.05)) == (said, "")
    assert verdict(SAME, crowded(1.0, 1.05))[0] is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(
    ("found", "old", "new", "said"),
    [
        (FASTER, 1.0, 1.8, Verdict.FASTER),
        (SLOWER, 1.0, 1.8, Verdict.CANNOT_TELL),
        (SAME, 1.0, 1.8, Verdict.CANNOT_TELL),
        (FASTER, 1.8, 1.0, Verdict.CANNOT_TELL),
        (SLOWER, 1.8, 1.0, Verdict.SLOWER),
        (SAME, 1.8, 1.0, Verdict.CANNOT_TELL),
    ],
)
def test_a_side_that_wants_more_cpus_than_are_left_does_not_lose_by_that(found, old, new, said) -> None:
    told, why = verdict(found, crowded(old, new))
    assert told is said
    if said is Verdict.CANNOT_TELL:
        assert why == (
            "other work kept the CPUs busy during 8 of 8 runs, which slows the side that uses more CPUs "
            f"({old:.1f} before, {new:.1f} after)"
        )
    assert verdict(found, crowded(old, new, num=2))[1] == verdict(found, crowded(1.0, 1.0))[1]


def test_on_the_clock_of_a_cpu_other_work_takes_nothing_away() -> None:
    assert verdict(SLOWER, crowded(1.0, 1.8), Clock.CPU) == (Verdict.SLOWER, "")


def test_unknown_cpus_are_no_equal_ones() -> None:
    told, why = verdict(FASTER, crowded(1.0, None))
    assert told is Verdict.CANNOT_TELL
    assert why.endswith("during 8 of 8 runs, and the CPU demand of the sides is unknown")
    assert verdict(FASTER, crowded(1.0, None, num=2)) == (Verdict.FASTER, "")


def test_the_most_frequent_disturbance_is_named() -> None:
    sides = [(BEFORE, 1.8), (AFTER, 1.0)] * 4
    starts = [start(side, cpus=cpus, throttled_share=0.3 * (at < 2)) for at, (side, cpus) in enumerate(sides)]
    starts[2] = start(BEFORE, cpus=1.8, **CROWDED)
    told, why = verdict(FASTER, starts)
    assert told is Verdict.CANNOT_TELL
    assert why.startswith("a CPU quota throttled the script during 3 of 8 runs")


def test_sides_that_read_from_different_places_cannot_be_told() -> None:
    starts = [start(side, read_bytes=size) for side, size in ((BEFORE, 900 << 20), (AFTER, 0)) for _ in range(4)]
    told, why = verdict(estimated(2.0, 2.1), starts)
    assert (told, why) == (Verdict.CANNOT_TELL, "one side read files from disk that the other found in the page cache")
