from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import evidence, finding, recommendation, report, rule, run, step

from autotune.model.report import Report
from autotune.report.text import footer


def last(made: Report) -> list[str]:
    return [line.text for line in footer.lines(made, 200)]


@pytest.mark.parametrize(
    ("given", "price", "expected"),
    [
        ({}, 2.5, "Cost: 1 min 14 s, $0.05 (41 s until the first step); overhead 0.3 % (measured)"),
        ({}, None, "Cost: 1 min 14 s (41 s until the first step); overhead 0.3 % (measured)"),
        ({"overhead_share": None, "startup_s": None}, None, "Cost: 1 min 14 s; overhead not measured"),
        ({"overhead_share": None, "wall_s": None}, 2.5, "Cost: overhead not measured"),
        (
            {"overhead_share": 0.0},
            None,
            "Cost: 1 min 14 s (41 s until the first step); overhead 0.0 % (measured)",
        ),
    ],
)
def test_cost(given: dict[str, Any], price: float | None, expected: str) -> None:
    assert expected in last(report(run=run(**given), step=None, price=price))


@pytest.mark.parametrize(
    ("outcome", "given", "expected"),
    [
        ("completed", {}, "Job stopped after 35 steps. No save, push or log was seen."),
        ("completed", {"num_steps": None},
         "Job stopped after the window. No save, push or log was seen."),
        ("interrupted", {"num_steps": 1},
         "Job stopped after 1 step. No save, push or log was seen."),
        ("raised", {}, "No save, push or log was seen."),
        ("raised", {"not_isolated": ("a log",), "redirected": ("out",)},
         "Saves, pushes and logs were redirected or blocked, except for what is listed as not isolated."),
        ("raised", {"redirected": ("out",)},
         "Its saves, pushes and logs were redirected or blocked: your files are unchanged."),
        ("completed", {"kept_going": True},
         "The probe detached after the window; training goes on, and saves and logs as usual."),
    ],
)  # fmt: skip
def test_the_stop_line(outcome: str, given: dict[str, Any], expected: str) -> None:
    said = last(report(run=run(outcome, **{"warmup_steps": None, **given}), step=None))
    assert " ".join(" ".join(said).split()).endswith(expected)


def test_side_effects_and_notes_are_named() -> None:
    made = run(redirected=(".", "a", "b/c"), blocked=("wandb",), not_isolated=("c",), notes=("n",))
    assert last(report(run=made, step=None))[:4] == [
        "Note: n",
        "Redirected to scratch: files in the working folder, a, b/c",
        "Blocked: wandb",
        "Not isolated: c",
    ]


@pytest.mark.parametrize(
    ("steps", "facts", "expected"),
    [
        (30, {}, "Window: 30 steps measured, median 98.0 ms, 90th percentile 110 ms"),
        (10, {"step.noise_share": 0.031},
         "Window: 10 steps measured, median 98.0 ms, 90th percentile 110 ms; mean +-3.1 % "
         "(90 % interval)"),
        (1, {},
         "Window: 1 step measured, median 98.0 ms, 90th percentile 110 ms. Fewer than 10 steps: no gain "
         "counts as measured"),
    ],
)  # fmt: skip
def test_noise(steps: int, facts: dict[str, Any], expected: str) -> None:
    assert last(report(run=run(), step=step(steps, forward=100.0), evidence=evidence({"run": facts})))[0] == expected


@pytest.mark.parametrize(
    ("num_findings", "steps", "expected"),
    [
        (0, 30, ["autotune report last --format html"]),
        (1, 30, ["autotune explain DL001", "autotune report last --format html"]),
        (
            0,
            9,
            [
                "autotune report last --format html",
                "autotune diagnose --steps 30 -- python train.py",
            ],
        ),
    ],
)
def test_next_commands(num_findings: int, steps: int, expected: list[str]) -> None:
    found = [recommendation(1, finding(rule(), "m"))] * num_findings
    lines = footer.next_lines(report(*found, run=run(), step=step(steps, forward=1.0)), 80)
    assert [line.text[6:].split("   ")[0] for line in lines] == expected
    assert lines[0].text.startswith("Next  ")


def test_how_earlier_predictions_did_is_said_where_it_is_known() -> None:
    told = replace(report(run=run(), step=step(30, forward=1.0)), calibration="of 14 predictions 13 inside the range")
    assert "Predictions here: of 14 predictions 13 inside the range" in [line.text for line in footer.lines(told, 80)]
    silent = [line.text for line in footer.lines(replace(told, calibration=""), 80)]
    assert not any("Predictions here" in text for text in silent)


def test_what_held_the_files_is_said_with_its_limits() -> None:
    made = run(isolation="kernel", not_covered=("/mnt",), other_devices=("/nfs",), is_compared=False)
    said = " ".join(" ".join(last(report(run=made, step=None))).split())
    assert (
        "Files isolated by: the kernel (overlay mounts); not covered: /mnt; writes went to another file system, at its "
        "speed: /nfs Cost"
    ) in said
    made = run(isolation="hooks", isolation_why="no namespaces", is_compared=False)
    said = " ".join(" ".join(last(report(run=made, step=None))).split())
    assert "Files isolated by: Python hooks, because the kernel could not (no namespaces). They isolate" in said
    assert "noticed only if they change the project, among the first 50,000 files of it" in said


def test_saves_that_were_seen_are_not_said_to_have_been_none() -> None:
    made = report(run=run(), step=step(30, forward=1.0, checkpoint=0.1))
    assert footer.lines(made, 120)[-1].text == (
        "Job stopped after 35 steps. Its saves reached none of your files; no push or log was seen."
    )
