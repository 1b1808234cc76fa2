"""One JSON object, schema 1, described by `report.schema.json` beside this file. An unknown value is null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from autotune import __version__
from autotune.model.evidence import RUN, Evidence, Setting, Value
from autotune.model.finding import Finding, Passed, Recommendation, Skipped
from autotune.model.report import (
    PHASES,
    Collective,
    DeviceProfile,
    HotFunction,
    HotLine,
    HotModule,
    Rank,
    Report,
    RunSummary,
    StartUpPart,
    Step,
)
from autotune.report import efficiency, expectation, next_commands
from autotune.report.bound import bound
from autotune.report.json.encode import SCHEMA, dumps
from autotune.report.json.findings import edit_json, finding_json, gain_json, location_json, skipped_json
from autotune.report.json.next_commands import next_json
from autotune.report.json.outlook import outlook_json

if TYPE_CHECKING:
    from autotune.report.json import documents as doc

Each = TypeVar("Each")


def render(report: Report, colour: bool, width: int) -> str:
    """The object in one line. Keys keep the order of the schema."""
    return dumps(document(report))


def document(report: Report) -> doc.ReportDocument:
    """The report as plain values."""
    run, found, step = report.run, report.evaluation, report.step
    return {
        "schema": SCHEMA,
        "tool": {"name": "autotune", "version": __version__},
        "command": list(run.command),
        "outcome": run.outcome,
        "machine": _sort_keys(report.machine),
        "software": _sort_keys(report.software),
        "settings": _settings(report.evidence),
        "verdict": _verdict(report),
        "step": _step(step, report) if step else None,
        "ranks": [_rank(each) for each in report.ranks],
        "hosts": list(report.hosts),
        "missing_ranks": list(report.missing_ranks),
        "collectives": [_collective(each) for each in report.collectives],
        "devices": [_device(each) for each in report.devices],
        "facts": _facts(report.evidence),
        "findings": [finding_json(each, step) for each in found.findings],
        "skipped": [skipped_json(each) for each in found.skipped],
        "passed": _passed_rules(found.passed, [*found.findings, *found.skipped]),
        "recommendations": [_recommendation(each, step) for each in report.recommendations],
        "run": _run(run, report.price_per_hour),
        "startup": [_startup_part(each) for each in report.startup],
        "outlook": outlook_json(report.outlook),
        "expected": [_expected(one) for one in expectation.expectations(report)],
        "overhead": {
            "share": run.overhead_share,
            "basis": None if run.overhead_share is None else "measured",
        },
        "patch": report.patch or None,
        "diff": report.diff or None,
        "next": next_json(next_commands.of_report(report)),
    }


def _key(name: str, subject: str, main: Iterable[str]) -> str:
    """The bare name for the run and for the main subject of its kind, else "name@subject"."""
    return name if subject == RUN or subject in main else f"{name}@{subject}"


def _main_subjects(evidence: Evidence) -> frozenset[str]:
    """Of each kind of subject the one that bare names mean: "#train", else "#0", else the only one."""
    subjects = {*evidence.facts, *(owner for owner, _ in evidence.settings)}
    kinds = {subject.split("#")[0] for subject in subjects}
    return frozenset(main for kind in kinds if (main := _main(kind, evidence.subjects(kind))))


def _main(kind: str, subjects: tuple[str, ...]) -> str:
    for name in (f"{kind}#train", f"{kind}#0"):
        if name in subjects:
            return name
    return subjects[0] if len(subjects) == 1 else ""


def _facts(evidence: Evidence) -> dict[str, Value | None]:
    main = _main_subjects(evidence)
    return _sort_keys(
        {_key(name, owner, main): value for owner, facts in evidence.facts.items() for name, value in facts.items()}
    )


def _settings(evidence: Evidence) -> dict[str, doc.SettingValue]:
    main = _main_subjects(evidence)
    return _sort_keys({_key(name, owner, main): _setting(each) for (owner, name), each in evidence.settings.items()})


def _setting(setting: Setting) -> doc.SettingValue:
    return {
        "value": setting.value,
        "origin": setting.origin,
        "location": location_json(setting.location),
        "trusted": setting.trusted,
    }


def _verdict(report: Report) -> doc.Bound | None:
    """What takes the largest part of a step, and the rule whose change saves most; a question saves nothing."""
    if report.step is None:
        return None
    name, share = bound(report, report.step)
    claims = (finding.rule.id for finding in report.evaluation.findings if not finding.rule.is_question)
    first = next(claims, None)
    line = report.step.lines.hottest if report.step.lines is not None else None
    hottest: doc.HottestLine | None = (
        {"file": line.file, "line": line.line, "share": line.share, "repeated_by": _repeated(line)}
        if line is not None
        else None
    )
    function = report.step.lines.function if report.step.lines is not None else None
    return {
        "bound": name,
        "share": share,
        "first": first,
        "hottest": hottest,
        "function": _function(function) if function is not None else None,
    }


def _function(function: HotFunction) -> doc.HottestFunction:
    return {"file": function.file, "line": function.line, "function": function.function, "share": function.share}


def _step(step: Step, report: Report) -> doc.Step:
    breakdown: Any = {phase: step.breakdown_ms.get(phase) for phase in PHASES}
    return {
        "mean_ms": step.mean_ms,
        "median_ms": step.median_ms,
        "p90_ms": step.p90_ms,
        "steps": step.steps,
        "throughput": {
            "samples_per_s": step.samples_per_s,
            "tokens_per_s": step.tokens_per_s,
            "useful_tokens_per_s": step.useful_tokens_per_s,
        },
        "compute_ms": efficiency.compute_ms(report),
        "breakdown_ms": breakdown,
        "lines": None if step.lines is None else [_line(line) for line in step.lines.lines],
        "modules": None if step.lines is None else [_module(module) for module in step.lines.modules],
        "known_share": None if step.lines is None else step.lines.known_share,
        "operations": None if step.lines is None else step.lines.ops,
        "operation_us": None if step.lines is None else step.lines.op_us,
    }


def _line(line: HotLine) -> doc.HotLine:
    return {
        "file": line.file,
        "line": line.line,
        "end_line": line.end_line,
        "function": line.function,
        "share": line.share,
        "phase_ms": dict(line.phase_ms),
        "backward_ms": line.backward_ms,
        "device_ms": line.device_ms,
        "runs": line.runs,
        "operations": line.ops,
        "operation_us": line.op_us,
        "torch_share": line.torch_share,
        "float64_share": line.double_share,
        "cpu_share": line.cpu_share,
        "most": [{"name": name, "share": share} for name, share in line.operations],
        "callee": line.callee or None,
        "modules": list(line.modules),
        "callers": [{"file": one.file, "line": one.line, "share": one.share} for one in line.callers],
        "repeated_by": _repeated(line),
    }


def _repeated(line: HotLine) -> doc.RepeatedCall | None:
    by = line.repeated_by
    return None if by is None else {"file": by.file, "line": by.line, "runs": by.runs}


def _module(module: HotModule) -> doc.HotModule:
    return {"name": module.name, "type": module.type, "share": module.share}


def _rank(rank: Rank) -> doc.Rank:
    late = rank.late
    return {
        "rank": rank.rank,
        "step_ms": rank.step_ms,
        "own_ms": rank.own_ms,
        "own_is": rank.own_is,
        "phases_ms": dict(rank.phases_ms),
        "wait_ms": rank.wait_ms,
        "collective_ms": rank.collective_ms,
        "averaging_ms": rank.averaging_ms,
        "batch_tokens": rank.batch_tokens,
        "batch_useful_tokens": rank.batch_useful_tokens,
        "late": {"ms": late.ms, "phase": late.phase, "line": late.line or None} if late else None,
        "host": rank.host or None,
    }


def _collective(row: Collective) -> doc.Collective:
    return {
        "name": row.name,
        "file": row.file,
        "line": row.line,
        "function": row.function,
        "calls_per_step": row.calls,
        "ms": row.ms,
        "wait_ms": row.wait_ms,
    }


def _passed_rules(passed: Iterable[Passed], others: Iterable[Finding | Skipped]) -> list[str]:
    """Rules that had nothing to say about any of their subjects."""
    return sorted({each.rule.id for each in passed} - {each.rule.id for each in others})


def _recommendation(recommendation: Recommendation, step: Step | None) -> doc.Recommendation:
    return {
        "number": recommendation.number,
        "rules": list(dict.fromkeys(each.rule.id for each in recommendation.findings)),
        "effect": recommendation.effect,
        "changes": [edit_json(each) for each in recommendation.changes],
        "advice": list(dict.fromkeys(text for each in recommendation.findings for text in each.advice)),
        "gain": gain_json(recommendation.gain, step),
        "after": gain_json(recommendation.after, step),
    }


def _expected(one: expectation.Expectation) -> doc.ExpectedStep:
    return {
        "numbers": list(one.numbers),
        "now_ms": one.now_ms,
        "expected_ms": one.expected_ms,
        "low_ms": one.low_ms,
        "high_ms": one.high_ms,
        "basis": one.basis,
        "limit_ms": one.limit_ms,
        "why_not": one.why_not or None,
        "after_steps": expectation.STEPS,
        "text": expectation.sentence(one),
    }


def _device(device: DeviceProfile) -> doc.DeviceProfile:
    return {
        "rank": device.rank,
        "steps": device.steps,
        "step_ms": device.step_ms,
        "busy_share": device.busy_share,
        "communication_share": device.communication_share,
        "exposed_share": device.exposed_share,
        "collectives": [{"kind": one.kind, "exposed_share": one.exposed_share} for one in device.collectives],
        "kernels_per_step": device.kernels_per_step,
        "mean_kernel_us": device.mean_kernel_us,
        "streams": device.streams,
        "idle": [
            {"kind": one.kind, "share": one.share, "name": one.name or None, "place": one.place or None}  # type: ignore[typeddict-item]
            for one in device.idle
        ],
        "kernels": [
            {"kind": one.kind, "share": one.share, "per_step": one.per_step, "example": one.example}
            for one in device.kernels
        ],
        "copies": [{"kind": one.kind, "per_step": one.per_step, "ms": one.ms} for one in device.copies],
        "syncs": [
            {
                "name": one.name,
                "operator": one.operator or None,
                "place": one.place or None,
                "per_step": one.per_step,
                "ms": one.ms,
            }
            for one in device.syncs
        ],
    }


def _run(run: RunSummary, price_per_hour: float | None) -> doc.Run:
    return {
        "folder": run.folder,
        "python": run.python or None,
        "python_from": run.python_from or None,
        "wall_s": run.wall_s,
        "startup_s": run.startup_s,
        "warmup_steps": run.warmup_steps,
        "num_steps": run.num_steps,
        "planned_steps": run.planned_steps,
        "num_processes": run.num_processes,
        "kept_going": run.kept_going,
        "error": run.error or None,
        "redirected": list(run.redirected),
        "blocked": list(run.blocked),
        "not_isolated": list(run.not_isolated),
        "isolation": run.isolation or None,
        "isolation_why": run.isolation_why or None,
        "escaped": list(run.escaped),
        "not_covered": list(run.not_covered),
        "other_devices": list(run.other_devices),
        "is_compared": run.is_compared,
        "ended": list(run.ended),
        "traces": list(run.traces),
        "job": run.job or None,
        "is_part": run.is_part,
        "notes": list(run.notes),
        "price_per_hour": price_per_hour,
    }


def _startup_part(part: StartUpPart) -> doc.StartUpPart:
    return {
        "cause": part.cause,
        "seconds": part.seconds,
        "cpu_s": part.cpu_s,
        "package": part.of or None,
        "place": {"file": part.file, "line": part.line} if part.file else None,
        "function": part.function or None,
        "within": [{"what": name, "seconds": seconds} for name, seconds in part.within],
        "num_processes": part.num_processes,
        "reads_cache": part.reads_cache,
    }


def _sort_keys(values: Mapping[str, Each]) -> dict[str, Each]:
    return {name: values[name] for name in sorted(values)}
