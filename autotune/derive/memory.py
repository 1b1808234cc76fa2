"""Memory: the peak against the limit, and whether it would hold the activations that are recomputed now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from autotune.derive.recording_view import RecordingView
from autotune.derive.timeline import EventNode
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Recording


def facts(view: RecordingView, memory_limit_bytes: int | None) -> Iterator[Fact]:
    """Facts `memory.*`. `memory_limit_bytes` is the host's limit, which bounds a CPU run; None if unknown."""
    recording = view.recording
    peak, limit = peak_bytes(recording), limit_bytes(recording, memory_limit_bytes)
    yield from _known("peak_bytes", peak)
    yield from _known("limit_bytes", limit)
    if peak is not None and limit:
        yield Fact("memory.used_share", RUN, peak / limit)
        bound = without_recompute_bytes(view)
        # Above the limit the bound decides nothing: the true peak may be far lower.
        if bound is not None and bound <= limit:
            yield Fact("memory.without_recompute_share", RUN, bound / limit)
    if is_cuda(recording):
        yield from _known("num_alloc_retries", recording.memory.get("num_alloc_retries"))
        allocated = recording.memory.get("peak_allocated_bytes")
        if peak and allocated is not None:
            yield Fact("memory.fragmented_share", RUN, max(0.0, 1 - allocated / peak))
    ran_out = recording.outcome == "out_of_memory"
    yield Fact("memory.ran_out", RUN, ran_out)
    if ran_out and recording.error:
        yield Fact("memory.failing_phase", RUN, _failing_phase(recording, recording.error["phase"]))
        yield from _known("asked_bytes", requested_bytes(recording.error["message"]))


def _failing_phase(recording: Recording, kind: str | None) -> str:
    """Outside every phase and before the first backward, a run still makes its model and its data."""
    if kind is not None and kind != "closure":
        return kind
    return "other" if any(event.kind == "backward" for event in recording.events) else "start-up"


def requested_bytes(message: str) -> int | None:
    """What the failing allocation asked for, as torch's CPU ("400 bytes") and CUDA ("2.00 GiB") allocators say it."""
    found = re.search(r"allocate ([\d.]+) ?(bytes|KiB|MiB|GiB|TiB)", message)
    if found is None:
        return None
    power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(found[2])
    return int(float(found[1]) * 1024**power)


def _known(name: str, value: int | None) -> Iterator[Fact]:
    if value is not None:
        yield Fact(f"memory.{name}", RUN, value)


def is_cuda(recording: Recording) -> bool:
    return recording.device is not None and recording.device["type"] == "cuda"


def peak_bytes(recording: Recording) -> int | None:
    """What the CUDA allocator had reserved at most, or the resident memory of a CPU run."""
    if recording.device is None and recording.outcome != "out_of_memory":
        return None
    value = recording.memory.get("peak_reserved_bytes" if is_cuda(recording) else "rss_peak_bytes")
    return None if value is None else int(value)


def limit_bytes(recording: Recording, host_bytes: int | None) -> int | None:
    """Memory of the CUDA device, or `host_bytes` on a CPU run."""
    if not is_cuda(recording):
        return host_bytes
    total = recording.memory.get("total_bytes")
    return None if total is None else int(total)


def without_recompute_bytes(view: RecordingView) -> int | None:
    """An upper bound of the peak without activation checkpointing, for batches as wide as the widest seen.

    While one checkpointed segment is recomputed, its activations stand in memory beside the parameters. So
    the activations of any one segment fit into peak - parameters, and all N segments of a backward together
    add at most N x (peak - parameters) to the peak. The bound is loose (gradients, optimizer state, and on a
    CPU run the interpreter, are counted as activations N times), so it says "fits" only where that is
    certain; where it exceeds the limit nothing is claimed. None when nothing was recomputed.
    """
    peak, segments = peak_bytes(view.recording), num_segments(view)
    if peak is None or not segments:
        return None
    parameters = sum(model.get("param_bytes") or 0 for model in view.recording.models)
    idle = 0 if is_cuda(view.recording) else view.recording.memory.get("rss_start_bytes") or 0
    return peak + segments * max(0, peak - max(idle, parameters))


def num_segments(view: RecordingView) -> int:
    """Recomputed segments of one backward: the most of any, 0 when none was recomputed."""
    counts: Counter[EventNode] = Counter()
    for node in view.nodes:
        if node.event.kind == "recompute" and node.outermost and (backward := _backward(node)):
            counts[backward] += 1
    return max(counts.values(), default=0)


def _backward(node: EventNode) -> EventNode | None:
    """The outermost backward around a node."""
    found, above = None, node.parent
    while above is not None:
        found = above if above.event.kind == "backward" else found
        above = above.parent
    return found
