"""autotune trace: a stored run in, a Chrome trace of its window out."""

from __future__ import annotations

import gzip
from pathlib import Path

import click

from autotune import collect
from autotune.cli import options
from autotune.cli.output import show
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.outlet import print_stderr
from autotune.report.waiting import waiting
from autotune.trace.write import dumps

NAME = "trace.json.gz"


@click.command()
@click.argument("run", metavar="[RUN_OR_RECORDING]", default="last")
@click.option("-o", "--output", type=options.FILE, help=f"Write it to this file (default: {NAME} in the run's folder).")
def command(run: str, output: Path | None) -> None:
    """Write the window of a diagnosis as a trace that ui.perfetto.dev opens.

    It has the steps and phases of each rank, the batches of loader workers, and the device's streams where the device
    was profiled.
    """
    path = artefacts.resolve(run, Path.cwd())
    file = output or (path if path.is_dir() else path.parent) / NAME
    with waiting(f"writing {file}"):
        recordings = collect.load(path)
        if not recordings:
            raise UsageError("this run has no Recording: its script reached no step", where=str(path))
        data = dumps(recordings)
        try:
            file.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=str(file)) from error
    show(f"{file}\n")
    print_stderr("autotune: open it at https://ui.perfetto.dev (the file stays on your machine)")
