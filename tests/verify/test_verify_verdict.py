from __future__ import annotations

import pytest
from verify_builders import start

from autotune.model.verified import Estimate, Verdict
from autotune.verify.verdict import is_crowded, verdict


def estimated(low: float, high: float, surely=None, is_apart: bool = True) -> Estimate:
    return Estimate((low * high) ** 0.5, low, high, surely or (low, high), 0.01, is_apart)


CASES = {
    "faster": (estimated(1.03, 1.1), Verdict.FASTER),
    "faster, at the margin": (estimated(1.02, 1.06), Verdict.CANNOT_TELL),
    "faster, not surely": (estimated(1.04, 1.1, (1.01, 1.12)), Verdict.CANNOT_TELL),
    "faster, starts overlap": (estimated(1.03, 1.1, is_apart=False), Verdict.CANNOT_TELL),
    "slower": (estimated(0.9, 0.97), Verdict.SLOWER),
    "slower, at the margin": (estimated(0.95, 1 / 1.02), Verdict.CANNOT_TELL),
    "slower, starts overlap": (estimated(0.9, 0.97, is_apart=False), Verdict.CANNOT_TELL),
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


@pytest.mark.parametrize(
    ("others", "busy", "crowded"),
    [
        (0.16, 0.91, True),
        (0.15, 0.91, False),
        (0.16, 0.9, False),
        (0.9, 0.5, False),
        (None, 1.0, False),
        (0.5, None, False),
    ],
)
def test_crowded_is_full_with_others(others, busy, crowded: bool) -> None:
    assert is_crowded(start(others_share=others, busy_share=busy)) is crowded
