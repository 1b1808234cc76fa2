"""Small builders of reports: what a test does not say is plausible, what it says is exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autotune.engine.coverage import coverage
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence, Location, Setting, Value
from autotune.model.finding import Evaluation, Finding, Gain, Passed, Recommendation, SettingChange, Skipped
from autotune.model.report import PHASES, Coverage, Report, RunSummary, Step
from autotune.model.rule import Effect, GainSpec, Rule, Severity

TRAIN = "loader#train"


def rule(rule_id: str = "DL001", name: str = "batches-in-the-main-process", **given: Any) -> Rule:
    fields: dict[str, Any] = {
        "summary": "",
        "since": "0.1.0",
        "status": "stable",
        "severity": Severity.HIGH,
        "confidence": "high",
        "subject": "run",
        "when": "step.mean_ms > 0",
        "message": "",
        "why": "",
        "references": (),
        "limits": {},
        "fixes": (),
        "gain": None,
        "examples": (),
        "file": f"rules/{rule_id[:2]}/{rule_id}.toml",
    }
    return Rule(id=rule_id, name=name, **{**fields, **given})


def gain_from(fact: str) -> GainSpec:
    return GainSpec("share_removed", {"share": fact})


def gain(speedup: float, low: float, high: float, basis: str = "measured", saved_s: float | None = None) -> Gain:
    return Gain(speedup, low, high, basis, saved_s)  # type: ignore[arg-type]


def change(
    setting: str,
    old: Value | None,
    new: Value,
    where: tuple[str, int] | None = None,
    *,
    effect: Effect = Effect.EQUIVALENT,
    spelling: str = "",
    note: str = "",
) -> SettingChange:
    location = Location(*where) if where else None
    return SettingChange(setting, old, new, effect, location, spelling, note)


def finding(
    of: Rule,
    message: str,
    *changes: SettingChange,
    subject: str = RUN,
    advice: tuple[str, ...] = (),
    location: Location | None = None,
    gain: Gain | None = None,
) -> Finding:
    return Finding(of, subject, message, changes, advice, location, gain)


def recommendation(number: int, *findings: Finding, after: Gain | None = None) -> Recommendation:
    changes = tuple(change for each in findings for change in each.changes)
    effect = max((each.effect for each in changes), key=lambda effect: effect.rank, default=Effect.MANUAL)
    return Recommendation(number, findings, changes, effect, findings[0].gain, after)


def step(steps: int = 30, **phases: float | None) -> Step:
    """A step whose phases have the times given, in ms; the phases that are not named were not observed."""
    breakdown = {phase: phases.get(phase) for phase in PHASES}
    mean = sum(ms for ms in breakdown.values() if ms is not None)
    return Step(steps, mean, mean * 0.98, mean * 1.1, breakdown, samples_per_s=9.2, run_ms=mean)


def run(outcome: str = "completed", **given: Any) -> RunSummary:
    fields: dict[str, Any] = {
        "folder": "/home/user/project/.autotune/runs/20260101-120000",
        "command": ("python", "train.py"),
        "python_from": "active environment",
        "wall_s": 74.0,
        "startup_s": 41.0,
        "warmup_steps": 5,
        "num_steps": 35,
        "num_processes": 1,
        "overhead_share": 0.003,
    }
    return RunSummary(outcome=outcome, **{**fields, **given})


def evidence(facts: Mapping[str, Mapping[str, Value]] | None = None, settings: Iterable[Setting] = ()) -> Evidence:
    return Evidence(facts or {}, {(each.subject, each.name): each for each in settings})


def passed(*ids: str, subject: str = RUN) -> tuple[Passed, ...]:
    """The shipped rules passed: what they say of it stands in their files."""
    shipped = {each.id: each for each in load_rules()}
    return tuple(Passed(shipped[each], subject) for each in ids)


def skipped(rule_id: str, *needs: str, subject: str = RUN) -> Skipped:
    return Skipped(rule(rule_id), subject, needs)


def report(
    *recommendations: Recommendation,
    run: RunSummary,
    step: Step | None,
    evidence: Evidence | None = None,
    skipped: tuple[Skipped, ...] = (),
    passed: tuple[Passed, ...] = (),
    price: float | None = None,
    machine: Mapping[str, Value] | None = None,
    software: Mapping[str, str] | None = None,
    said: Coverage | None = None,
) -> Report:
    """The report; what it says beside its findings (`said`) comes from the rules where it is not given."""
    findings = tuple(finding for each in recommendations for finding in each.findings)
    evaluation, known = Evaluation(findings, skipped, passed), evidence or Evidence()
    return Report(
        run=run,
        machine=machine if machine is not None else {"cpu_quota": 2.0, "host_cpus": 2, "cpu_name": "Xeon 8481C"},
        software=software if software is not None else {"python": "3.11.9", "torch": "2.13.0+cpu"},
        step=step,
        evidence=known,
        evaluation=evaluation,
        recommendations=recommendations,
        price_per_hour=price,
        coverage=coverage(evaluation, known, run) if said is None else said,
    )
