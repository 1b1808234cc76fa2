"""Jobs that YAML describes: Kubernetes (a Job, a Pod, a PyTorchJob ...), SkyPilot and dstack.

Their commands are read as those of a launch script. For that, a text of the file's length with its lines holds the
commands alone: a block of shell stays where it stands, and the words of a list become one line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.evidence import Location, Span
from autotune.model.source import DataValue, Document, Path
from autotune.scan.job_requests import JobRequest, is_whole, memory_bytes, product
from autotune.syntax import yaml

_DOCUMENT = re.compile(r"^---(?=\s|$).*$", re.MULTILINE)
_NOT_BREAK = re.compile(r"[^\r\n]")
_DESCRIBED = re.compile(r"\b(?:containers|run|commands)\b")
"""The keys below which commands stand."""

_SHELL = re.compile(r"(?:.*/)?(?:ba|z|da)?sh")
_BLOCK = re.compile(r"[|>][^\r\n]*")
_DSTACK = ("task", "dev-environment", "service")
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")
_COUNT = re.compile(r"(?:.*:)?(\d{1,9})(?::[^:]*)?")
"""The number of "A100:8", "80GB:2" and of 8."""


MAX_PODS = 100
"""Of more pods in one document it is not known on how many machines each runs."""


class DescribedJob(Struct, frozen=True):
    """A command of a file and what it gets: the command stands from line `first` to line `last`."""

    first: int
    last: int
    request: JobRequest


class JobFile(Struct, frozen=True):
    """What a file of jobs holds: its `commands` as the text of a shell script."""

    commands: bytes
    jobs: tuple[DescribedJob, ...]

    def request(self, line: int) -> JobRequest | None:
        """What the command at `line` gets."""
        return next((one.request for one in self.jobs if one.first <= line <= one.last), None)


@lru_cache(maxsize=16)
def read(file: str, data: bytes) -> JobFile | None:
    """The jobs of a YAML file; None for a file without any, and for one that is no YAML (a template).

    The last files are kept: each bundle of a file asks for the jobs in it.
    """
    try:
        found = [job for document in _documents(file, data) for job in _jobs(file, document)]
    except (UsageError, UnicodeDecodeError):
        return None
    if not found:
        return None
    text = data.decode()
    starts = () if text.isascii() else tuple(accumulate((len(sign.encode()) for sign in text), initial=0))
    canvas = _Canvas(list(_NOT_BREAK.sub(" ", text)), starts)
    for entries, _ in found:
        if entries[0].path[0] == "commands":
            canvas.write_lines(text, entries)
        else:
            canvas.write_command(text, entries)
    jobs = (DescribedJob(entries[0].line, _last_line(entries), request) for entries, request in found)
    return JobFile("".join(canvas.signs).encode(), tuple(jobs))


def _last_line(entries: Sequence[DataValue]) -> int:
    return entries[-1].line + len(entries[-1].text.splitlines()) - 1


def _documents(file: str, data: bytes) -> Iterator[Document]:
    """Each document of a file that may have commands, at its places in the file."""
    text = data.decode()
    marks = [found.span() for found in _DOCUMENT.finditer(text)]
    edges = [0, *(place for mark in marks for place in mark), len(text)]
    lines, size, done = 0, 0, 0
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        lines, size, done = lines + text.count("\n", done, start), size + len(text[done:start].encode()), start
        if _DESCRIBED.search(text, start, end):
            document = yaml.read(text[start:end].encode(), file)
            yield replace(document, entries=tuple(_moved(entry, lines, size) for entry in document.entries))


def _moved(entry: DataValue, lines: int, size: int) -> DataValue:
    """A value of a document that has `lines` lines and `size` bytes of the file before it."""
    span = Span(entry.span.start + size, entry.span.end + size)
    return replace(entry, span=span, line=entry.line + lines)


Job = tuple[Sequence[DataValue], JobRequest]
"""The values of a command, and what it gets."""


def _jobs(file: str, document: Document) -> Iterator[Job]:
    top = {entry.path[0] for entry in document.entries if entry.path}
    values = {entry.path: entry for entry in document.entries}
    if "kind" in top and "apiVersion" in top:
        yield from _of_kubernetes(file, document.entries, values)
    elif "run" in top and top & {"resources", "num_nodes", "setup", "workdir", "envs", "file_mounts"}:
        if ("run",) in values and isinstance(values["run",].value, str):
            yield [values["run",]], _of_skypilot(file, document.entries, values)
    elif "commands" in top and ("type",) in values and values["type",].value in _DSTACK:
        commands = [entry for entry in document.entries if entry.path[0] == "commands"]
        if all(isinstance(one.value, str) and isinstance(one.path[-1], int) for one in commands):
            yield commands, _of_dstack(file, document.entries, values)


Values = Mapping[Path, DataValue]


def _of_kubernetes(file: str, entries: Sequence[DataValue], values: Values) -> Iterator[Job]:
    """The containers with a command, and their pods: `containers` stands in the pod's own table."""
    containers: dict[Path, list[DataValue]] = {}
    for entry in entries:
        for at, key in enumerate(entry.path[:-2]):
            if key == "containers" and isinstance(entry.path[at + 1], int):
                containers.setdefault(entry.path[: at + 2], []).append(entry)
    deadline = next((one for one in entries if one.path[-1:] == ("activeDeadlineSeconds",)), None)
    machines: dict[Path, tuple[int | None, DataValue | None]] = {}
    for container, own in containers.items():
        words = [one for key in ("command", "args") for one in own if one.path[:-1] == (*container, key)]
        if words and all(isinstance(one.value, str | int | float) for one in words):
            pod = container[:-2]
            if pod not in machines:
                machines[pod] = _replicas(entries, values, pod) if len(machines) < MAX_PODS else (None, None)
            yield words, _of_pod(file, own, values, container, deadline, machines[pod])


def _of_pod(
    file: str,
    own: Sequence[DataValue],
    values: Values,
    container: Path,
    deadline: DataValue | None,
    replicas: tuple[int | None, DataValue | None],
) -> JobRequest:
    """What a container gets: `own` are the values in it, `replicas` the pods like its own."""
    (machines, at), pod = replicas, container[:-2]
    limits = {
        str(one.path[-1]): one
        for kind in ("requests", "limits")
        for one in own
        if one.path[:-1] == (*container, "resources", kind)
    }
    cpu = values.get((*container, "resources", "limits", "cpu"))
    memory = values.get((*container, "resources", "limits", "memory"))
    gpus = next((limits[name] for name in _GPUS if name in limits), None)
    mounts = [one.value for one in own if one.path[-1] == "mountPath"]
    is_host = values.get((*pod, "hostIPC"))
    has_more = "/dev/shm" in (str(one).rstrip("/") for one in mounts) or (is_host is not None and is_host.value is True)
    bytes_of_one = memory_bytes(str(memory.value)) if memory is not None else None
    return JobRequest(
        machines=machines,
        tasks=1,
        cpus=_cpus(cpu),
        gpus=_whole(gpus),
        memory_bytes=product(bytes_of_one, machines),
        time_limit_s=_whole(deadline),
        has_small_shm=not has_more,
        places=_places(
            file, machines=at, cpus=cpu, gpus=gpus, memory_bytes=memory, time_limit_s=deadline,
            has_small_shm=own[0],
        ),
    )  # fmt: skip


def _replicas(entries: Sequence[DataValue], values: Values, pod: Path) -> tuple[int | None, DataValue | None]:
    """The pods of a job: the replicas of all kinds (Master, Worker) of a training operator, else the parallelism of a
    Job, of which no more run than are to complete; one of a Pod. Other kinds say it in ways of their own: None."""
    if any(str(key).endswith("ReplicaSpecs") for key in pod):
        place = next(at for at, key in enumerate(pod) if str(key).endswith("ReplicaSpecs"))
        kinds = {one.path[place + 1] for one in entries if one.path[: place + 1] == pod[: place + 1]}
        stated = [
            one
            for one in entries
            if one.path[: place + 1] == pod[: place + 1] and one.path[place + 2 :] == ("replicas",)
        ]
        counts = [_whole(one) for one in stated]
        if None in counts:
            return None, None
        return sum(filter(None, counts)) + len(kinds) - len(counts), stated[0] if stated else None
    version, kind, parallel, completions = (
        values.get(path) for path in (("apiVersion",), ("kind",), ("spec", "parallelism"), ("spec", "completions"))
    )
    of = tuple(one.value for one in (version, kind) if one is not None)
    if of not in (("v1", "Pod"), ("batch/v1", "Job")):
        return None, None
    if parallel is None:
        return 1, None
    at_once, in_all = _whole(parallel), _whole(completions or parallel)
    return (min(at_once, in_all) if at_once is not None and in_all is not None else None), parallel


def _of_skypilot(file: str, entries: Sequence[DataValue], values: Values) -> JobRequest:
    nodes = values.get(("num_nodes",))
    named = [one for one in entries if one.path[:2] == ("resources", "accelerators")]
    gpus = named[0] if len(named) == 1 else None  # several are alternatives
    cpus, memory = values.get(("resources", "cpus")), values.get(("resources", "memory"))
    machines = _whole(nodes) if nodes is not None else 1
    amount = memory_bytes(str(memory.value), "g") if memory is not None else None
    count = None
    if gpus is not None:
        count = _whole(gpus) if len(gpus.path) > 2 else _count(gpus, bare=1)
    return JobRequest(
        machines=machines,
        tasks=1,
        cpus=_cpus(cpus),
        gpus=count,
        memory_bytes=product(amount, machines),
        places=_places(file, machines=nodes, cpus=cpus, gpus=gpus, memory_bytes=memory),
    )


def _of_dstack(file: str, entries: Sequence[DataValue], values: Values) -> JobRequest:
    nodes, cpus, memory = (values.get(one) for one in (("nodes",), ("resources", "cpu"), ("resources", "memory")))
    gpus = values.get(("resources", "gpu", "count"), values.get(("resources", "gpu")))
    machines = _whole(nodes) if nodes is not None else 1
    amount = memory_bytes(str(memory.value), "g") if memory is not None else None
    has_shm = ("resources", "shm_size") in values
    return JobRequest(
        machines=machines,
        tasks=1,
        cpus=_cpus(cpus),
        gpus=None if gpus is None else _whole(gpus) if gpus.path[-1] == "count" else _count(gpus, bare=1),
        memory_bytes=product(amount, machines),
        has_small_shm=None if has_shm else True,
        places=_places(
            file, machines=nodes, cpus=cpus, gpus=gpus, memory_bytes=memory,
            has_small_shm=next((one for one in entries if one.path[0] == "resources"), entries[0]),
        ),
    )  # fmt: skip


def _whole(entry: DataValue | None) -> int | None:
    text = str(entry.value) if entry is not None else ""
    return int(text) if is_whole(text) else None


def _count(entry: DataValue, bare: int) -> int | None:
    """The number in "A100:8"; `bare` for a name alone, None for a range ("1..8")."""
    text = str(entry.value)
    if ".." in text or "{" in text or "$" in text:
        return None
    found = _COUNT.fullmatch(text)
    return int(found[1]) if found is not None else bare


def _cpus(entry: DataValue | None) -> int | None:
    """Whole CPUs: "8", "7500m" (rounded up); None for "8+" and "4..", which are no limits."""
    text = str(entry.value) if entry is not None else ""
    if text.endswith("m") and is_whole(text[:-1]):
        return -(-int(text[:-1]) // 1000)
    return int(float(text)) if re.fullmatch(r"\d{1,9}(\.0)?", text) else None


def _places(file: str, **entries: DataValue | None) -> dict[str, Location]:
    given = {key: one for key, one in entries.items() if one is not None}
    return {key: Location(file, one.line, column=one.column, key=one.key) for key, one in given.items()}


class _Canvas(Struct):
    """The text of a shell script that is filled in: blanks and the line breaks of the file, `signs`.

    `starts` are the bytes of the file at which its characters start; empty where each is one byte.
    """

    signs: list[str]
    starts: Sequence[int]

    def write_lines(self, text: str, entries: Sequence[DataValue]) -> None:
        """Write texts that a shell reads, one after another."""
        for entry in entries:
            start, end = self._place(entry.span.start), self._place(entry.span.end)
            head = _BLOCK.match(entry.text)
            if head is not None:
                start += head.end()
            elif entry.text[:1] in ("'", '"'):
                start, end = start + 1, end - 1
            self.signs[start:end] = text[start:end]
            if head is None or head[0].startswith(">"):
                self._join(start, end)

    def write_command(self, text: str, entries: Sequence[DataValue]) -> None:
        """Write a command: what stands behind `sh -c`, or else its words as one line."""
        words = [str(one.value) for one in entries]
        is_shell = len(words) == 1 or any(map(_SHELL.fullmatch, words[:2]))
        scripts = [one for one in entries if _BLOCK.match(one.text) or (is_shell and len(str(one.value).split()) > 1)]
        if scripts or is_shell:
            self.write_lines(text, scripts)
            return
        for entry in entries:
            start, end = self._place(entry.span.start), self._place(entry.span.end)
            self.signs[start:end] = text[start:end]
        self._join(self._place(entries[0].span.start), self._place(entries[-1].span.end))

    def _join(self, start: int, end: int) -> None:
        """Make one line of several; the lost breaks stand behind it, so that later lines keep their numbers."""
        lost = [at for at in range(start, end) if self.signs[at] == "\n"]
        for at in lost:
            self.signs[at] = " "
        behind = (at for at in range(end, len(self.signs)) if self.signs[at] == " ")
        for _, at in zip(lost, behind, strict=False):
            self.signs[at] = "\n"

    def _place(self, byte: int) -> int:
        """The place in the text of a byte of the file."""
        return bisect_left(self.starts, byte) if self.starts else byte
