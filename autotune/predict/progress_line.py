"""A pasted progress line, read: tqdm, the notebook bar of transformers, Lightning's bars, "step 1200/50000", logs."""

from __future__ import annotations

import re

from autotune.errors import UsageError
from autotune.model.outlook import ProgressLine

_COUNT = r"\d[\d,_]{0,17}(?:(?:\.\d{1,6})?[kMG])?"
_CLOCK = r"(?:\d{1,4}\s*d(?:ays?)?,?\s*)?\d{1,9}:\d\d(?::\d\d)?"
_ENDS = rf"\[?\s*(?P<elapsed>{_CLOCK})\s*(?:[<•]\s*(?P<left>{_CLOCK})?|,|\])"
_BAR = re.compile(rf"(?<![\d./])(?P<step>{_COUNT})\s*/\s*(?P<total>{_COUNT})\s*{_ENDS}", re.ASCII)
_ENDLESS = re.compile(rf"(?<![\d./])(?P<step>{_COUNT})\s*(?:it|steps?|batch(?:es)?)\s+{_ENDS}", re.ASCII)
_LENGTHS = ("max", "total", "warmup", "eval", "save", "logging", "accumulation", "optimization")
"""What makes "total steps: 50000" no position."""
_NAMED = re.compile(
    rf"(?<![a-z_-]){''.join(rf'(?<!{word} )' for word in _LENGTHS)}"
    r"(?:(?:global|current)[_ ]?step|num_updates|steps?|iter(?:ation)?s?|updates?)['\"]?\s*[:=#]?\s*\[?\s*"
    rf"(?P<step>{_COUNT})(?![\d.]|:\d)(?:\s*(?:/|of|out of)\s*(?P<total>{_COUNT}))?",
    re.ASCII | re.IGNORECASE,
)
_BARE = re.compile(rf"\s*(?P<step>{_COUNT})(?:\s*(?:/|of)\s*(?P<total>{_COUNT}))?\s*", re.ASCII)
_RATE = re.compile(r"(?P<rate>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>(?:it|iters?|steps?|batch(?:es)?)/s)\b", re.ASCII)
_PERIOD = re.compile(
    r"(?P<period>\d{1,9}(?:\.\d{1,9})?)\s*(?P<unit>m?s)/(?:it|iter|step|batch)\b", re.ASCII | re.IGNORECASE
)
_EPOCH = re.compile(r"epoch\W{0,3}(\d{1,9})(?![\d.])", re.ASCII | re.IGNORECASE)
_EPOCHS_DONE = re.compile(
    r"epoch['\"]?\s*[:=]\s*['\"]?(\d{1,9}\.\d{1,9}|(?<=['\"])\d{1,9}(?=['\"]))", re.ASCII | re.IGNORECASE
)
"""Trainer of transformers prints '0.98', then '1': a bare 1 may as well be the number of an epoch that began."""
_ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_SCALES = {"k": 10**3, "M": 10**6, "G": 10**9}
_ALIKE = 0.5
"""A bar this much shorter than another is of something else: an evaluation, the epochs."""

DOUBT, DOUBT_S = 0.05, 2.0
"""The time left that a bar shows is (total - step) x rate, to the rounding of what it prints; beyond this the line does
not add up."""


def progress(text: str) -> ProgressLine:
    """What `text` says; of several lines or updates the last one counts. Raises UsageError when it tells no step.

    An evaluation's bar does not count beside that of the training. A bar's clock is [hours:]minutes:seconds: 46:47 is
    under an hour.
    """
    line = _ESCAPE.sub("", text)
    found = _bar(line) or _last(_ENDLESS, line) or _last(_NAMED, line) or _BARE.fullmatch(line)
    if found is None:
        done = _last(_EPOCHS_DONE, line)
        if done is None:
            raise _unread(text, "it names no step")
        return ProgressLine(epochs_done=float(done[1]))
    named = found.groupdict()
    step, total = _count(named["step"]), _count(named["total"]) if named.get("total") else None
    if total is not None and (step > total or not total):
        raise _unread(text, f"step {step:,} lies beyond its end, {total:,}")
    rest, epoch = line[found.end() :], _EPOCH.findall(line[: found.start()])
    other = _BAR.search(rest)
    period = _period_s(rest[: other.start()] if other else rest)
    return ProgressLine(
        step=step,
        total=total,
        step_s=period,
        epoch=int(epoch[-1]) if epoch else None,
        adds_up=_adds_up(total and total - step, period, named.get("left")),
    )


def _bar(line: str) -> re.Match[str] | None:
    """The last bar, but none that has ended where another goes on, and none that is much shorter than another."""
    updates: dict[int, re.Match[str]] = {}
    for bar in _BAR.finditer(line):
        updates.pop(_count(bar["total"]), None)
        updates[_count(bar["total"])] = bar
    going_on = {total: bar for total, bar in updates.items() if _count(bar["step"]) < total} or updates
    longest = max(going_on, default=0)
    return next((bar for total, bar in reversed(going_on.items()) if total >= _ALIKE * longest), None)


def _last(kind: re.Pattern[str], line: str) -> re.Match[str] | None:
    return next(reversed(list(kind.finditer(line))), None)


def _count(text: str) -> int:
    """ "1200", "1,200" or "1.20k"."""
    scale = _SCALES.get(text[-1], 1)
    number = text.rstrip("kMG").replace(",", "").replace("_", "")
    return round(float(number) * scale) if scale > 1 else int(number)


def _period_s(rest: str) -> float | None:
    """Seconds per step from "2.33s/it" or "1.25 it/s", whichever comes first after the counts."""
    rate, period = _RATE.search(rest), _PERIOD.search(rest)
    if period and not (rate and rate.start() < period.start()):
        seconds = float(period["period"]) / (1000 if period["unit"].lower() == "ms" else 1)
        return seconds or None
    return 1 / float(rate["rate"]) if rate and float(rate["rate"]) else None


def _adds_up(left: int | None, step_s: float | None, shown: str | None) -> bool:
    """Whether the time left that the line shows is that of the steps left; True where it shows none."""
    if left is None or step_s is None or shown is None:
        return True
    expected = left * step_s
    return abs(clock_s(shown) - expected) <= DOUBT_S + DOUBT * expected


def clock_s(text: str) -> float:
    """Seconds of "46:47" (minutes:seconds), "5:42:11" or "1 day, 2:00:00"."""
    days, _, clock = text.replace(",", " ").rpartition("d") if "d" in text else ("0", "", text)
    parts = [int(part) for part in re.findall(r"\d+", clock)]
    seconds = sum(part * (1, 60, 3600)[power] for power, part in enumerate(reversed(parts)))
    return int(re.findall(r"\d+", days)[0]) * 86400.0 + seconds


def _unread(text: str, why: str) -> UsageError:
    shown = " ".join(text.split())[:60]
    return UsageError(
        f"{why}: {shown!r}", where="--at", to_do='Write it as "step 1200/50000", or paste the line of a progress bar.'
    )
