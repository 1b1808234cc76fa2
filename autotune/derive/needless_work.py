"""Work that need not be done: gradients and second derivatives that nobody uses, float64, and replays without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from autotune.derive import replays
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.recording_sections import Float64, UnusedGradients, UnusedSecondDerivatives

_SAVED = {
    "unused_gradients": ("replay.unused_gradients_share", "replay.unused_gradients_least_share"),
    "second_derivatives": ("replay.second_derivatives_share", "replay.second_derivatives_least_share"),
    "float64": ("replay.float64_share", "replay.float64_least_share"),
}
"""What the replays without it save: the median of the rounds, and the least."""


def facts(view: RecordingView) -> Iterator[Fact]:
    """Facts `gradients.*`, `second_derivatives.*` and `float64.*`; none where no step was watched."""
    for what_if in replays.completed(view, "watch"):
        rows, float64 = what_if.result["gradients"], what_if.result["float64"]
        for reason in ("unowned", "discarded"):
            found = [row for row in rows if row["reason"] == reason]
            yield from _unused(reason, found) if found else [Fact(f"gradients.{reason}_share", RUN, 0.0)]
        if "second_derivatives" in what_if.result:  # an earlier version did not look for them
            yield from _second_derivatives(what_if.result["second_derivatives"])
        yield from _float64(float64) if float64 is not None else [Fact("float64.num_results", RUN, 0)]
    for change, names in _SAVED.items():
        if saved := replays.saved_without(view, change):
            yield from (Fact(name, RUN, share) for name, share in zip(names, saved, strict=True))


def _unused(reason: str, found: list[UnusedGradients]) -> Iterator[Fact]:
    """Of the backward that computes most of them."""
    most = max(found, key=lambda row: row["parameters"])
    yield Fact(f"gradients.{reason}_parameters", RUN, most["parameters"])
    yield Fact(f"gradients.{reason}_share", RUN, most["parameters"] / most["of_parameters"], (_location(most),))
    yield Fact(f"gradients.{reason}_place", RUN, _place(most))
    if most["modules"]:
        yield Fact(f"gradients.{reason}_modules", RUN, most["modules"])


def _second_derivatives(found: list[UnusedSecondDerivatives]) -> Iterator[Fact]:
    places = tuple(_location(row) for row in found)
    yield Fact("second_derivatives.num_unused", RUN, len(found), places)
    if found:
        yield Fact("second_derivatives.place", RUN, _place(found[0]))


def _float64(found: Float64) -> Iterator[Fact]:
    yield Fact("float64.is_asked_for", RUN, found["is_asked_for"])
    yield Fact("float64.place", RUN, _place(found))
    yield Fact("float64.source", RUN, found["source"])
    yield Fact("float64.num_results", RUN, found["results"], (_location(found),))


def _location(row: UnusedGradients | UnusedSecondDerivatives | Float64) -> Location:
    return Location(row["file"], row["line"])


def _place(row: UnusedGradients | UnusedSecondDerivatives | Float64) -> str:
    return f"{PurePath(row['file']).name}:{row['line']}"
