"""Files that are mistaken for a trace of torch.profiler, and how to record one."""

from __future__ import annotations

import re

RECORD = """Record a few steps of the training loop, and give the file to autotune:
    from torch.profiler import profile, schedule
    with profile(schedule=schedule(wait=10, warmup=3, active=5), with_stack=True) as profiler:
        for batch in loader:
            ...              # the step as it is
            profiler.step()
    profiler.export_chrome_trace("trace.json.gz")"""

_BY_BEGINNING = (
    (b"SQLite format 3", "a database of SQLite, as Nsight Systems exports it"),
    (b"\x80", "a pickle, as torch.cuda.memory._dump_snapshot writes it"),
    (b"PK\x03\x04", "a zip file: extract the trace from it"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
    (b"\x0a", "a protobuf trace of Perfetto"),
)
_BY_NAME = (
    (".nsys-rep", "a report of Nsight Systems"),
    (".qdrep", "a report of Nsight Systems"),
    (".ncu-rep", "a report of Nsight Compute"),
    (".perfetto-trace", "a protobuf trace of Perfetto"),
    (".pftrace", "a protobuf trace of Perfetto"),
    (".pickle", "a pickle, as torch.cuda.memory._dump_snapshot writes it"),
)
_BY_KEY = (
    (rb'^\s*\{\s*"schema"\s*:\s*"[^"]*chakra', "an execution trace of Chakra (ExecutionTraceObserver)"),
    (rb'^\s*\{\s*"(?:segments|device_traces|allocator_settings)"', "a memory snapshot"),
    (rb'^\s*\{\s*"cells"', "a notebook"),
)


def other_format(data: bytes, name: str) -> str | None:
    """What a file is that is no JSON of events; None where it may be one."""
    if not data.strip():
        return "an empty file"
    for ending, what in _BY_NAME:
        if name.lower().endswith(ending):
            return what
    beginning = data[:4096].lstrip(b"\xef\xbb\xbf \r\t")
    if not beginning.lstrip().startswith((b"{", b"[")):
        found = next((what for start, what in _BY_BEGINNING if beginning.startswith(start)), None)
        return found or "no JSON"
    return next((what for key, what in _BY_KEY if re.search(key, beginning)), None)
