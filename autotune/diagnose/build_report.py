"""From Recordings, and what is known of their machine and files, to the Report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from autotune import derive, predict
from autotune.diagnose import attachments, cpu_conflicts, notes, overlaps, rank_cpus
from autotune.diagnose.manifest import ManifestData
from autotune.engine.coverage import coverage
from autotune.engine.evaluate import decline, evaluate
from autotune.engine.evidence import join, observed_over
from autotune.engine.recommend import recommend, sort_by_gain
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Evidence, Fact, Value
from autotune.model.finding import Finding, Gain, Passed
from autotune.model.recording import Recording
from autotune.model.report import Report, StartUpPart
from autotune.model.rule import Rule
from autotune.predict import worker_curve
from autotune.predict.combine import CPUS
from autotune.predict.threads import undisturbed


def build_report(
    recordings: Sequence[Recording],
    known: ManifestData,
    rules: Sequence[Rule],
    price: float | None,
    script_path: attachments.ScriptPath,
) -> Report:
    """The Report of Recordings and their run; pure: reads nothing from this machine.

    `script_path` says where the generated script of a name is, or will be.
    """
    known = replace(known, facts=rank_cpus.of_machine(known.facts, recordings))
    evidence, derived = _evidence(recordings, known)
    is_traced = recordings[0].trace is not None
    evaluation = evaluate(rules, evidence)
    evaluation, declined = decline(evaluation, lambda finding: _gain(finding, evidence, is_traced))
    findings, conflicting = cpu_conflicts.resolve(evaluation.findings, evidence)
    findings, repeated = overlaps.without_overlaps(findings, evidence)
    passed = (*evaluation.passed, *(Passed(one.rule, one.subject, _note(one)) for one in (*conflicting, *repeated)))
    evaluation, declined = replace(evaluation, findings=findings, passed=passed), (*declined, *conflicting)
    with_attachments = [
        attachments.with_attachments(one, evidence, known.run.python, script_path, known.pins)
        for one in evaluation.findings
    ]
    recommendations = recommend(with_attachments, lambda several: _together(several, evidence))
    planned = _integer(evidence, "run.num_planned_steps")
    all_notes = (*known.run.notes, *notes.notes(evidence, recordings, declined))
    return Report(
        run=replace(known.run, planned_steps=planned, notes=all_notes),
        machine=_machine(known.facts),
        software=dict(known.versions),
        step=derived.step,
        startup=_with_launch(derived.startup, known.run.startup_s),
        evidence=evidence,
        evaluation=replace(evaluation, findings=sort_by_gain(recommendations)),
        recommendations=recommendations,
        price_per_hour=price,
        coverage=coverage(evaluation, evidence, known.run),
        ranks=derived.ranks,
        hosts=derived.hosts,
        missing_ranks=derived.missing_ranks,
        collectives=derived.collectives,
        devices=derived.devices,
        detail=replace(derived.detail, workers=worker_curve.predicted(derived.detail.workers, evidence)),
    )


def _evidence(recordings: Sequence[Recording], known: ManifestData) -> tuple[Evidence, Derived]:
    """What the Recordings, the machine and the files say together, and what the Recordings alone say."""
    values = {fact.name: fact.value for fact in known.facts}
    local = [one.process["local_world_size"] for one in recordings if one.process["local_world_size"] is not None]
    quota = values.get("machine.cpu_quota")
    per_rank = float(quota) / max(local) if isinstance(quota, int | float) and local else None
    memory = values.get("machine.memory_limit_bytes")
    counted = (fact.value for fact in known.static_facts if fact.name == "code.num_epochs")
    derived = derive.derive(
        recordings,
        cpus_per_rank=per_rank,
        memory_limit_bytes=memory if isinstance(memory, int) else None,
        code_epochs=next((epochs for epochs in counted if isinstance(epochs, int)), None),
    )
    more = [Fact("machine.cpus_per_rank", RUN, per_rank)] if per_rank is not None else []
    observed = join([*known.facts, *more, *derived.facts], derived.settings)
    evidence = observed_over(join(known.static_facts, known.static_settings), observed)
    return undisturbed(evidence), derived


LEAST_LAUNCH_S = 1.0
"""Less than that of a command before its training process begins tells of no launcher."""


def _with_launch(parts: tuple[StartUpPart, ...], startup_s: float | None) -> tuple[StartUpPart, ...]:
    """The start-up with what came before the process: the rest of `startup_s`, from the start of the command."""
    launch_s = (startup_s or 0.0) - sum(part.seconds for part in parts)
    if not parts or launch_s < LEAST_LAUNCH_S:
        return parts
    return tuple(sorted([*parts, StartUpPart("launch", launch_s)], key=lambda part: -part.seconds))


def _gain(finding: Finding, evidence: Evidence, is_traced: bool) -> Gain | None:
    """What is predicted of a finding. Where nothing but profiled steps is known it is no measurement."""
    spec = finding.rule.gain
    found = predict.predict(spec, evidence, finding.subject) if spec else None
    is_point = found is not None and found.basis != "bound"
    return replace(found, basis="profiled") if found is not None and is_traced and is_point else found


def together(findings: Sequence[Finding], report: Report) -> Gain | None:
    """What is predicted of the changes of several findings, all made."""
    return _together(findings, report.evidence)


def _together(findings: Sequence[Finding], evidence: Evidence) -> Gain | None:
    pair, shared = cpu_conflicts.together(findings, evidence)
    alone = [one for one in findings if one not in pair]
    parts = [(predict.target(one.rule.gain), one.gain) for one in alone if one.rule.gain and one.gain]
    return predict.combine([*parts, *([(CPUS, shared)] if shared else [])], evidence)


def _note(conflicting: Finding) -> str:
    return conflicting.gain.note if conflicting.gain is not None else ""


def _integer(evidence: Evidence, name: str) -> int | None:
    value = evidence.lookup(RUN, name)
    return int(value) if isinstance(value, int | float) else None


def _machine(facts: Iterable[Fact]) -> dict[str, Value]:
    return {fact.name.removeprefix("machine."): fact.value for fact in facts if fact.name.startswith("machine.")}
