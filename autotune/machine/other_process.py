"""A process that somebody else started, and all below it, read from /proc: nothing is asked of it, and nothing stops.

Formats: proc_pid_stat(5), proc_pid_status(5), proc_pid_io(5), and schedstat in the kernel's scheduler/sched-stats.
What another user's process hides is None. `root` replaces "/" so that tests can read a fake tree.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from autotune.machine import proc_files
from autotune.machine.limits import cpu_list

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_CPYTHON = re.compile(r"python(3(\.\d+)?)?[dt]*")
_VERSIONED = re.compile(r"python(3)\.(\d{1,2})(?![\d.])")
_MOST_ARGUMENTS = 65_536
_OF_KERNEL = 0x00200000
"""PF_KTHREAD of the flags in proc_pid_stat(5)."""

WORKER = "pt_data_worker"
"""The name that torch (2.6 and later) gives to a DataLoader's worker and its threads."""

_SPAWNED, _SERVER = "multiprocessing.spawn", "multiprocessing.forkserver"
_TRACKER = "multiprocessing.resource_tracker"
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class ThreadReading(Struct, frozen=True):
    """One thread at one moment: its state (R, S, D ...), CPU seconds so far, seconds for which it was ready and had no
    CPU (None where the kernel does not count), and where in the kernel it sleeps ("" where that is not told)."""

    tid: int
    name: str
    state: str
    cpu_s: float
    queued_s: float | None
    sleeps_in: str


class ProcessReading(Struct, frozen=True):
    """One process at one moment; counters are since it began. Sizes in bytes.

    `start_ticks` is when it began, in ticks since boot: with the number it tells the process from every other one.
    """

    pid: int
    parent: int
    name: str
    state: str
    start_ticks: int
    threads: tuple[ThreadReading, ...]
    major_faults: int
    rss_bytes: int | None
    swap_bytes: int | None
    read_bytes: int | None
    write_bytes: int | None
    cpu_s: float
    """Of all its threads, also of those that ended."""

    reaped_cpu_s: float
    """Of its children that ended, and of theirs."""

    @property
    def main(self) -> ThreadReading | None:
        """The main thread, None where it is gone."""
        return next((thread for thread in self.threads if thread.tid == self.pid), None)


class ProcessAbout(Struct, frozen=True):
    """What a process is: it does not change while it runs. None is what it hides from us.

    `exe` is the program's file as the process sees it; `python` the version of Python in it, (3, 14), where its files
    name one; `outputs` what its standard output and error are (paths, "pipe:[7]"). `has_torch` and `has_cuda` say what
    it has loaded, by the files that are mapped into it. `namespace_pids` are its numbers from our PID namespace
    inwards; `same_files` says whether it sees the same mounts and root as we do.
    """

    pid: int
    uid: int
    gid: int
    start_ticks: int
    exe: str | None
    argv: tuple[str, ...]
    cwd: str | None
    environ: Mapping[str, str] | None
    python: tuple[int, int] | None
    is_python: bool | None
    has_torch: bool | None
    has_cuda: bool | None
    outputs: tuple[str | None, str | None]
    cpus: frozenset[int] | None
    namespace_pids: tuple[int, ...]
    same_files: bool | None
    tracer: int
    """The process that traces it now (a debugger), 0 for none."""
    thread_of: int = 0
    """The process of which `pid` is a thread, 0 where it is none: /proc answers for threads, too."""
    is_kernel: bool = False
    """Whether it is a thread of the kernel."""


def read(pid: int, root: Path = Path("/")) -> ProcessReading | None:
    """One look at a process; None where there is none."""
    folder = root / "proc" / str(pid)
    fields = _stat(folder / "stat")
    if fields is None:
        return None
    status = _status(folder)
    counters = _counters(folder / "io")
    return ProcessReading(
        pid=pid,
        parent=int(fields[2]),
        name=fields[0],
        state=fields[1],
        start_ticks=int(fields[20]),
        threads=tuple(_threads(folder)),
        major_faults=int(fields[10]),
        rss_bytes=_kilobytes(status.get("VmRSS")),
        swap_bytes=_kilobytes(status.get("VmSwap")),
        read_bytes=counters.get("read_bytes"),
        write_bytes=counters.get("write_bytes"),
        cpu_s=(int(fields[12]) + int(fields[13])) / _TICKS,
        reaped_cpu_s=(int(fields[14]) + int(fields[15])) / _TICKS,
    )


def tree(pid: int, root: Path = Path("/")) -> tuple[ProcessReading, ...]:
    """A process and its descendants, each after its parent; empty where it is gone."""
    first = read(pid, root)
    if first is None:
        return ()
    found, waiting = [first], _children(pid, root)
    while waiting:
        one = read(waiting.pop(0), root)
        if one is not None:
            found.append(one)
            waiting += _children(one.pid, root)
    return tuple(found)


def _children(pid: int, root: Path) -> list[int]:
    """The numbers of its children, in order: from the kernel's lists of them, else from all processes of the host."""
    folder = root / "proc" / str(pid) / "task"
    try:
        lists = [proc_files.text(folder / tid / "children") for tid in os.listdir(folder)]  # noqa: PTH208
    except OSError:
        return []
    known = [text for text in lists if text is not None]
    if known:
        return sorted(int(word) for text in known for word in text.split())
    return sorted(number for number, parent in _parents(root) if parent == pid)


def about(pid: int, root: Path = Path("/")) -> ProcessAbout | None:
    """What a process is; None where there is none."""
    folder = root / "proc" / str(pid)
    fields = _stat(folder / "stat")
    if fields is None:
        return None
    status = _status(folder)
    maps = proc_files.text(folder / "maps") or None  # of a kernel thread it is empty
    exe, argv = _link(folder / "exe"), _words(folder / "cmdline")
    cpus = status.get("Cpus_allowed_list")
    own_files, its_files = _files(root / "proc/self"), _files(folder)
    return ProcessAbout(
        pid=pid,
        uid=int((status.get("Uid") or "0 0").split()[1]),
        gid=int((status.get("Gid") or "0 0").split()[1]),
        start_ticks=int(fields[20]),
        exe=exe,
        argv=argv,
        cwd=_link(folder / "cwd"),
        environ=_environ(folder),
        python=_python_version(exe, maps),
        is_python=_is_python(exe, argv, maps),
        has_torch=None if maps is None else "/libtorch" in maps,
        has_cuda=None if maps is None else "/libcuda.so" in maps or "/dev/nvidia" in maps,
        outputs=(_link(folder / "fd/1"), _link(folder / "fd/2")),
        cpus=None if cpus is None else cpu_list(cpus),
        namespace_pids=tuple(map(int, (status.get("NSpid") or str(pid)).split())),
        same_files=None if own_files is None or its_files is None else own_files == its_files,
        tracer=int(status.get("TracerPid") or 0),
        thread_of=group if (group := int(status.get("Tgid") or pid)) != pid else 0,
        is_kernel=bool(int(fields[7]) & _OF_KERNEL),
    )


def role(child: ProcessReading, about: ProcessAbout | None, parent: ProcessAbout) -> str:
    """What a process below a training is: "worker" (of a DataLoader), "rank", or "other". `parent` is its own parent.

    A forked worker has its parent's command line, also where that is multiprocessing's server (Python 3.14's default);
    one that was spawned has that of multiprocessing.
    """
    if child.name == WORKER:
        return "worker"
    if about is None or about.has_torch is False or not about.argv:
        return "other"
    if rank_of(about) is not None and (parent.environ is None or rank_of(parent) != rank_of(about)):
        return "rank"
    if is_helper(about) and not (is_helper(parent) and about.argv == parent.argv):
        return "other"
    return "worker" if about.argv == parent.argv or _SPAWNED in " ".join(about.argv) else "other"


def is_helper(about: ProcessAbout | None) -> bool:
    """Whether a process is the server or the tracker of multiprocessing, or what the server forked."""
    words = " ".join(about.argv) if about is not None else ""
    return _SERVER in words or _TRACKER in words


def rank_of(about: ProcessAbout) -> int | None:
    """The rank that a launcher gave to a process; None without one."""
    told = next((value for name in _RANK if (value := (about.environ or {}).get(name))), "")
    return int(told) if told.isdecimal() else None


def siblings(pid: int, root: Path = Path("/")) -> tuple[int, ...]:
    """Other processes of the same parent; none of the children of init."""
    parents = dict(_parents(root))
    parent = parents.get(pid, 0)
    return tuple(sorted(one for one, above in parents.items() if above == parent > 1 and one != pid))


def readers_of(pipe: str, near: int, root: Path = Path("/")) -> tuple[str, ...]:
    """Regular files that the processes at the other end of a pipe ("pipe:[7]") write: those of `tee`.

    Looked for among the processes beside `near` and above it.
    """
    parents = dict(_parents(root))
    above = parents.get(near, 0)
    beside = [one for one, parent in parents.items() if parent in (above, parents.get(above, 0)) and parent > 1]
    return tuple(file for one in beside if one != near for file in _written_from(root / "proc" / str(one), pipe))


def is_interpreter(exe: str | None) -> bool:
    """Whether the program of a process is CPython's own: an application with Python in it would start once more."""
    return exe is not None and _CPYTHON.fullmatch(Path(exe).name) is not None


def can_be_traced(pid: int, root: Path = Path("/")) -> bool | None:
    """Whether the kernel lets us look into a process's memory, by ptrace's rules; None where it is gone. Nothing of it
    is read."""
    try:
        with (root / "proc" / str(pid) / "mem").open("rb", buffering=0):
            return True
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return False


def ptrace_scope(root: Path = Path("/")) -> int | None:
    """Yama's restriction (0 to 3; kernel documentation, admin-guide/LSM/Yama); None where the kernel has no Yama."""
    return proc_files.number(root / "proc/sys/kernel/yama/ptrace_scope")


def _stat(path: Path) -> list[str] | None:
    """[name, state, parent, ...] of a stat file: field N of the manual is at N - 2. None where it is gone."""
    text = proc_files.text(path)
    if not text:
        return None
    left, _, right = text.rpartition(")")
    fields = [left.partition("(")[2], *right.split()]
    return fields if len(fields) > 22 else None


def _threads(folder: Path) -> Iterator[ThreadReading]:
    try:
        names = sorted(os.listdir(folder / "task"), key=int)  # noqa: PTH208 (names, a hundred of them four times a second)
    except (OSError, ValueError):
        return
    for tid in names:
        fields = _stat(folder / "task" / tid / "stat")
        if fields is not None:
            waited = (proc_files.text(folder / "task" / tid / "schedstat") or "").split()
            yield ThreadReading(
                tid=int(tid),
                name=fields[0],
                state=fields[1],
                cpu_s=(int(fields[12]) + int(fields[13])) / _TICKS,
                queued_s=int(waited[1]) / 1e9 if len(waited) == 3 else None,
                sleeps_in=(proc_files.text(folder / "task" / tid / "wchan") or "").removeprefix("0"),
            )


_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def _parents(root: Path) -> Iterator[tuple[int, int]]:
    """(number, parent) of every process that is seen."""
    try:
        names = os.listdir(root / "proc")  # noqa: PTH208
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            fields = _stat(root / "proc" / name / "stat")
            if fields is not None:
                yield int(name), int(fields[2])


def _status(folder: Path) -> dict[str, str]:
    rows = (line.partition(":") for line in (proc_files.text(folder / "status") or "").splitlines())
    return {name: value.strip() for name, _, value in rows}


def _counters(path: Path) -> dict[str, int]:
    """The "key: integer" lines of an io file; empty where it may not be read."""
    rows = (line.partition(":") for line in (proc_files.text(path) or "").splitlines())
    return {name: int(value) for name, _, value in rows if value.strip().isdecimal()}


def _kilobytes(value: str | None) -> int | None:
    return int(value.split()[0]) * 1024 if value else None


def _link(path: Path) -> str | None:
    try:
        return str(path.readlink())
    except OSError:
        return None


def _files(folder: Path) -> tuple[str, str] | None:
    """What decides which files a process sees: its mounts, and its root in them."""
    mounts, top = _link(folder / "ns/mnt"), _link(folder / "root")
    return None if mounts is None or top is None else (mounts, top)


def _words(path: Path) -> tuple[str, ...]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_ARGUMENTS)
    except OSError:
        return ()
    return tuple(text.decode("utf-8", "surrogateescape").rstrip("\0").split("\0")) if text else ()


def _environ(folder: Path) -> dict[str, str] | None:
    """The variables that the process was started with; None where it hides them."""
    try:
        text = (folder / "environ").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return None
    return {name: value for row in text.split("\0") if "=" in row for name, _, value in [row.partition("=")]}


def _python_version(exe: str | None, maps: str | None) -> tuple[int, int] | None:
    found = _VERSIONED.search(Path(exe).name if exe else "") or _VERSIONED.search(maps or "")
    return (int(found[1]), int(found[2])) if found else None


def _is_python(exe: str | None, argv: tuple[str, ...], maps: str | None) -> bool | None:
    """A program with Python in it (libpython) is one, too; None where neither its file nor its command tells."""
    if exe is not None and _PYTHON.fullmatch(Path(exe.removesuffix(" (deleted)")).name):
        return True
    if maps is not None:
        return "/libpython3" in maps
    return True if argv and _PYTHON.fullmatch(Path(argv[0]).name) else None


def _written_from(folder: Path, pipe: str) -> Iterator[str]:
    """The regular files that a process which reads `pipe` has open for writing."""
    try:
        numbers = os.listdir(folder / "fd")  # noqa: PTH208
    except OSError:
        return
    links = {number: _link(folder / "fd" / number) for number in numbers}
    if links.get("0") != pipe:
        return
    for number, target in sorted(links.items(), key=lambda one: (one[0] == "1", one[0])):
        if number == "2":  # its own messages
            continue
        flags = proc_files.text(folder / "fdinfo" / number) or ""
        opened = next((int(line.split()[1], 8) for line in flags.splitlines() if line.startswith("flags:")), 0)
        is_there = target is not None and target.startswith("/") and not target.endswith(" (deleted)")
        if is_there and opened & os.O_ACCMODE != os.O_RDONLY and _is_file(folder, number):
            yield str(folder / "fd" / number)


def _is_file(folder: Path, number: str) -> bool:
    try:
        return stat.S_ISREG((folder / "fd" / number).stat().st_mode)
    except OSError:
        return False
