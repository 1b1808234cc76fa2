"""The results behind the golden notes: for each verb an empty one, one in which all was skipped, and a full one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import report_cases
from fitted_builders import card, close, fitted
from hypothesis import strategies as st
from msgspec.structs import replace
from report_builders import change, evidence, finding, gain, recommendation, report, rule, run, skipped, step
from tuned_builders import OWN, TOO_LARGE, kept, tuned
from verified_builders import CHANGE, verified

from autotune.model.evidence import Location
from autotune.model.report import Coverage, Frame, HotLine, HotModule, LineTable, Rank, Report
from autotune.model.tuned import Space, UntriedFinding
from autotune.model.verified import Estimate, LossComparison, LossVerdict, Memory, Verdict
from autotune.model.window_detail import (
    Lane,
    LaneSpan,
    LengthBin,
    Lengths,
    Timeline,
    WindowDetail,
    WorkerCount,
)

DIFF = """--- a/sft.yaml
+++ b/sft.yaml
@@ -23 +23 @@
-gradient_checkpointing: true
+gradient_checkpointing: false
"""


def hot_line(file: str, line: int, function: str, share: float, phase_ms: dict[str, float], **more: Any) -> HotLine:
    return HotLine(file=file, line=line, end_line=line, function=function, share=share, phase_ms=phase_ms, **more)


def full() -> Report:
    """The mockup with its memory, its hot lines and a diff."""
    lines = LineTable(
        (
            hot_line("/home/user/project/model.py", 58, "forward", 0.41, {"forward": 800.0}, backward_ms=700.0),
            hot_line("/home/user/project/train.py", 12, "main", 0.05, {"other": 180.0}),
        ),
        (HotModule("layers.*.mlp", "MLP", 0.3),),
        0.8,
    )
    made = report_cases.outlook()
    ranks = tuple(
        Rank(number, 3620.0, own, "whole", {"data_wait": own / 10, "forward": own / 2}, wait_ms=3600.0 - own)
        for number, own in enumerate((3000.0, 3400.0))
    )
    return replace(made, diff=DIFF, step=replace(made.step, lines=lines), ranks=ranks, detail=detail())


def detail() -> WindowDetail:
    """Three steps of 10 ms in four lanes, 20 lengths, up to two workers."""
    host = [(at, at + 4.0, "data_wait", "") for at in (0.0, 10.0, 20.0)]
    host += [(at + 4.0, at + 10.0, "forward", "") for at in (0.0, 10.0, 20.0)]
    lanes = {
        "host": sorted(host),
        "device": [(5.0, 9.0, "busy", ""), (16.0, 19.0, "busy", "")],
        "your lines": [(4.0, 9.0, "line", "model.py:58 (forward)")],
        "loader worker 0": [(0.0, 9.0, "worker", "")],
    }
    made = tuple(Lane(name, tuple(LaneSpan(*span) for span in spans)) for name, spans in lanes.items())
    bins = (LengthBin(1, 10, 5), LengthBin(11, 20, 15), LengthBin(21, 30, 0))
    counts = (WorkerCount(0, 30.0, 12.0, is_now=True), WorkerCount(1, 18.0, 13.0), WorkerCount(2, 17.5, None))
    return WindowDetail(Timeline(30.0, (10.0, 20.0, 30.0), made, True), Lengths(bins, 32, 0.4), counts)


OF_A_RUN = {"command": ("train.py", "--lr", "1e-4"), "environment": "1x H100 80 GiB, 16 cores; torch 2.13.0"}


def unverifiable() -> Any:
    return verified(
        changes=(),
        verdict=Verdict.CANNOT_TELL,
        estimate=Estimate(1.0, 0.5, 2.0, 0.5),
        losses=LossComparison(LossVerdict.NOT_COMPARED, 0, "no loss was seen"),
        memory=Memory("processes", None, None),
        predicted=None,
        resume_command="autotune verify --resume train.py",
    )


NOTES: dict[str, tuple[str, Callable[[], Any]]] = {
    "diagnose_empty": (
        "diagnose",
        lambda: report(run=run("no_step", wall_s=None, overhead_share=None), step=None, machine={}, software={}),
    ),
    "diagnose_skipped": ("diagnose", report_cases.skipped_only),
    "diagnose_full": ("diagnose", full),
    "verify_empty": ("verify", unverifiable),
    "verify_full": ("verify", lambda: verified(day="2026-11-26", **OF_A_RUN)),
    "tune_empty": (
        "tune",
        lambda: kept(space=Space(()), trials=(), verified=None, stopped="there is nothing to search"),
    ),
    "fit_empty": ("fit", lambda: fitted(cards=(), why_not="train.py:7: aten::x cannot run without data", to_do="Go.")),
    "fit_full": ("fit", lambda: fitted(cards=(card(), close(), *fitted().cards[1:]), day="2026-11-26")),
    "tune_full": ("tune", lambda: tuned(price_per_hour=2.0, day="2026-11-26", **OF_A_RUN)),
}
"""Verb and result, by the name of the golden file."""

HOSTILE = (
    "</title></svg><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://evil.example/x.png) [a](javascript:alert(1)) www.evil.example",
    "```\n# heading\n| a | b |\n- [ ] box",
    "{{ 7 * 7 }}{% for x in y %}",
    "\x1b[2J\u202e::error::x",
    "&lt;script&gt; \" ' onload=",
)


def hostile_results(name: str) -> Iterator[tuple[str, Any]]:
    """Verb and result of each note beside a diagnosis; every foreign text is `name`."""
    foreign = {"command": (name,), "environment": name}
    by_hand = (replace(CHANGE, by_hand=name, old=name, new=name),)
    measured = verified(against=name, beside=name, changes=by_hand, notes=(name,), worth=name, **foreign)
    failed = replace(TOO_LARGE, error=name)
    untried = (UntriedFinding(("XX001",), name, gain(1.5, 1.2, 1.8, "measured", 30.0)),)
    searched = {"trials": (OWN, failed), "by_hand": by_hand, "beyond": untried, "side_effects": (name,), **foreign}
    yield "verify", measured
    yield "tune", tuned(verified=measured, stopped=name, **searched)
    yield "fit", fitted(command=(name,), notes=(name,))
    yield "fit", fitted(command=(name,), why_not=name, to_do=name)


ANY = st.one_of(st.sampled_from(HOSTILE), st.text(alphabet=st.characters(), max_size=60))


@st.composite
def hostile_reports(draw: st.DrawFn) -> Report:
    """A report of which every foreign text is anything."""
    of = rule("XX001", draw(ANY), gain=None)
    edit = change(draw(ANY), draw(ANY), 3, (draw(ANY), 7), spelling=draw(ANY), note=draw(ANY))
    won = gain(1.5, 1.2, 1.8, "measured", 30.0)
    with_edit = finding(of, draw(ANY), edit, advice=(draw(ANY),), gain=won)
    by_hand = finding(of, draw(ANY), advice=(draw(ANY),), location=Location(draw(ANY), 3))
    made = step(30, data_wait=20.0, other=30.0, forward=50.0)
    lines = LineTable(
        (hot_line(draw(ANY), 1, draw(ANY), 0.4, {"forward": 40.0}, callee=draw(ANY)),),
        (HotModule(draw(ANY), draw(ANY), 0.3),),
        0.8,
    )
    return replace(
        report(
            recommendation(1, with_edit, by_hand, after=won),
            recommendation(2, by_hand),
            run=run(
                error=draw(ANY),
                command=(draw(ANY), draw(ANY)),
                folder=draw(ANY),
                python_from=draw(ANY),
                planned_steps=1000,
                redirected=(draw(ANY),),
                not_isolated=(draw(ANY),),
                notes=(draw(ANY),),
            ),
            step=replace(made, other=(Frame(draw(ANY), 1, draw(ANY), 0.3),), lines=lines),
            skipped=(skipped("XX002", draw(ANY)),),
            said=Coverage((draw(ANY),), (draw(ANY),), ((draw(ANY), draw(ANY)),)),
            evidence=evidence({"run": {"memory.failing_phase": draw(ANY)}}),
            machine={"gpu_name": draw(ANY), "cpu_quota": 2},
            software={"torch": draw(ANY), "python": draw(ANY)},
        ),
        diff=draw(ANY),
        name=draw(ANY),
    )
