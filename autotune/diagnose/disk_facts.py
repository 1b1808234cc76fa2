"""Facts of the disks of this machine: what the data and the saves lie on, the size of the data, where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from autotune import derive, machine
from autotune.collect.scratch_changes import FileChange
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Recording


def storage_facts(recordings: Sequence[Recording], changes: Sequence[FileChange]) -> Iterable[Fact]:
    """File systems of the data and of where most bytes were written, asked on the machine that made `recordings`.

    `changes` are what went to scratch.
    """
    for recording in recordings[:1]:
        subjects = derive.subjects(recording)
        paths = {subjects.get(loader["id"]): Path(loader["path"] or "") for loader in recording.loaders}
        for subject, path in paths.items():
            system = machine.file_system(path) if path.is_absolute() else None
            if subject is not None and system is not None:
                yield from data_facts(subject, path)
                yield Fact("loader.storage", subject, system.type)
                yield Fact("loader.storage_is_network", subject, system.is_network)
            if subject is not None:
                yield Fact("loader.seen_on_network", subject, system is not None and system.is_network)
    written = [(change.bytes, change.path) for change in changes if change.kind == "write"]
    system = machine.file_system(Path(max(written)[1])) if written else None
    if system is not None:
        yield Fact("checkpoint.storage_is_network", RUN, system.is_network)


def data_facts(subject: str, path: Path) -> Iterator[Fact]:
    """What is read from `path`, and its size; a whole tree is not measured: that takes long where it matters.

    `datasets` names the first of its Arrow files, and the others lie beside it.
    """
    is_arrow = path.suffix == ".arrow"
    yield Fact("loader.data_path", subject, str(path.parent if is_arrow else path))
    try:
        files = [each for each in path.parent.iterdir() if each.is_file()] if is_arrow else [path]
        sizes = [each.stat().st_size for each in files]
    except OSError:
        return
    if is_arrow or path.is_file():
        yield Fact("loader.data_bytes", subject, sum(sizes))


def local_disk_facts(cwd: Path) -> Iterator[Fact]:
    """Where there is room on this machine for what the scripts write."""
    disk, free = machine.local_disk(), machine.free_bytes(cwd)
    if disk is not None:
        yield Fact("machine.local_folder", RUN, str(disk[0]))
        yield Fact("machine.local_free_bytes", RUN, disk[1])
    if free is not None:
        yield Fact("machine.cwd_free_bytes", RUN, free)
