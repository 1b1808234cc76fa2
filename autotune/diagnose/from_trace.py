"""diagnose --trace: the report of a job that somebody else profiled, from the traces of its processes.

Nothing of the job runs, and this machine is not the job's: only what the traces and, if a command is given, its files
say is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import to_builtins
from msgspec.structs import replace

from autotune import collect, machine, requirements
from autotune.collect import artefacts
from autotune.diagnose import construction, manifest, outlook, patch_diff, write_patch
from autotune.diagnose.build_report import build_report
from autotune.diagnose.finish import finish
from autotune.diagnose.manifest import ManifestData
from autotune.engine.load import load_rules
from autotune.errors import UsageError
from autotune.history import commands
from autotune.invocation.redacted import shown
from autotune.machine.software import release
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import SCHEMA, Recording
from autotune.model.report import Report, RunSummary
from autotune.scan.command import project_pins, scan_command
from autotune.trace.formats import RECORD
from autotune.trace.read import Trace, read
from autotune.trace.recording import recording

ENDINGS = (".json", ".json.gz", ".trace.gz")
RANK = re.compile(r"rank[-_ ]?(\d{1,6})", re.IGNORECASE)


def diagnose_traces(
    paths: Sequence[Path],
    words: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    price: float | None = None,
    asked: outlook.OutlookRequest = outlook.NOTHING,
    explicit_python: str | None = None,
) -> Report:
    """What traces say of the job that they are of; a folder stands for the traces in it, each of one rank.

    `words` are the job's command, if its files are here: they say where a change belongs. Raises UsageError.
    """
    requirements.check()
    files = _files(paths)
    recordings = _recordings(files)
    python = machine.find_python(words, explicit_python, environ, cwd)[0] if words else ""
    script = collect.plan_command(words, python, cwd, environ).script if words else None
    root = artefacts.command_root(cwd, script) if words else artefacts.project_root(cwd)
    folder = artefacts.new_run(root)
    versions = machine.software(python) if words else {}
    releases = {name: version for name, text in versions.items() if (version := release(text)) is not None}
    bundle = scan_command(words, cwd=cwd, root=root, versions=releases, environ=environ) if words else None
    named = tuple(str(file) for file in files)
    run = RunSummary(
        command=shown(words, cwd, None) if words else (),
        outcome="completed",
        python=python,
        num_processes=len(recordings),
        traces=named,
        notes=tuple(_notes(recordings)),
        folder=str(folder),
    )
    static = (bundle.facts, bundle.settings) if bundle is not None else ((), ())
    known = ManifestData(run, tuple(_machine(recordings)), {}, *static, pins=project_pins(bundle, cwd=cwd, root=root))
    for one in recordings:
        row = {"schema": SCHEMA, **to_builtins(one)}
        artefacts.write_json(folder / f"recording-{one.process['rank']}.json", row)
    artefacts.write_json(folder / artefacts.MANIFEST, manifest.to_json(known))
    artefacts.mark_last(folder, cwd)
    if words:
        commands.store(folder, commands.StoredCommand(folder.name, tuple(words), cwd, None), run.command)
    report = build_report(recordings, known, load_rules(), price, lambda name: "")
    target = construction.PatchTarget(root, folder, cwd, environ)
    report = replace(report, patch=write_patch.write(report, bundle, releases, target) if words else "")
    report = replace(report, diff=patch_diff.stored(folder))
    return finish(report, recordings, asked, root)


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(file for file in path.iterdir() if file.name.endswith(ENDINGS) and file.is_file())
        if not inside:
            raise UsageError(f"no trace is in it ({', '.join(ENDINGS)})", where=str(path), to_do=RECORD)
        found += inside
    return found


def _recordings(files: Sequence[Path]) -> list[Recording]:
    """One of each file, by rank. Ranks that the traces do not tell are those of the files' names."""
    found: dict[int, Recording] = {}
    named: dict[int, Path] = {}
    for file in files:
        trace = _with_rank(read(file), len(files))
        rank = trace.rank or 0
        if rank in found:
            raise UsageError(
                f"it is of rank {rank}, as {named[rank]} is", where=str(file), to_do="Give one trace a rank."
            )
        if not trace.activities:
            raise UsageError(
                "it has no event of a GPU: only the host was recorded",
                where=str(file),
                to_do="Record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], which is the default of "
                f"torch.profiler on a machine with a GPU.\n{RECORD}",
            )
        found[rank], named[rank] = recording(trace), file
        del trace
    return [found[rank] for rank in sorted(found)]


def _with_rank(trace: Trace, count: int) -> Trace:
    if trace.rank is not None or count == 1:
        return trace
    in_name = RANK.search(Path(trace.file).name)
    if in_name is None:
        raise UsageError(
            "neither it nor its name tells its rank",
            where=trace.file,
            to_do="Of one process give one trace; of several put the rank into each name (rank0.json).",
        )
    return replace(trace, rank=int(in_name[1]), world_size=trace.world_size or count)


def _machine(recordings: Sequence[Recording]) -> Iterable[Fact]:
    """The machine of the traces, of which a trace describes the devices alone."""
    device = recordings[0].device
    total = recordings[0].memory.get("total_bytes")
    if device is not None and device["name"]:
        yield Fact("machine.gpu_name", RUN, device["name"])
    if total is not None:
        yield Fact("machine.gpu_memory_bytes", RUN, total)
    if device is not None and device["capability"]:
        yield Fact("machine.gpu_capability", RUN, tuple(int(part) for part in device["capability"].split(".")))


def _notes(recordings: Sequence[Recording]) -> Iterable[str]:
    origin = recordings[0].trace
    if origin is None:
        return
    if not origin["are_steps_marked"]:
        yield (
            "the trace marks no steps: all of it counts as one, and what is of a step is not known. "
            "Call profiler.step() after each step to mark them"
        )
    if count := origin.get("warm_up_steps", 0):
        steps = "a step is" if count == 1 else f"{count} steps are"
        yield (
            f"{steps} left out at the start: at least twice as long as those after it (compilation, cudnn.benchmark, "
            "the first batches)"
        )
    if origin.get("compiles"):
        yield "torch.compile compiled in the steps that were read: later ones are shorter. Record more warm-up steps"
    if not origin["has_stacks"]:
        yield "the trace has no stacks, so no line of yours is named: record with with_stack=True"
    world = recordings[0].process["world_size"]
    if origin["knows_rank"] and world > len(recordings):
        yield f"{len(recordings)} of {world} ranks: give the folder with the traces of all to compare them"
