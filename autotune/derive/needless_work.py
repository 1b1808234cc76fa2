"""Work that need not be done: gradients that nobody uses, float64 that nobody asked for, and replays without either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from autotune.derive import replays
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import Float64, UnusedGradients


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `gradients.*` and `float64.*`; none where no step was watched."""
    for what_if in replays.completed(view, "watch"):
        rows, float64 = what_if.result["gradients"], what_if.result["float64"]
        for reason in ("unowned", "discarded"):
            found = [row for row in rows if row["reason"] == reason]
            yield from _unused(reason, found) if found else [Fact(f"gradients.{reason}_share", RUN, 0.0)]
        yield from _float64(float64) if float64 is not None else [Fact("float64.num_results", RUN, 0)]
    if saved := replays.saved_without(view, "unused_gradients"):
        yield Fact("replay.unused_gradients_share", RUN, saved[0])
        yield Fact("replay.unused_gradients_least_share", RUN, saved[1])
    if saved := replays.saved_without(view, "float64"):
        yield Fact("replay.float64_share", RUN, saved[0])
        yield Fact("replay.float64_least_share", RUN, saved[1])


def _unused(reason: str, found: list[UnusedGradients]) -> Iterator[Fact]:
    """Of the backward that computes most of them."""
    most = max(found, key=lambda row: row["parameters"])
    yield Fact(f"gradients.{reason}_parameters", RUN, most["parameters"])
    yield Fact(f"gradients.{reason}_share", RUN, most["parameters"] / most["of_parameters"], (_location(most),))
    yield Fact(f"gradients.{reason}_place", RUN, _place(most))
    if most["modules"]:
        yield Fact(f"gradients.{reason}_modules", RUN, most["modules"])


def _float64(found: Float64) -> Iterator[Fact]:
    yield Fact("float64.is_asked_for", RUN, found["is_asked_for"])
    yield Fact("float64.place", RUN, _place(found))
    yield Fact("float64.source", RUN, found["source"])
    yield Fact("float64.num_results", RUN, found["results"], (_location(found),))


def _location(row: UnusedGradients | Float64) -> Location:
    return Location(row["file"], row["line"])


def _place(row: UnusedGradients | Float64) -> str:
    return f"{PurePath(row['file']).name}:{row['line']}"
