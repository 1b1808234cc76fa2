"""One subject per optimizer: optimizer#0, optimizer#1 ..."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.recording_view import MS, RecordingView
from autotune.model.evidence import Fact


def subject(optimizer_id: int) -> str:
    return f"optimizer#{optimizer_id}"


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `optimizer.*`. Times are exclusive: a closure's forward and backward inside step() are not the update's."""
    for optimizer in view.recording.optimizers:
        name = subject(optimizer["id"])
        yield Fact("optimizer.type", name, optimizer["type"])
        if optimizer.get("has_fused") is not None:
            # torch refuses fused=True beside foreach=True: who asked for foreach has no fused kernel to switch on.
            asked = optimizer["arguments"].get("foreach") is True
            yield Fact("optimizer.has_fused", name, bool(optimizer["has_fused"]) and not asked)
        own = [own for node, own in view.in_window("optimizer") if node.event.ref == optimizer["id"]]
        if own and view.window:
            yield Fact("optimizer.step_ms", name, sum(own) / len(own) / MS)
            yield Fact("optimizer.step_share", name, sum(own) / view.window.wall_ns)
