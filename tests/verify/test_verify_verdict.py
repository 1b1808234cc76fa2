from __future__ import annotations

import pytest
from msgspec.structs import replace
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE, Clock, Estimate, Verdict
from autotune.verify.verdict import verdict


def estimated(low: float, high: float, surely=None, is_apart: bool = True) -> Estimate:
    return Estimate((low * high) ** 0.5, low, high, surely or (low, high), 0.01, is_apart)


def in_turns(low: float, high: float, surely: tuple[float, float]) -> Estimate:
    return replace(estimated(low, high, surely, is_apart=False), in_turns=True)


CASES = {
    "faster": (estimated(1.03, 1.1), Verdict.FASTER),
    "faster, at the margin": (estimated(1.02, 1.06), Verdict.CANNOT_TELL),
    "faster, not surely": (estimated(1.04, 1.1, (1.01, 1.12)), Verdict.CANNOT_TELL),
    "faster, starts overlap": (estimated(1.03, 1.1, is_apart=False), Verdict.CANNOT_TELL),
    "slower": (estimated(0.9, 0.97), Verdict.SLOWER),
    "slower, at the margin": (estimated(0.95, 1 / 1.02), Verdict.CANNOT_TELL),
    "slower, starts overlap": (estimated(0.9, 0.97, is_apart=False), Verdict.CANNOT_TELL),
    "in turns, faster": (in_turns(1.03, 1.1, (1.01, 1.12)), Verdict.FASTER),
    "in turns, at the margin": (in_turns(1.02, 1.1, (1.01, 1.12)), Verdict.CANNOT_TELL),
    "in turns, faster, not surely": (in_turns(1.03, 1.1, (0.99, 1.12)), Verdict.CANNOT_TELL),
    "in turns, slower": (in_turns(0.9, 0.97, (0.88, 0.99)), Verdict.SLOWER),
    "in turns, slower, at the margin": (in_turns(0.9, 1 / 1.02, (0.88, 0.99)), Verdict.CANNOT_TELL),
    "in turns, slower, not surely": (in_turns(0.9, 0.97, (0.88, 1.01)), Verdict.CANNOT_TELL),
    "no difference": (estimated(0.98, 1.03), Verdict.NO_DIFFERENCE),
    "too wide below": (estimated(0.95, 1.03), Verdict.CANNOT_TELL),
    "too wide above": (estimated(0.99, 1.05), Verdict.CANNOT_TELL),
    "says nothing": (estimated(0.5, 2.0), Verdict.CANNOT_TELL),
}


@pytest.mark.parametrize(("found", "said"), CASES.values(), ids=CASES)
def test_the_interval_decides(found: Estimate, said: Verdict) -> None:
    told, why = verdict(found, [start()] * 8)
    assert told is said
    assert bool(why) == (said in (Verdict.NO_DIFFERENCE, Verdict.CANNOT_TELL))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (
            in_turns(1.03, 1.1, (0.99, 1.12)),
            "a winner needs more than 95 % confidence, and that interval is 0.99 to 1.12",
        ),
        (estimated(1.03, 1.1, is_apart=False), "the runs of both sides overlap, or a single pair decides"),
        (
            estimated(1.01, 1.06),
            "the speedup is not clearly above 2%, the difference that runs of the same files may show",
        ),
        (estimated(0.9, 1.1), "runs of the same files differ by 1.0%, too much for this effect"),
    ],
)
def test_why_nothing_is_told_fits_the_interval_that_is_printed(found: Estimate, why: str) -> None:
    said, reason = verdict(found, [start()] * 8)
    assert said is Verdict.CANNOT_TELL
    assert reason.startswith(why)


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
