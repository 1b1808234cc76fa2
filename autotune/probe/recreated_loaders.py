"""Loaders that the script makes anew in each epoch, at the same line: what is true of one is true of the next."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .session import ProbeSession

KIND = ("site", "arguments", "dataset", "sampler")


def follows(session: ProbeSession, ref: int, train: int) -> bool:
    """Whether loader `ref` was made in the place of loader `train` after training had begun, or the other way round.

    One that is read while no gradients are asked for measures something, and trains nothing.
    """
    if min(ref, train) < 0 or not session.window.step_ends or not sys.modules["torch"].is_grad_enabled():
        return False
    first, later = (session.loaders[i] for i in sorted((ref, train)))
    began = session.window.step_ends[0] - session.recorder.origin
    return later["made_ns"] > began and all(first[name] == later[name] for name in KIND)
