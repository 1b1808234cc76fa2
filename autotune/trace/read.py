"""Reading a Kineto trace: the Chrome JSON that torch.profiler exports, plain or gzipped, of any release since 1.8.

Releases differ in the names of categories ("Kernel", "kernel"), in ids ("external id", "External id"), in whether a
thread is a number or "stream 7", and in what is not JSON at all: `nan`, a lone backslash, a comma before a bracket.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from autotune.errors import UsageError
from autotune.model.recording_sections import MOST_RANKS
from autotune.trace.formats import RECORD, named_by_keys, other_format

GZIP, BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
MOST_BYTES = 4 << 30
"""A file that unpacks to more is not read."""

MOST_MICROSECONDS, MOST_DIGITS = 1e16, 40
"""Three hundred years; more is no time."""

DEVICE = {
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "fill",
    "memset": "fill",
}
HOST = {
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "range",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "cuda_driver": "runtime",
    "driver": "runtime",
    "hip_runtime": "runtime",
    "python_function": "python",
}
"""Categories in lower case, of all releases; what is in neither table is drawn twice, or tells of the profiler."""

Repair = bytes | Callable[[re.Match[bytes]], bytes]

REPAIRS: tuple[tuple[re.Pattern[bytes], Repair], ...] = (
    (re.compile(rb"(?<=[:\[,])\s*[-+]?(?:nan|inf|infinity)(?=\s*[,}\]])", re.IGNORECASE), b" null"),
    (re.compile(rb",(?=\s*[}\]])"), b""),
    (re.compile(rb'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?'), lambda found: found[0] if found[1] else b"\\\\"),
    (re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]"), b" "),
)
"""What Kineto writes and JSON does not allow, and what it should be."""


class Activity(Struct, frozen=True):
    """What ran on a device. Times in ns, as the next."""

    name: str
    kind: str
    """ "kernel", "copy" or "fill"."""

    device: int
    stream: int
    start_ns: int
    ns: int
    correlation: int
    """Of the call that launched it; -1 where it is not known, as the next."""

    operator_id: int
    """Of the operator around that call."""

    collective: str = ""
    """Of a kernel of communication ("allreduce"), where the trace tells it: since torch 2.3."""


class HostEvent(Struct, frozen=True):
    """What ran on a thread of the host."""

    name: str
    kind: str
    """ "operator", "range" (of record_function), "runtime" or "python"."""

    thread: str
    start_ns: int
    ns: int
    correlation: int = -1
    """Of a call of the runtime."""

    identity: int = -1
    """Of an operator."""

    stack: str = ""
    """Frames of Python, the innermost first, with ";" between them."""

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.ns


class Device(Struct, frozen=True):
    """A device as the trace describes it; None where it does not."""

    name: str | None = None
    capability: str | None = None
    total_bytes: int | None = None


class Trace(Struct, frozen=True):
    """One process. `devices` by their number; `rank` and `world_size` are None where the trace does not tell them."""

    file: str
    activities: tuple[Activity, ...]
    host: tuple[HostEvent, ...]
    devices: dict[int, Device]
    rank: int | None
    world_size: int | None
    has_stacks: bool
    memory: tuple[tuple[int, int, int, int | None], ...] = ()
    """(ns, device, bytes allocated, bytes reserved) of a profile with memory; the last since torch 1.12."""


class _Arguments(Struct):
    """The arguments that are read; all others are skipped while parsing."""

    correlation: Any = None
    external: Any = field(default=None, name="External id")
    old_external: Any = field(default=None, name="external id")
    stream: Any = None
    device: Any = None
    stack: Any = field(default=None, name="Call stack")
    collective: Any = field(default=None, name="Collective name")
    allocated: Any = field(default=None, name="Total Allocated")
    reserved: Any = field(default=None, name="Total Reserved")
    device_type: Any = field(default=None, name="Device Type")
    device_id: Any = field(default=None, name="Device Id")


class _Event(Struct):
    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: _Arguments | None = None


class _File(Struct):
    events: list[_Event] | None = field(default=None, name="traceEvents")
    devices: Any = field(default=None, name="deviceProperties")
    distributed: Any = field(default=None, name="distributedInfo")


def read(path: Path) -> Trace:
    """The trace in a file.

    Raises UsageError for one that cannot be read, or is no trace of torch.profiler: it says what it is, and how to
    record one.
    """
    data = _content(path)
    if (found := other_format(data, path.name)) is not None:
        raise UsageError(f"it is {found}, not a trace of torch.profiler", where=str(path), to_do=RECORD)
    file = _parsed(data, path)
    if not file.events and (found := named_by_keys(data)) is not None:
        raise UsageError(f"it is {found}, not a trace of torch.profiler", where=str(path), to_do=RECORD)
    del data
    events = file.events or []
    complete = [event for event in events if event.ph == "X" and isinstance(event.name, str)]
    activities = tuple(sorted(_activities(complete), key=lambda one: one.start_ns))
    host = tuple(_host(complete))
    if not host and not activities:
        what = "it has no event of torch.profiler" if events else "it has no event"
        raise UsageError(what, where=str(path), to_do=RECORD)
    told = file.distributed if isinstance(file.distributed, dict) else {}
    size = _integer(told.get("world_size"))
    return Trace(
        file=str(path),
        activities=activities,
        host=host,
        devices=_devices(file.devices),
        rank=_integer(told.get("rank")),
        world_size=size if size is not None and 1 <= size <= MOST_RANKS else None,
        has_stacks=any(event.kind == "python" or event.stack for event in host),
        memory=tuple(_memory(events)),
    )


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes().removeprefix(BOM)
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}", where=str(path)) from error
    if not data.startswith(GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            unpacked = file.read(MOST_BYTES)
    except (EOFError, OSError, zlib.error) as error:
        raise UsageError(
            "its gzip data is cut or damaged", where=str(path), to_do=f"Copy the file again. {RECORD}"
        ) from error
    if len(unpacked) == MOST_BYTES:
        raise UsageError("it unpacks to more than 4 GiB", where=str(path), to_do=RECORD)
    return unpacked.removeprefix(BOM)


def _parsed(data: bytes, path: Path) -> _File:
    try:
        return _decoded(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    for wrong, right in REPAIRS:
        data = wrong.sub(right, data)
    data = data.decode("utf-8", errors="replace").encode()
    try:
        return _decoded(data)
    except msgspec.ValidationError as error:
        raise UsageError(f"it is JSON, but not a trace ({error})", where=str(path), to_do=RECORD) from error
    except RecursionError as error:
        raise UsageError("it is nested too deeply for a trace", where=str(path), to_do=RECORD) from error
    except msgspec.DecodeError as error:
        is_cut = "truncated" in str(error)
        what = "it ends in the middle: the file was cut" if is_cut else f"it is not JSON ({error})"
        raise UsageError(what, where=str(path), to_do=RECORD) from error


def _decoded(data: bytes) -> _File:
    if data.lstrip()[:1] == b"[":
        return _File(msgspec.json.decode(data, type=list[_Event]))
    return msgspec.json.decode(data, type=_File)


def _activities(events: Iterable[_Event]) -> Iterable[Activity]:
    nothing = _Arguments()
    for event in events:
        kind = DEVICE.get(str(event.cat).lower())
        start = _ns(event.ts)
        if kind is None or start is None:
            continue
        args = event.args or nothing
        device = _integer(args.device)
        stream = _integer(args.stream)
        yield Activity(
            name=event.name,
            kind=kind,
            device=device if device is not None else _integer(event.pid) or 0,
            stream=stream if stream is not None else _integer(str(event.tid).removeprefix("stream ")) or 0,
            start_ns=start,
            ns=_ns(event.dur) or 0,
            correlation=_known(args.correlation),
            operator_id=_known(args.external if args.external is not None else args.old_external),
            collective=args.collective if isinstance(args.collective, str) else "",
        )


def _host(events: Iterable[_Event]) -> Iterable[HostEvent]:
    nothing = _Arguments()
    for event in events:
        kind = HOST.get(str(event.cat).lower())
        start = _ns(event.ts)
        if kind is None or start is None:
            continue
        args = event.args or nothing
        if kind == "operator" and "::" not in event.name and is_range(event.name):
            kind = "range"  # before release 1.11 a range of record_function was an operator
        yield HostEvent(
            name=event.name,
            kind=kind,
            thread=f"{event.pid}/{event.tid}",
            start_ns=start,
            ns=_ns(event.dur) or 0,
            correlation=_known(args.correlation) if kind == "runtime" else -1,
            identity=_known(args.external if args.external is not None else args.old_external),
            stack=args.stack if isinstance(args.stack, str) else "",
        )


def is_range(name: str) -> bool:
    """Whether torch gives this name to a range of its own: a step, a fetch of the DataLoader, an optimizer's step."""
    return name.startswith(("ProfilerStep", "enumerate(DataLoader)", "Optimizer.", "DistributedDataParallel.", "##"))


def _memory(events: Sequence[_Event]) -> Iterable[tuple[int, int, int, int | None]]:
    for event in events:
        args, at = event.args, _ns(event.ts)
        if event.ph == "i" and event.name == "[memory]" and args is not None and at is not None:
            device, allocated = _integer(args.device_id), _integer(args.allocated)
            if args.device_type == 1 and device is not None and allocated is not None:
                yield at, device, allocated, _integer(args.reserved)


def _devices(rows: Any) -> dict[int, Device]:
    found = {}
    for row in rows if isinstance(rows, list) else []:
        identity = _integer(row.get("id")) if isinstance(row, dict) else None
        if identity is not None:
            found[identity] = _device(row)
    return found


def _device(row: dict[str, Any]) -> Device:
    name = row["name"] if isinstance(row.get("name"), str) else None
    major, minor = _integer(row.get("computeMajor")), _integer(row.get("computeMinor"))
    is_amd = "amd" in (name or "").lower() or "instinct" in (name or "").lower()
    capability = None if major is None or minor is None or is_amd else f"{major}.{minor}"
    return Device(name, capability, _integer(row.get("totalGlobalMem")))


def _ns(value: Any) -> int | None:
    """Of microseconds; None for what is no time."""
    number = _number(value, float)
    return None if number is None or abs(number) > MOST_MICROSECONDS else round(number * 1000)


def _integer(value: Any) -> int | None:
    number = _number(value, int)
    return None if number is None or abs(number) > MOST_MICROSECONDS else int(number)


def _known(value: Any) -> int:
    found = _integer(value)
    return -1 if found is None else found


def _number(value: Any, kind: Callable[[str], float]) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if abs(value) <= MOST_MICROSECONDS else None  # nan is not
    try:
        number = kind(value) if isinstance(value, str) and len(value) <= MOST_DIGITS else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None
