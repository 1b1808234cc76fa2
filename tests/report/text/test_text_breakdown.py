from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_builders import evidence, finding, gain, gain_from, recommendation, report, rule, run, step

from autotune.model.evidence import Value
from autotune.model.report import PHASES, Frame, Report, Step
from autotune.model.rule import GainSpec
from autotune.report.text import breakdown


def shown(made: Report) -> list[str]:
    return [line.text for line in breakdown.lines(made, 80)]


def of(step: Step, **facts: Value) -> Report:
    return report(run=run(), step=step, evidence=evidence({"run": {k.replace("__", "."): v for k, v in facts.items()}}))


@given(st.lists(st.floats(min_value=0.0, max_value=1e6), min_size=len(PHASES), max_size=len(PHASES)))
def test_the_parts_sum_to_the_whole(times: list[float]) -> None:
    if sum(times) < 1e-3:
        times = [1.0, *times[1:]]
    lines = shown(of(step(**dict(zip(PHASES, times, strict=True)))))[1:]  # type: ignore[arg-type]
    bars = [float(each) for line in lines for each in re.findall(r"(\d+\.\d) %  .*#", line)]
    small = " ".join(line for line in lines if "#" not in line).split("none in the window")[0]
    folded = [float(each) for each in re.findall(r"\d\.\d", small)]
    assert sum(bars) + sum(folded) == pytest.approx(100.0, abs=0.6)


@pytest.mark.parametrize(
    ("phases", "facts", "expected"),
    [
        ({"forward": 90.0, "checkpoint": 10.0}, {"run__framework": "trl"},
         "11.11 it/s in your bar, plus saves"),
        ({"forward": 90.0, "evaluation": 5.0, "checkpoint": 5.0}, {"run__framework": "hf_trainer"},
         "11.11 it/s in your bar, plus saves and evaluation"),
        ({"forward": 2000.0}, {"step__num_micro_batches": 1.0}, "2.00 s/it"),
        ({"forward": 2000.0}, {"run__framework": "lightning", "step__num_micro_batches": 4.0},
         "2.00 s per optimizer step"),
        ({"forward": 2000.0}, {}, "2.00 s per optimizer step"),
    ],
    ids=["trl", "both", "raw", "accumulation", "unknown"],
)  # fmt: skip
def test_the_readers_own_rate(phases: dict[str, float], facts: dict[str, Value], expected: str) -> None:
    made = of(step(**phases), **facts)  # type: ignore[arg-type]
    assert breakdown.reader_rate(made, made.step) == expected  # type: ignore[arg-type]


def test_unobserved_and_unused_phases_are_told_apart() -> None:
    assert shown(of(step(forward=50.0, backward=50.0, checkpoint=0.0)))[-2:] == [
        "  none in the window: checkpoint; not observed: data wait, copy to device,",
        "  recompute, optimizer, evaluation, logging, other",
    ]


@pytest.mark.parametrize(("other", "frames"), [(4.9, 0), (5.0, 3)])
def test_frames_of_unknown_time(other: float, frames: int) -> None:
    places = tuple(Frame(f"f{index}.py", index, "f", 0.01 * index) for index in range(1, 6))
    made = of(replace(step(forward=100.0 - other, other=other), other=places))
    assert [line.split()[-1] for line in shown(made) if ".py:" in line] == ["f5.py:5", "f4.py:4", "f3.py:3"][:frames]


@pytest.mark.parametrize(
    ("busy", "cpus", "said"), [(1.04, 8, "f.py:3 (1.0 of 8 CPUs)"), (None, 8, "f.py:3"), (1.0, 1, "f.py:3")]
)
def test_a_frame_says_how_many_cpus_are_busy(busy: float | None, cpus: int, said: str) -> None:
    filled = replace(step(forward=50.0, other=50.0), other=(Frame("f.py", 3, "f", 0.5, busy),))
    made = of(filled, machine__cpus_per_rank=cpus)
    assert next(line for line in shown(made) if "f.py" in line).endswith(f"f, {said}")


def test_a_bar_names_the_recommendations_that_shrink_it() -> None:
    made = report(
        recommendation(1, finding(rule(gain=gain_from("loader.wait_share")), "m")),
        recommendation(2, finding(rule(gain=gain_from("step.data_wait_share")), "m")),
        recommendation(3, finding(rule(), "m")),
        run=run(),
        step=step(data_wait=50.0, forward=50.0),
    )
    assert [line.split("#")[-1] for line in shown(made)[1:3]] == ["  <- 1, 2", ""]


def test_a_bar_names_no_recommendation_that_saves_nothing_more() -> None:
    """Workers take the wait away, and what was repeated for every batch is then not waited for."""
    workers, repeated = rule(gain=GainSpec("workers", {})), rule("DL006", gain=gain_from("loader.input_share"))
    won, nothing = gain(2.0, 1.8, 2.1), gain(1.0, 1.0, 1.0, "bound")
    made = report(
        recommendation(1, finding(workers, "m", gain=won), after=won),
        recommendation(2, finding(repeated, "m", gain=gain(2.0, 1.0, 2.0, "bound")), after=nothing),
        run=run(),
        step=step(data_wait=50.0, forward=50.0),
    )
    assert [line.split("#")[-1] for line in shown(made)[1:3]] == ["  <- 1", ""]


@pytest.mark.parametrize(("share", "is_bar"), [(0.0199, False), (0.02, True)])
def test_small_phases_are_folded(share: float, is_bar: bool) -> None:
    lines = shown(of(step(forward=1000.0 * (1 - share), logging=1000.0 * share)))
    assert any("#" in line and "logging" in line for line in lines) is is_bar
    assert any(line == f"  logging {share * 100:.1f} %" for line in lines) is not is_bar
