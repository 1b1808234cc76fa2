"""Predictions beside what was measured, and the tables that are made of them."""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import measuring
from prediction_cases import LOADERS, TOGETHER

from autotune.derive.summary_statistics import quantile
from autotune.model.evidence import RUN, Evidence
from autotune.model.rule import GainSpec
from autotune.predict import predict, step_ms

TRAIN = "loader#train"
CLOSE = 0.03
"""Workers whose step is at most this much longer than the best ones' are as good."""


@dataclass(frozen=True, slots=True)
class Row:
    """One prediction beside its measurement; speedups are against the base. `said` is None when nothing was claimed.

    `applied` is of the medians over all rounds of all starts, `apart` how far the second start is from the first (a
    ratio - 1, None where there was one).
    """

    group: str
    kind: str
    half: str
    base: str
    words: str
    applied: float
    apart: float | None
    said: float | None
    low: float | None
    high: float | None

    @property
    def error(self) -> float | None:
        return None if self.said is None else self.applied / self.said - 1

    @property
    def covered(self) -> bool:
        return self.low is not None and self.high is not None and self.low <= self.applied <= self.high


def predictions(measured: Iterable[measuring.Json]) -> list[Row]:
    """Every held-out setting that was applied, with what is predicted for it today."""
    rows: list[Row] = []
    for one in measured:
        base, evidence = one["base"], Evidence(one["facts"], {})
        for held in base["held_out"]:
            starts = [start for start in one["starts"] if held["words"] in start]
            if not starts:
                continue
            each = [_ratio([start], base["words"], held["words"]) for start in starts]
            apart = each[1] / each[0] - 1 if len(each) > 1 else None
            named = (base["group"], one["kind"], one["half"], base["words"], held["words"])
            said = predicted(held["what_if"], held["arguments"], evidence)
            rows.append(Row(*named, _ratio(starts, base["words"], held["words"]), apart, *said))
    return rows


def _ratio(starts: Sequence[measuring.Json], base: str, words: str) -> float:
    before, after = (statistics.median(ms for start in starts for ms in start[name]) for name in (base, words))
    return before / after


def predicted(
    what_if: str, arguments: measuring.Json, evidence: Evidence
) -> tuple[float, float, float] | tuple[None, None, None]:
    """(speedup, low, high); None of each where nothing is claimed."""
    if what_if == TOGETHER:
        forecast, now = step_ms(arguments, evidence), evidence.lookup(RUN, "step.mean_ms")
        if forecast is None or forecast.unmodelled or not isinstance(now, int | float):
            return None, None, None
        return now / forecast.ms, now / forecast.high_ms, now / forecast.low_ms
    subject = "optimizer#0" if arguments.get("share", "").startswith("optimizer.") else TRAIN
    gain = predict(GainSpec(what_if, {name: str(value) for name, value in arguments.items()}), evidence, subject)
    return (None, None, None) if gain is None else (gain.speedup, gain.low, gain.high)


def truth(rows: Sequence[Row], loads: Sequence[float]) -> str:
    """How quiet the machine was, and how well what was applied is known: no error can be smaller."""
    apart = [abs(row.apart) for row in rows if row.apart is not None] or [math.nan]
    # The mean of two starts is known twice as well as their difference.
    half, most = (100 * quantile(apart, q) / 2 for q in (0.5, 0.9))
    return (
        f"load average while measuring: {min(loads):.1f} to {max(loads):.1f} on {os.cpu_count()} CPUs\n"
        f"{len(apart)} of {len(rows)} settings were applied in two starts: "
        f"their mean is known to {half:.1f} % (median), {most:.1f} % (p90)"
    )


def choices(rows: Sequence[Row]) -> list[tuple[str, str, str, str, float]]:
    """(kind, base, chosen, best, step time of the chosen / of the best - 1), for each base of a loader.

    Chosen are the workers with the best prediction; as recorded where nothing is claimed.
    """
    found = []
    for kind, base in dict.fromkeys((row.kind, row.base) for row in rows if row.group in LOADERS):
        mine = [row for row in rows if (row.kind, row.base) == (kind, base) and row.group in LOADERS]
        mine = [row for row in mine if "prefetch" not in row.words]
        said = {base: (1.0, 1.0), **{row.words: (row.said or 0.0, row.applied) for row in mine}}
        chosen = max(said, key=lambda words: said[words][0])
        best = max(said, key=lambda words: said[words][1])
        found.append((kind, base, chosen, best, said[best][1] / said[chosen][1] - 1))
    return found


def summary(rows: Sequence[Row]) -> str:
    groups = {group: [row for row in rows if row.group == group] for group in dict.fromkeys(row.group for row in rows)}
    head = ["what is changed", "predictions", "no claim", "median error", "p90 error", "covered", "median half-width"]
    cells = [[group, *_figures(mine)] for group, mine in [*groups.items(), ("all", list(rows))]]
    return measuring.table(head, cells)


def _figures(rows: Sequence[Row]) -> list[str]:
    claimed = [row for row in rows if row.said is not None]
    counts = [str(len(claimed)), str(len(rows) - len(claimed))]
    if not claimed:
        return [*counts, *["-"] * 4]
    errors = [abs(row.error or 0.0) for row in claimed]
    widths = [math.log(row.high / row.low) / 2 for row in claimed if row.low and row.high]
    figures = [quantile(errors, 0.5), quantile(errors, 0.9), sum(r.covered for r in claimed) / len(claimed)]
    return [*counts, *(f"{100 * value:.1f} %" for value in (*figures, quantile(widths, 0.5)))]


def details(rows: Sequence[Row]) -> str:
    head = [
        "half",
        "what is changed",
        "kind",
        "base",
        "held out",
        "applied",
        "starts",
        "predicted",
        "interval",
        "error",
    ]
    cells = []
    for row in rows:
        said = ["none", "", "", ""]
        if row.said is not None:
            interval = f"{row.low:.2f}-{row.high:.2f}"
            said = [
                f"{row.said:.2f}x",
                interval,
                f"{100 * (row.error or 0):+.0f} %",
                "" if row.covered else "NOT COVERED",
            ]
        starts = "" if row.apart is None else f"{100 * row.apart:+.0f} %"
        cells.append([row.half, row.group, row.kind, row.base, row.words, f"{row.applied:.2f}x", starts, *said])
    return measuring.table([*head, "covered"], cells)


def chosen_workers(found: Sequence[tuple[str, str, str, str, float]]) -> str:
    cells = [[kind, base, chosen, best, f"{100 * lost:.1f} %"] for kind, base, chosen, best, lost in found]
    close = sum(lost <= CLOSE for *_, lost in found)
    text = measuring.table(["kind", "base", "chosen", "best timed", "slower than the best"], cells)
    return f"{text}\n\nwithin 3 % of the best: {close} of {len(found)}"
