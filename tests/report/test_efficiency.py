from __future__ import annotations

from msgspec.structs import replace
from report_builders import evidence, report, run, step

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
