"""What a search may try: the space of the script, and a scratch copy of the files that a candidate may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from autotune.collect import artefacts
from autotune.invocation import invoked
from autotune.machine.software import release
from autotune.model.report import Report
from autotune.model.rule import Effect
from autotune.model.tuned import Space
from autotune.scan.command import scan_command
from autotune.tune.realisation import DiagnosedScript, realise, settable
from autotune.tune.space import space
from autotune.tune.trial import BaselineRun, Trials, Workspace, wanted
from autotune.verify import epoch_windows, scratch
from autotune.verify.runs import Show, fixed_hash_seed


@contextmanager
def trial_space(
    report: Report,
    words: tuple[str, ...],
    knobs: Set[str],
    allow: Set[Effect],
    show: Show,
    *,
    cwd: Path,
    environ: Mapping[str, str],
    launch: str | None = None,
    study: str = "",
) -> Iterator[Trials]:
    """What can be tried of the command `words`, whose diagnosis is `report`. The scratch copy is removed afterwards.
    `launch` and `study` as in Workspace.

    Raises UsageError when the file of a setting is outside the project.
    """
    root = artefacts.command_root(cwd, invoked(words, cwd, environ).file)
    script = _script(report, words, cwd, root)
    found = space(report.evidence, knobs, allow, partial(settable, script), report.outlook.memory)
    originals = _originals(script, found, root)
    with scratch.mirrored(root, frozenset(originals)) as mirrors:
        workspace = Workspace(
            root, cwd, fixed_hash_seed(environ), report.run.python, mirrors, originals, show, launch, words, study
        )
        yield Trials(workspace, script, found, _baseline(report))


def _script(report: Report, words: tuple[str, ...], cwd: Path, root: Path) -> DiagnosedScript:
    versions = {name: found for name, text in report.software.items() if (found := release(text)) is not None}
    bundle = scan_command(words, cwd=cwd, root=root, versions=versions)
    return DiagnosedScript(words, report.evidence, bundle, versions, cache(lambda name: Path(name).read_bytes()))


def _originals(script: DiagnosedScript, found: Space, root: Path) -> dict[Path, bytes]:
    """The files that a candidate may change, without its edits."""
    single = [
        (*found.current[:at], point, *found.current[at + 1 :])
        for at, axis in enumerate(found.axes)
        for point in range(len(axis.points))
    ]
    paths = {path for one in single for path in realise(script, wanted(found, one)).files}
    return {path: script.read(str(path)) for path in sorted(paths)}


def _baseline(report: Report) -> BaselineRun:
    step = report.step
    assert step is not None
    samples = step.samples_per_s * step.mean_ms / 1000 if step.samples_per_s else None
    length = (
        report.evidence.lookup(epoch_windows.TRAIN, f"loader.{name}") for name in ("num_batches", "batches_per_step")
    )
    return BaselineRun(step.mean_ms / 1000, report.run.startup_s or 0.0, samples, epoch_windows.steps_of(*length))
