from __future__ import annotations

from dataclasses import replace

import pytest
from verify_builders import start

from autotune.model.verified import AFTER, BEFORE, Estimate, Verdict
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


@pytest.mark.parametrize(("crowded", "said"), [(0, Verdict.FASTER), (2, Verdict.FASTER), (3, Verdict.CANNOT_TELL)])
def test_a_crowded_machine_is_no_place_to_tell(crowded: int, said: Verdict) -> None:
    starts = [start(others_share=0.5, busy_share=0.99)] * crowded + [start(others_share=0.0, busy_share=0.5)] * (
        8 - crowded
    )
    told, why = verdict(estimated(2.0, 2.1), starts)
    assert told is said
    assert why == ("other work kept the CPUs busy during 3 of 8 starts" if crowded == 3 else "")


def test_the_most_frequent_disturbance_is_named() -> None:
    quiet = [start(throttled_share=0.0)] * 5
    starts = [start(throttled_share=0.3)] * 2 + [start(others_share=0.5, busy_share=0.99)] + quiet
    told, why = verdict(estimated(2.0, 2.1), starts)
    assert (told, why) == (Verdict.CANNOT_TELL, "a CPU quota held the script back during 2 of 8 starts")


def test_sides_that_read_from_different_places_cannot_be_told() -> None:
    starts = [start(side, read_bytes=size) for side, size in ((BEFORE, 900 << 20), (AFTER, 0)) for _ in range(4)]
    told, why = verdict(estimated(2.0, 2.1), starts)
    assert (told, why) == (Verdict.CANNOT_TELL, "one side read files from the disk that the other found in memory")
