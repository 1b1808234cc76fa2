"""Files that are mistaken for a trace of torch.profiler, and how to record one."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

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
    (b"PK\x03\x04", "a zip archive (extract the trace from it)"),
    (b"\xfd7zXZ", "compressed by xz (unpack it)"),
    (b"BZh", "compressed by bzip2 (unpack it)"),
    (b"\x28\xb5\x2f\xfd", "compressed by Zstandard (unpack it)"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
    (b"\x0a", "a protobuf trace of Perfetto"),
)
_BY_NAME = (
    (".nsys-rep", "a report of Nsight Systems"),
    (".qdrep", "a report of Nsight Systems"),
    (".qdstrm", "a report of Nsight Systems"),
    (".ncu-rep", "a report of Nsight Compute"),
    (".perfetto-trace", "a protobuf trace of Perfetto"),
    (".pftrace", "a protobuf trace of Perfetto"),
    (".xplane.pb", "a profile of XLA"),
    (".pickle", "a pickle, as torch.cuda.memory._dump_snapshot writes it"),
)
_BY_KEY = {
    "nodes": "an execution trace of Chakra (ExecutionTraceObserver)",
    "segments": "a memory snapshot",
    "device_traces": "a memory snapshot",
    "cells": "a notebook",
}
TAR, TAR_AT = b"ustar", 257
LIST_OF_LISTS = re.compile(rb"\s*\[\s*\[")


def other_format(data: bytes, name: str) -> str | None:
    """What a file is that is no JSON of events; None where it may be one."""
    if not data.strip():
        return "an empty file"
    for ending, what in _BY_NAME:
        if name.lower().endswith(ending):
            return what
    beginning = data[:4096].lstrip(b"\xef\xbb\xbf \r\t")
    if not beginning.lstrip().startswith((b"{", b"[")):
        if beginning[TAR_AT : TAR_AT + len(TAR)] == TAR:
            return "a tar archive (extract the trace from it)"
        found = next((what for start, what in _BY_BEGINNING if beginning.startswith(start)), None)
        return found or "no JSON"
    return "a list of lists, as export_memory_timeline writes it" if LIST_OF_LISTS.match(beginning) else None


def named_by_keys(data: bytes) -> str | None:
    """What a JSON object without events is, by its keys; None where they do not tell."""
    try:
        keys: Mapping[str, msgspec.Raw] = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return None
    return next((what for key, what in _BY_KEY.items() if key in keys), None)
