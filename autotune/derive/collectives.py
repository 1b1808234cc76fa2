"""Collectives that the script issues: their lines, what they cost, and what in them is waiting for other ranks."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.lines import place_name
from autotune.derive.rank_waits import RankWaits, Site
from autotune.derive.recording_view import RecordingView
from autotune.model.evidence import RUN, Fact
from autotune.model.report import Collective

WAIT = "wait"
"""Waiting for a collective that was issued before, which is none itself."""

GRADIENTS = 0.9
"""Of the bytes of the trainable parameters: a line that sends so many in each step averages gradients by hand. They may
travel in 16 bits, so half of them counts too."""


def facts(view: RecordingView, waits: RankWaits | None) -> Iterator[Fact]:
    """Facts `collectives.*` of rank 0, where its waits are known."""
    if view.window is None or waits is None or waits.collective_wait_ms is None:
        return
    cost_ms = waits.collective_ms - waits.collective_wait_ms
    issued = [each for each in waits.sites if each.site[3] != WAIT]
    yield Fact("collectives.per_step", RUN, sum(each.calls for each in issued))
    yield Fact("collectives.cost_share", RUN, cost_ms / view.window.mean_ms)
    if waits.sites:
        most = max(waits.sites, key=lambda each: each.ms - (each.wait_ms or 0.0))
        # An asynchronous one sends where it is issued, and takes its time where it is waited for.
        sends = most if most in issued else max(issued, key=lambda each: each.num_bytes * each.calls, default=most)
        yield Fact("collectives.line", RUN, _words(most.site))
        yield Fact("collectives.line_per_step", RUN, sends.calls)
        size = _gradient_bytes(view)
        if size:
            yield Fact("collectives.averages_gradients", RUN, sends.num_bytes * sends.calls >= GRADIENTS / 2 * size)


def rows(waits: RankWaits | None) -> tuple[Collective, ...]:
    """The lines for the report, that with the most time first."""
    return tuple(
        Collective(site[3], site[0], site[1], site[2], each.calls, each.ms, each.wait_ms)
        for each in (waits.sites if waits else ())
        for site in (each.site,)
    )


def _words(site: Site) -> str:
    file, line, function, name = site
    return f"{name} in {place_name(file, line, function)}"


def _gradient_bytes(view: RecordingView) -> int:
    """Of the largest model; 0 when none is known."""
    models = [one for one in view.recording.models if one["num_params"]]
    return max((one["param_bytes"] * one["num_trainable"] // one["num_params"] for one in models), default=0)
