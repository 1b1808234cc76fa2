"""diagnose: from a command, or a stored run, to a Report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import collect, derive, machine, predict
from autotune.collect import artefacts, lock, progress, stale_runs
from autotune.collect.scratch_changes import FileChange
from autotune.diagnose import (
    attachments,
    command_history,
    cpu_conflicts,
    manifest,
    missing_package,
    outcome,
    outlook,
    prediction_history,
    requirements,
    write_patch,
)
from autotune.diagnose.manifest import ManifestData
from autotune.engine.coverage import coverage
from autotune.engine.evaluate import decline, evaluate
from autotune.engine.evidence import EvidenceError, join, observed_over
from autotune.engine.load import load_rules
from autotune.engine.recommend import ranked, recommend, sort_by_gain
from autotune.errors import ScriptError, UsageError
from autotune.invocation import invoked
from autotune.machine.software import release
from autotune.model.evidence import RUN, Evidence, Fact, Value
from autotune.model.finding import Finding, Gain, Passed
from autotune.model.recording import Recording
from autotune.model.report import Report, Step
from autotune.model.rule import Rule
from autotune.predict.combine import CPUS
from autotune.predict.threads import undisturbed
from autotune.scan.command import outside, pins, scan_command

Show = Callable[[progress.Status], None]


class DiagnoseOptions(Struct, frozen=True):
    """What the user asked for. `words` are the script and its arguments, or a whole command.

    `price` is USD per hour or None; `stdout` a file descriptor for the script's output, None for ours;
    `asked` what the report should say beside.
    """

    words: tuple[str, ...]
    request: collect.Request = field(default_factory=collect.Request)
    python: str | None = None
    price: float | None = None
    lock: bool = True
    stdout: int | None = None
    rules: Path | None = None
    asked: outlook.OutlookRequest = outlook.NOTHING


def diagnose(options: DiagnoseOptions, show: Show, *, cwd: Path, environ: Mapping[str, str] = os.environ) -> Report:
    """Measure a command and say what its steps are made of.

    Raises UsageError and BusyError before anything was started, ScriptError when there was nothing to measure.
    """
    requirements.check()
    rules = load_rules(options.rules)
    python, why = machine.find_python(options.words, options.python, environ, cwd)
    command = collect.plan_command(options.words, python, cwd, environ)
    root = artefacts.command_root(cwd, command.script)
    stale_runs.remove_leftovers(root)
    with lock.one_measurement(invoked(options.words, cwd).title) if options.lock else nullcontext():
        facts = machine.facts({}, environ=environ)
        folder = artefacts.new_run(root)
        show(progress.Status())
        collected = collect.collect(
            options.request, command, folder, cwd=cwd, environ=environ, show=show, stdout=options.stdout, protected=root
        )
    python, why = outcome.interpreter(collected, python, why)
    versions = machine.software(python)
    releases = {name: version for name, text in versions.items() if (version := release(text)) is not None}
    argv = collected.recordings[0].process["argv"] if collected.recordings else ()
    bundle = scan_command(options.words, cwd=cwd, root=root, versions=releases, environ=environ, argv=argv)
    facts += machine.software_facts(versions)
    if collected.sampled is not None:
        facts += machine.sampled_facts(collected.sampled)
    run = outcome.summarise(collected, options.words, python, why, options.request.keep_going, cwd)
    beyond = outside(options.words, cwd=cwd, root=root, environ=environ)
    run = replace(run, notes=tuple(f"{file} lies outside {root}: change it by hand" for file in beyond))
    facts += (*storage(collected.recordings, collected.effects.redirected), *attachments.facts(cwd))
    static = (bundle.facts, bundle.settings) if bundle is not None else ((), ())
    known = ManifestData(run, facts, versions, *static, pins=pins(bundle, cwd=cwd, root=root))
    collect.write_manifest(collected, manifest.stored(known))
    try:
        outcome.check(run, collected)
    except ScriptError as error:
        error.to_do += missing_package.hint(options.words, run, collected.raised, cwd, environ)
        raise
    artefacts.mark_last(folder, cwd)
    command_history.store(
        folder, command_history.StoredCommand(folder.name, options.words, cwd, options.python), run.command
    )
    report = build(collected.recordings, known, rules, options.price, lambda name: str(folder / name))
    attachments.write(report.evaluation.findings)
    patch = write_patch.write(report, bundle, releases, write_patch.PatchTarget(root, folder, cwd, environ))
    report = replace(report, patch=patch, calibration=str(prediction_history.calibration(root) or ""))
    return _finished(report, collected.recordings, options.asked)


def load(
    name: str,
    *,
    cwd: Path,
    price: float | None = None,
    rules: Path | None = None,
    asked: outlook.OutlookRequest = outlook.NOTHING,
) -> Report:
    """The Report of a stored run, or of one Recording made elsewhere; of a search it is that of its diagnosis.

    Raises UsageError when there is none.
    """
    path = artefacts.resolve(name, cwd)
    if diagnosed := artefacts.diagnosed_by(path):
        path = artefacts.resolve(str(path.with_name(diagnosed)), cwd)
    recordings = collect.load(path)
    if not recordings:
        raise UsageError("this run has no Recording: its script reached no step", where=str(path))
    file = path / artefacts.MANIFEST if path.is_dir() else None
    row = artefacts.read_json(file) if file is not None and file.exists() else {}
    known = manifest.restored(row, recordings, path)
    try:
        report = build(recordings, known, load_rules(rules), price, attachments.disk_facts(path))
    except EvidenceError as error:
        raise UsageError(f"it contradicts itself: {error}", where=str(path), to_do="Diagnose again.") from error
    told = prediction_history.calibration(artefacts.project_root(cwd))
    report = replace(report, patch=write_patch.written(path), name=name, calibration=str(told or ""))
    return _finished(report, recordings, asked)


def build(
    recordings: Sequence[Recording],
    known: ManifestData,
    rules: Sequence[Rule],
    price: float | None,
    place: attachments.Place,
) -> Report:
    """The Report of Recordings and their run; pure: reads nothing from this machine.

    `place` says where the generated script of a name is, or will be.
    """
    evidence, step = _known(recordings, known)
    evaluation = evaluate(rules, evidence)
    evaluation, declined = decline(evaluation, lambda finding: _gain(finding, evidence))
    settled, left_out = cpu_conflicts.settled(evaluation.findings, evidence)
    passed = (*evaluation.passed, *(Passed(one.rule, one.subject, _note(one)) for one in left_out))
    evaluation, declined = replace(evaluation, findings=settled, passed=passed), (*declined, *left_out)
    findings = [
        attachments.with_attachments(one, evidence, known.run.python, place, known.pins) for one in evaluation.findings
    ]
    recommendations = recommend(findings, lambda several: _together(several, evidence))
    planned = _integer(evidence, "run.num_planned_steps")
    notes = (*known.run.notes, *outcome.notes(evidence, recordings, declined))
    return Report(
        run=replace(known.run, planned_steps=planned, notes=notes),
        machine=_part({fact.name: fact.value for fact in known.facts}, "machine"),
        software=dict(known.versions),
        step=step,
        evidence=evidence,
        evaluation=replace(evaluation, findings=sort_by_gain(recommendations)),
        recommendations=recommendations,
        price_per_hour=price,
        coverage=coverage(evaluation, evidence, known.run),
    )


def _finished(report: Report, recordings: Sequence[Recording], asked: outlook.OutlookRequest) -> Report:
    """The report once its patch is there: what that cannot write is the reader's to decide on, and the outlook counts
    on what it can."""
    report = write_patch.locate_edits(report)
    recommendations = ranked(report.recommendations, lambda several: together(several, report))
    report = replace(report, recommendations=recommendations)
    return replace(report, outlook=outlook.outlook(report, recordings, asked))


def _known(recordings: Sequence[Recording], known: ManifestData) -> tuple[Evidence, Step | None]:
    """What the Recordings, the machine and the files say together, and the step of the window."""
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
    return undisturbed(evidence), derived.step


def _note(left_out: Finding) -> str:
    return left_out.gain.note if left_out.gain is not None else ""


def _gain(finding: Finding, evidence: Evidence) -> Gain | None:
    spec = finding.rule.gain
    return predict.predict(spec, evidence, finding.subject) if spec else None


def together(findings: Sequence[Finding], report: Report) -> Gain | None:
    """What is predicted of the changes of several findings, all made."""
    return _together(findings, report.evidence)


def _together(findings: Sequence[Finding], evidence: Evidence) -> Gain | None:
    pair, shared = cpu_conflicts.together(findings, evidence)
    alone = [one for one in findings if one not in pair]
    parts = [(predict.target(one.rule.gain), one.gain) for one in alone if one.rule.gain and one.gain]
    return predict.combine([*parts, *([(CPUS, shared)] if shared else [])], evidence)


def storage(recordings: Sequence[Recording], changes: Sequence[FileChange]) -> Iterable[Fact]:
    """File systems of the data and of where most bytes were written, asked on the machine that made `recordings`.

    `changes` are what went to scratch.
    """
    for recording in recordings[:1]:
        subjects = derive.subjects(recording)
        paths = {subjects.get(loader["id"]): Path(loader["path"] or "") for loader in recording.loaders}
        for subject, path in paths.items():
            system = machine.file_system(path) if path.is_absolute() else None
            if subject is not None and system is not None:
                yield from attachments.data_facts(subject, path)
                yield Fact("loader.storage", subject, system.type)
                yield Fact("loader.storage_is_network", subject, system.is_network)
            if subject is not None:
                yield Fact("loader.seen_on_network", subject, system is not None and system.is_network)
    written = [(change.bytes, change.path) for change in changes if change.kind == "write"]
    system = machine.file_system(Path(max(written)[1])) if written else None
    if system is not None:
        yield Fact("checkpoint.storage_is_network", RUN, system.is_network)


def _integer(evidence: Evidence, name: str) -> int | None:
    value = evidence.lookup(RUN, name)
    return int(value) if isinstance(value, int | float) else None


def _part(values: Mapping[str, Value], prefix: str) -> dict[str, Value]:
    return {name.removeprefix(prefix + "."): value for name, value in values.items() if name.startswith(prefix)}
