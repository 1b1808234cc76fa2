"""The printed report: golden files, the sections' rules and the width that no text may break."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_builders import change, evidence, finding, gain, recommendation, report, rule, run, skipped, step
from report_cases import CASES

from autotune.model.evidence import Location
from autotune.model.report import Coverage, Frame, Report
from autotune.report import render
from autotune.report.text.layout import cells

GOLDEN = Path(__file__).parents[2] / "builders" / "golden"


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    assert render("diagnose", CASES[name](), "text") == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_colour_changes_nothing_but_the_colour(name: str) -> None:
    coloured = render("diagnose", CASES[name](), "text", colour=True)
    assert click.unstyle(coloured) == render("diagnose", CASES[name](), "text")
    assert coloured != click.unstyle(coloured)


@pytest.mark.parametrize("width", [60, 72, 80, 120])
@pytest.mark.parametrize("name", CASES)
def test_no_line_is_wider_than_asked(name: str, width: int) -> None:
    assert max(cells(line) for line in render("diagnose", CASES[name](), "text", width=width).splitlines()) <= width


ANY = st.text(alphabet=st.characters(), max_size=200)
COUNT = st.integers(min_value=1, max_value=10**9)
SECONDS = st.floats(min_value=1e-3, max_value=1e9)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    text = draw(ANY)
    of = rule("XX001", draw(ANY), gain=None)
    edit = change(draw(ANY), draw(ANY), draw(COUNT), (draw(ANY), 7), spelling=draw(ANY), note=draw(ANY))
    won = gain(1.5, 1.2, 1.8, draw(st.sampled_from(["measured", "modelled", "bound"])), draw(SECONDS))
    with_edit = finding(of, draw(ANY), edit, advice=(draw(ANY),), gain=won)
    by_hand = finding(of, text, advice=(draw(ANY),), location=Location(draw(ANY), 3))
    made = step(30, data_wait=draw(SECONDS), other=draw(SECONDS), forward=draw(SECONDS))
    return report(
        recommendation(1, with_edit, by_hand, after=won),
        recommendation(2, by_hand),
        run=run(
            draw(st.sampled_from(["completed", "raised", "out_of_memory", "killed", "no_step"])),
            error=draw(ANY),
            command=(draw(ANY), draw(ANY)),
            folder=draw(ANY),
            python_from=draw(ANY),
            planned_steps=draw(st.none() | COUNT),
            redirected=(draw(ANY),),
            not_isolated=(draw(ANY),),
            notes=(draw(ANY),),
        ),
        step=replace(made, other=(Frame(draw(ANY), 1, draw(ANY), 0.3),), steps=draw(COUNT)),
        skipped=(skipped("XX002", f"loader.{text}"), skipped("XX003", text)),
        said=Coverage((draw(ANY),), (draw(ANY),), ((draw(ANY), draw(ANY)),)),
        evidence=evidence({"run": {"memory.failing_phase": draw(ANY)}}),
        price=draw(st.none() | SECONDS),
        machine={"gpu_name": draw(ANY), "cpu_quota": draw(COUNT)},
        software={"torch": draw(ANY), "python": draw(ANY)},
    )


@settings(max_examples=60, deadline=None)
@given(reports(), st.integers(min_value=60, max_value=100))
def test_arbitrary_text_breaks_neither_width_nor_terminal(made: Report, width: int) -> None:
    text = render("diagnose", made, "text", width=width)
    assert [line for line in text.split("\n") if cells(line) > width] == []
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]", text) is None


def test_a_narrow_terminal_gets_the_least_width() -> None:
    made = CASES["raw_loop"]()
    assert render("diagnose", made, "text", width=10) == render("diagnose", made, "text", width=60)


@pytest.mark.parametrize(
    ("machine", "device", "expected"),
    [
        ({"cpu_quota": 2.0, "host_cpus": 2}, "cpu", "2 cores"),
        ({"cpu_quota": 1.0, "host_cpus": 64}, "cpu", "1 core by quota or affinity (host has 64)"),
        ({"cpu_quota": 2.5, "cpu_name": "Xeon"}, "cpu", "2.5 cores Xeon"),
        ({"gpu_name": "L4", "num_gpus": 2}, "cuda", "2x L4"),
        ({"gpu_name": "L4", "num_gpus": 1}, "cpu", "1x L4 (not used: the model is on the CPU)"),
        ({}, "cpu", "unknown"),
    ],
)
def test_machine_line(machine: dict[str, object], device: str, expected: str) -> None:
    made = report(
        run=run(),
        step=step(forward=1.0),
        evidence=evidence({"run": {"device.type": device}}),
        machine=machine,  # type: ignore[arg-type]
        software={},
    )
    found = [line for line in render("diagnose", made, "text").splitlines() if line.startswith("Machine: ")]
    assert found == [f"Machine: {expected}"]
