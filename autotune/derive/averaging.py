"""What DDP's averaging of gradients costs a job: its steps beside the same steps without it, in turns, on all ranks.

What backward does not hide is only a part of that: gradients are copied into buckets, threads that send take CPUs from
the backward pass that hides them, and each averaging waits for whichever rank is late this time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from autotune.derive import replays
from autotune.derive.recording_view import MS, RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.recording import WhatIf


def facts(views: Sequence[RecordingView]) -> Iterator[Fact]:
    """Facts `ranks.*_averaging_share`, of the step of the first rank; none unless each rank was measured in turns.

    They are upper bounds: of the rounds, that in which averaging cost most.
    """
    measured = [view for view in views if view.window is not None]
    rounds = [_rounds(view) for view in measured]
    if len(measured) < 2 or not all(rounds) or len({len(each) for each in rounds}) > 1:
        return
    if len(measured) < measured[0].recording.process["world_size"]:
        return
    window = measured[0].window
    averaged = measured[0].recording.torch_state.get("averaged_backwards") or 0
    assert window is not None
    if averaged < window.steps:
        return
    # Without averaging ranks run apart: the job is as slow as the slowest of them.
    turns = [(max(as_is for as_is, _ in row), max(alone for _, alone in row)) for row in zip(*rounds, strict=True)]
    # Replays leave the data wait out, and a machine that slows down makes them longer than the window's steps.
    shares = [min(1.0, as_is / window.mean_ms) * (1 - alone / as_is) for as_is, alone in turns]
    # A round in which averaging costs nothing says that the other one measured something else.
    share = max(shares) if min(shares) > 0 else 0.0
    last = window.steps / averaged
    yield Fact("ranks.early_averaging_share", RUN, share * (1 - last))
    yield Fact("ranks.last_averaging_share", RUN, share * last)


def _rounds(view: RecordingView) -> list[tuple[float, float]]:
    """The ms of a step as it is and without averaging, of each round."""
    turns = replays.rounds(view, "averaging")
    return [(_ms(turn.before), _ms(turn.changed)) for turn in turns if turn.before and turn.before.result["step_ns"]]


def _ms(what_if: WhatIf) -> float:
    return float(median(what_if.result["step_ns"])) / MS
