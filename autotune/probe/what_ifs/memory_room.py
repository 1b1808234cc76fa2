"""Whether a larger micro-batch surely needs more memory than the CUDA device has: an error would end all what-ifs."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def needed_without_room(session: Any, factor: float, narrowest: float) -> int | None:
    """Bytes that a micro-batch of `factor` times the size needs at least, where the device has less; else None.

    Of the window's peak that part grows which is neither there between two steps (weights, optimizer state) nor may be
    gradients or temporary results of the update, each as large as the trained parameters. `narrowest` is the size of
    the smallest kept batch, of that of the window's largest: what is tried may be narrower than what made the peak.
    None too where the window holds an evaluation or a save, which may have made the peak.
    """
    if factor <= 1 or not session.trains_on_cuda() or _did_more_than_train(session):
        return None
    cuda = sys.modules["torch"].cuda
    peak = session.memory_row.get("peak_allocated_bytes")
    if peak is None:
        return None
    held, room = cuda.memory_allocated(), cuda.memory_reserved() + cuda.mem_get_info()[0]
    trained = sum(
        each.numel() * each.element_size()
        for row in session.models
        if (module := row["object"]()) is not None
        for each in module.parameters()
        if each.requires_grad
    )
    grows = max(0, peak - held - 2 * trained)
    needed = int(held + factor * narrowest * grows)
    return needed if needed > room else None


def _did_more_than_train(session: Any) -> bool:
    """Whether an evaluation or a save lies in the window; a forward without gradients of a trained model is one."""
    begin, end = session.window.span()
    events = [event for event in session.recorder.events if event[2] >= begin and event[1] <= end]
    trained = {ref for kind, _, _, ref, flag in events if kind == "forward" and flag & 1}
    return any(
        kind in ("evaluation", "checkpoint") or (kind == "forward" and ref in trained and not flag & 1)
        for kind, _, _, ref, flag in events
    )
