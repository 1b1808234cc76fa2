from __future__ import annotations

import pytest
from msgspec.structs import replace
from report_builders import evidence, report, run, step

from autotune.model.report import Step
from autotune.report import efficiency

STEP = replace(step(forward=1.0), samples_per_s=None)


def parts(facts: dict[str, float] | None = None, num_processes: int = 1, **given: float | None) -> list[str]:
    known = evidence({"run": facts or {}})
    made = report(run=run(num_processes=num_processes), step=replace(STEP, **given), evidence=known)
    return list(efficiency.parts(made))


def test_what_is_known_is_told_and_nothing_else() -> None:
    assert parts() == []
    assert parts(samples_per_s=9.2, tokens_per_s=25_300.0, useful_tokens_per_s=17_400.0) == [
        "9.2 samples/s",
        "25,300 tokens/s (17,400 without padding)",
    ]
    assert parts({"device.busy_share": 0.93}) == ["device busy 93 %"]
    assert parts({"device.busy_share": 0.93, "device.mfu_share": 0.41}) == ["device busy 93 %", "MFU 41 %"]


def test_without_padding_there_is_one_number() -> None:
    assert parts(tokens_per_s=1000.0, useful_tokens_per_s=999.0) == ["1,000 tokens/s"]


def test_of_several_processes_it_is_that_of_one() -> None:
    assert parts(num_processes=2, samples_per_s=9.2) == ["9.2 samples/s per process"]


def test_no_step_has_no_speed() -> None:
    assert list(efficiency.parts(report(run=run("no_step"), step=None))) == []


STEP_OF_A_CPU = step(data_wait=60.0, forward=10.0, backward=18.0, optimizer=2.0, checkpoint=10.0)


def alone(facts: dict[str, float | str], of: Step | None = STEP_OF_A_CPU) -> float | None:
    return efficiency.compute_ms(report(run=run(), step=of, evidence=evidence({"run": facts})))


def test_what_would_be_left_of_a_step() -> None:
    assert alone({"device.type": "cpu"}) == 30.0
    on_device = {"device.type": "cuda", "device.busy_share": 0.25}
    assert alone(on_device) == 25.0
    assert alone({**on_device, "device.communication_share": 0.05}) == pytest.approx(20.0)


@pytest.mark.parametrize("facts", [{}, {"device.type": "cuda"}])
def test_phases_of_the_host_do_not_say_what_a_device_computes(facts: dict[str, float | str]) -> None:
    assert alone(facts) is None


def test_without_a_step_or_a_phase_that_was_seen_it_is_unknown() -> None:
    assert alone({"device.type": "cpu"}, None) is None
    assert alone({"device.type": "cpu"}, step(data_wait=1.0)) is None


@pytest.mark.parametrize(("other", "expected"), [(10.0, 60.0), (11.0, None)])
def test_what_runs_in_no_phase_may_be_compute(other: float, expected: float | None) -> None:
    assert alone({"device.type": "cpu"}, step(other=other, forward=60.0, data_wait=40.0 - other)) == expected


@pytest.mark.parametrize(("compute", "is_said"), [(90.0, True), (91.0, False)])
def test_it_is_said_where_something_else_is_left(compute: float, is_said: bool) -> None:
    known = evidence({"run": {"device.type": "cpu", "step.num_micro_batches": 1.0}})
    found = list(
        efficiency.parts(report(run=run(), step=step(data_wait=100 - compute, forward=compute), evidence=known))
    )
    assert ("with compute alone 11.11 it/s" in found) == is_said
