"""diagnose: from a command, or a stored run, to a Report.

1. Measure a few steps of the command.
2. Read its files, and ask the machine.
3. Store all of it beside the Recordings: `load` reports from there.
4. Build the report: evidence, findings, gains, recommendations (build_report.py).
5. Write the scripts and the patch that it proposes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import collect, machine, requirements, state
from autotune.collect import artefacts, job_parts, load_recordings, lock, progress, stale_runs
from autotune.diagnose import (
    attachments,
    construction,
    disk_facts,
    job_summaries,
    manifest,
    missing_package,
    multi_node,
    outcome,
    outlook,
    patch_diff,
    write_patch,
)
from autotune.diagnose.build_report import build_report
from autotune.diagnose.finish import finish
from autotune.diagnose.manifest import ManifestData
from autotune.diagnose.notebook_cells import cell_lines
from autotune.engine.evidence import EvidenceError
from autotune.engine.load import load_rules
from autotune.errors import AutotuneError, ScriptError, UsageError
from autotune.history import commands
from autotune.invocation import invoked
from autotune.machine.software import release
from autotune.model.evidence import Fact
from autotune.model.report import Report
from autotune.model.rule import Rule
from autotune.model.scanned import Bundle
from autotune.outlet import print_stderr
from autotune.scan.command import files_outside, project_pins, scan_command

if TYPE_CHECKING:
    from autotune.collect.allocation import Allocation

Show = Callable[[progress.Status], None]

_UNKEPT = (
    "nothing can be kept of this run outside of the project ({}): `apply` will not trust its patch. Set XDG_STATE_HOME "
    "to a folder of your own, that outlives a container"
)


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
    asked: outlook.OutlookRequest = outlook.NOTHING

    job: Path | None = None
    """The folder in which the autotunes of all nodes leave what they record; None for that of the scheduler's job."""


def diagnose(
    options: DiagnoseOptions,
    show: Show,
    *,
    cwd: Path,
    environ: Mapping[str, str] = os.environ,
    publish: Callable[[Report], None] = lambda report: None,
    there: Allocation | None = None,
) -> Report:
    """Measure a command and say what its steps are made of; `publish` gets the Report as soon as it is known.

    With `there` it is measured in that job of a scheduler, and the report is on that machine.

    With `keep_going` that is while training goes on: this returns when it has ended. Raises UsageError and BusyError
    before anything was started, ScriptError when there was nothing to measure, or when the command failed afterwards.
    """
    requirements.check()
    rules = load_rules()
    published: list[Report] = []

    def report(measured: Measurement) -> None:
        published.append(_report(measured, options, rules, cwd, environ))
        publish(published[-1])

    measured = _measure(options, show, cwd, environ, report, there)
    if not published:
        report(measured)
        return published[-1]
    if options.request.keep_going:
        collected = measured.collected
        job_summaries.complete(measured.folder, collected.wall_s - (collected.startup_s or 0.0))
    if measured.collected.exit_code:
        raise _failed_later(published[-1].run.command, measured.collected.exit_code)
    return published[-1]


def _failed_later(command: Sequence[str], exit_code: int) -> ScriptError:
    return ScriptError(
        f"it ended with exit code {exit_code}, after the report on its first steps",
        where=" ".join(command[:2]),
        to_do="Its own message is above.",
        status=exit_code,
    )


def _report(
    measured: Measurement, options: DiagnoseOptions, rules: Sequence[Rule], cwd: Path, environ: Mapping[str, str]
) -> Report:
    """Read the command's files, store all that is known, and build the report from it."""
    versions = machine.software(measured.python)
    releases = {name: version for name, text in versions.items() if (version := release(text)) is not None}
    recordings, root = measured.collected.recordings, measured.root
    argv = recordings[0].process["argv"] if recordings else ()
    bundle = scan_command(options.words, cwd=cwd, root=root, versions=releases, environ=environ, argv=argv)
    known = _manifest_data(measured, bundle, versions, options, cwd, environ)
    collect.write_manifest(measured.collected, manifest.to_json(known))
    _refuse_failed(measured, known, options, cwd, environ)
    wall_s = measured.collected.wall_s
    joined = multi_node.join(measured.folder, recordings, wall_s, root=root, named=options.job, environ=environ)
    recordings, known = joined.recordings, _of_job(known, joined)
    collect.write_manifest(measured.collected, manifest.to_json(known))
    if joined.is_part:  # `apply` and `report last` mean the report on the whole job
        part = build_report(recordings, known, rules, options.price, lambda name: str(measured.folder / name))
        job_summaries.save(part, measured.folder, wall_s)
        return part
    artefacts.mark_last(measured.folder, cwd)
    command = commands.StoredCommand(measured.folder.name, options.words, cwd, options.python)
    commands.store(measured.folder, command, known.run.command)
    report = build_report(recordings, known, rules, options.price, lambda name: str(measured.folder / name))
    attachments.write(report.evaluation.findings)
    target = construction.PatchTarget(root, measured.folder, cwd, environ)
    report = replace(report, patch=write_patch.write(report, bundle, releases, target))
    report = replace(report, diff=patch_diff.stored(measured.folder))
    report = finish(report, recordings, options.asked, root)
    job_summaries.save(report, measured.folder, wall_s)
    return report


def _of_job(known: ManifestData, joined: multi_node.JoinedJob) -> ManifestData:
    run = known.run
    notes = (*run.notes, joined.note) if joined.note else run.notes
    num = len(joined.recordings)
    return replace(known, run=replace(run, notes=notes, job=joined.folder, is_part=joined.is_part, num_processes=num))


def load(
    name: str,
    *,
    cwd: Path,
    price: float | None = None,
    asked: outlook.OutlookRequest = outlook.NOTHING,
) -> Report:
    """The Report of a stored run, of the folder of a job, or of one Recording made elsewhere; of a search it is that of
    its diagnosis.

    Raises UsageError when there is none.
    """
    path = artefacts.resolve(name, cwd)
    if diagnosed := artefacts.diagnosed_by(path):
        path = artefacts.resolve(str(path.with_name(diagnosed)), cwd)
    recordings = collect.load(path)
    if not recordings:
        raise UsageError("this run has no Recording: its script reached no step", where=str(path))
    if any(one.fit is not None for one in recordings):
        what = "this run is one of autotune fit: its steps had no data, and their times mean nothing"
        raise UsageError(what, where=str(path), to_do="Measure the script: autotune diagnose SCRIPT")
    file = job_parts.manifest_file(path) if path.is_dir() else None
    row = artefacts.read_json(file) if file is not None and file.exists() else {}
    known = manifest.from_json(row, recordings, path)
    if path.is_dir():  # of a job, more parts may have come
        known = replace(known, run=replace(known.run, num_processes=len(recordings)))
    try:
        report = build_report(recordings, known, load_rules(), price, attachments.written_scripts(path))
    except EvidenceError as error:
        raise UsageError(f"it contradicts itself: {error}", where=str(path), to_do="Diagnose again.") from error
    report = replace(report, patch=write_patch.patch_file(path), diff=patch_diff.stored(path), name=name)
    return finish(report, recordings, asked, artefacts.project_root(cwd))


class Measurement(Struct, frozen=True):
    """A run of the project at `root` that was measured, and the machine before it."""

    root: Path
    folder: Path
    collected: collect.Collected
    machine_facts: tuple[Fact, ...]
    python: str
    python_from: str
    """How the interpreter is known."""

    script: Path | None = None
    """The user's own file that was run, where one is known."""


def _measure(
    options: DiagnoseOptions,
    show: Show,
    cwd: Path,
    environ: Mapping[str, str],
    on_left: Callable[[Measurement], None],
    there: Allocation | None,
) -> Measurement:
    """The measurement; `on_left` gets it earlier where training goes on, when others may measure again."""
    python, why = machine.find_python(options.words, options.python, environ, cwd)
    command = collect.plan_command(options.words, python, cwd, environ)
    root = artefacts.command_root(cwd, command.script)
    stale_runs.remove_leftovers(root)
    with ExitStack() as alone:
        if options.lock and there is None:
            job = job_parts.shared_by(options.job, environ)
            alone.enter_context(lock.one_measurement(invoked(options.words, cwd).title, job=job))
        facts = machine.facts({}, environ=environ) if there is None else there.machine(show)
        folder = artefacts.new_run(root)

        def measured(collected: collect.Collected) -> Measurement:
            collected = multi_node.without_parts(collected, options.job)
            interpreter = outcome.interpreter(collected, python, why)
            return Measurement(root, folder, collected, facts, *interpreter, script=command.script)

        def left(collected: collect.Collected) -> None:
            alone.close()
            on_left(measured(collected))

        show(progress.Status())
        if there is not None:
            title = invoked(options.words, cwd).title
            return measured(
                there.collect(
                    options.request, command, folder, cwd=cwd, environ=environ, show=show, title=title, protected=root
                )
            )
        try:
            return measured(
                collect.collect(
                    options.request,
                    command,
                    folder,
                    cwd=cwd,
                    environ=environ,
                    show=show,
                    stdout=options.stdout,
                    protected=root,
                    on_left=left,
                )
            )
        except KeyboardInterrupt:
            if not options.request.keep_going:
                _tell_of_window(folder)
            raise


def _tell_of_window(folder: Path) -> None:
    """Say how to see the window of an interrupted run, which is written before the what-if probes."""
    with suppress(AutotuneError):
        if any(one.window is not None and one.window.step_ends_ns for one in load_recordings.load(folder)):
            print_stderr(f"autotune: the window was measured: autotune report {folder.name}")


def _manifest_data(
    measured: Measurement,
    bundle: Bundle | None,
    versions: Mapping[str, str],
    options: DiagnoseOptions,
    cwd: Path,
    environ: Mapping[str, str],
) -> ManifestData:
    """All that is known of the run beside its Recordings."""
    collected, root = measured.collected, measured.root
    facts = measured.machine_facts + machine.software_facts(versions)
    if collected.sampled is not None:
        facts += machine.sampled_facts(collected.sampled)
    run = outcome.summarise(
        collected, options.words, measured.python, measured.python_from, options.request.keep_going, cwd
    )
    beyond = files_outside(options.words, cwd=cwd, root=root, environ=environ)
    run = replace(run, cells=cell_lines(measured.script))
    notes = [f"{file} lies outside {root}: change it by hand" for file in beyond]
    notes += [_UNKEPT.format(why)] if (why := state.why_unkept(root)) else []
    run = replace(run, notes=tuple(notes))
    facts += tuple(disk_facts.storage_facts(collected.recordings, collected.effects.redirected))
    facts += tuple(disk_facts.local_disk_facts(cwd))
    static = (bundle.facts, bundle.settings) if bundle is not None else ((), ())
    return ManifestData(run, facts, versions, *static, pins=project_pins(bundle, cwd=cwd, root=root))


def _refuse_failed(
    measured: Measurement, known: ManifestData, options: DiagnoseOptions, cwd: Path, environ: Mapping[str, str]
) -> None:
    """Raises ScriptError when there is nothing to report on, with what to do about a package that is missing."""
    try:
        outcome.check(known.run, measured.collected)
    except ScriptError as error:
        error.to_do += missing_package.hint(options.words, known.run, measured.collected.raised, cwd, environ)
        raise
