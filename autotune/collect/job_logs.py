"""The logs of a job: files that a shell or a scheduler redirects the output of its processes to."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from autotune import reading

FileId = tuple[int, int]
"""Device and inode."""

HEAD_BYTES = 1 << 16
"""A larger file is no job script."""

MOST_SCRIPTS = 200

DIRECTIVE = re.compile(rb"^#(SBATCH|PBS|BSUB|\$)[ \t]+([^\n]*)", re.MULTILINE)
OUTPUT = re.compile(
    r"(?:^|\s)(?:--output|--error|-oo|-eo|-o|-e)(?:[ \t]*=[ \t]*|[ \t]+|(?<=-[oe]))(\"[^\"]*\"|'[^']*'|\S+)"
)
"""-o FILE, --output=FILE: the options have these names in Slurm, PBS and LSF."""

STANDS_FOR = re.compile(r"%\d*[A-Za-z%]|\$\{?\w+\}?|\^array_index\^")
"""In the name of a log: %j, %4t, $PBS_JOBID."""

HOST = re.compile(r"^[\w.-]+:(?=/)")
"""PBS names the machine before the path."""

NUMBERS = "jJAatnsI"
"""The letters that stand for numbers, of jobs, tasks and nodes. The others stand for names, which have no / in them."""

NAMED_BY = ("LSB_OUTPUTFILE", "LSB_ERRORFILE", "SGE_STDOUT_PATH", "SGE_STDERR_PATH")
"""Variables in which LSF and Grid Engine name the logs of a job."""

SUBMITTED_FROM = ("SLURM_SUBMIT_DIR", "PBS_O_WORKDIR", "LS_SUBCWD", "SGE_O_WORKDIR")


class JobLogs(Struct, frozen=True):
    """`files` are open for what processes print; `names` are regular expressions of whole real paths."""

    files: frozenset[FileId] = frozenset()
    names: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Whether the plain file at `path` is one of them."""
        try:
            about = os.lstat(path)
        except OSError:
            return False
        is_named = any(re.fullmatch(name, path) for name in self.names)
        return stat.S_ISREG(about.st_mode) and (is_named or (about.st_dev, about.st_ino) in self.files)


def job_logs(environ: Mapping[str, str]) -> JobLogs:
    """The logs of what this process runs in: those of the shells above it, and of a scheduler's job."""
    return JobLogs(printed_into(_ancestors()), tuple(_of_scheduler(environ)))


def printed_into(pids: Iterable[int]) -> frozenset[FileId]:
    """The plain files into which processes print, also through programs that read their pipes: those of tee, too."""
    found: set[FileId] = set()
    todo, seen, pipes = list(pids), set[int](), set[FileId]()
    while todo:
        pid = todo.pop()
        if pid in seen:
            continue
        seen.add(pid)
        for descriptor in ("1", "2"):
            about = _stat(f"/proc/{pid}/fd/{descriptor}")
            if about is not None and stat.S_ISREG(about.st_mode):
                found.add((about.st_dev, about.st_ino))
            elif about is not None and stat.S_ISFIFO(about.st_mode) and (about.st_dev, about.st_ino) not in pipes:
                pipes.add((about.st_dev, about.st_ino))
                readers = [one for one in _processes() if _id(f"/proc/{one}/fd/0") == (about.st_dev, about.st_ino)]
                found.update(of_tee for one in readers if _is_tee(one) for of_tee in _written(one))
                todo += readers
    return frozenset(found)


def _is_tee(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip() == "tee"
    except OSError:
        return False


def _written(pid: int) -> Iterator[FileId]:
    """The plain files that a process has open to write."""
    for name in _names(f"/proc/{pid}/fd"):
        about = _stat(f"/proc/{pid}/fd/{name}")
        if about is not None and stat.S_ISREG(about.st_mode) and _is_for_writing(f"/proc/{pid}/fdinfo/{name}"):
            yield about.st_dev, about.st_ino


def _is_for_writing(info: str) -> bool:
    try:
        found = re.search(r"^flags:\s*([0-7]+)", Path(info).read_text(encoding="ascii"), re.MULTILINE)
    except OSError:
        return False
    return found is not None and int(found[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _ancestors() -> list[int]:
    """This process and those above it."""
    found = [os.getpid()]
    while found[-1] > 1:
        try:
            text = Path(f"/proc/{found[-1]}/stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            break
        found.append(int(text.rpartition(")")[2].split()[1]))
    return found


def _of_scheduler(environ: Mapping[str, str]) -> Iterator[str]:
    folder = next((environ[name] for name in SUBMITTED_FROM if environ.get(name)), os.getcwd())
    names = [environ[name] for name in NAMED_BY if environ.get(name)]
    if job := environ.get("SLURM_JOB_ID"):
        array = environ.get("SLURM_ARRAY_JOB_ID")
        names.append(f"slurm-{array}_%a.out" if array else f"slurm-{job}.out")
    if job := environ.get("PBS_JOBID"):
        names += [f"{environ.get('PBS_JOBNAME', '%x')}.{kind}{job.partition('.')[0]}" for kind in "oe"]
    if names:
        names += [name for script in _job_scripts(folder, environ) for name in _outputs(script)]
    for name in names:
        path = os.path.normpath(os.path.join(os.path.realpath(folder), HOST.sub("", name)))
        if STANDS_FOR.sub("", os.path.basename(path)):
            yield _pattern(path, environ)


def _pattern(path: str, environ: Mapping[str, str]) -> str:
    """A regular expression of the paths that one with codes and variables stands for, in this job where it is known.

    The tasks of an array write side by side, and each has a job number of its own."""
    array = environ.get("SLURM_ARRAY_JOB_ID")
    known = {"A": array, "x": environ.get("SLURM_JOB_NAME"), "j": None if array else environ.get("SLURM_JOB_ID")}

    def expanded(code: re.Match[str]) -> str:
        letter = code[0][-1] if code[0][0] == "%" else ""
        value = known.get(letter) if letter else environ.get(code[0].strip("${}"))
        if value:
            return f"0*{re.escape(value)}"
        return r"\d+" if letter and letter in NUMBERS else "[^/]+"

    parts, at = [], 0
    for code in STANDS_FOR.finditer(path):
        parts += [re.escape(path[at : code.start()]), expanded(code)]
        at = code.end()
    return "".join([*parts, re.escape(path[at:])])


def _job_scripts(folder: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The script of this job, which slurmd keeps on its first machine, and those where it was submitted."""
    for pid in _processes() if environ.get("SLURM_JOB_ID") else ():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        spool = f"job{environ['SLURM_JOB_ID'].zfill(5)}/slurm_script"
        yield from (word for word in words if word.endswith(spool))
    yield from (os.path.join(folder, name) for name in _names(folder)[:MOST_SCRIPTS])


def _outputs(script: str) -> list[str]:
    """The log files that the directives of a job script name; none for any other file."""
    try:
        head = reading.read(script, most_bytes=HEAD_BYTES)
    except OSError:
        return []
    lines = DIRECTIVE.findall(head) if head.startswith(b"#!") else []
    return [name.strip("\"'") for _, text in lines for name in OUTPUT.findall(text.decode(errors="replace"))]


def _processes() -> list[int]:
    return [int(name) for name in _names("/proc") if name.isdecimal()]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _id(path: str) -> FileId | None:
    about = _stat(path)
    return (about.st_dev, about.st_ino) if about is not None else None
