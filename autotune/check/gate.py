"""Limits on a recorded profile: `--max data_wait_share=0.1`, `--max-regression 5% --against before.json`."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot

from autotune import catalogue
from autotune.errors import UsageError
from autotune.model.checked import Gate
from autotune.model.evidence import Evidence
from autotune.model.report import Report

_NUMBERS = ("int", "float", "share", "ms", "s", "bytes", "per_s")
_TRAIN = "loader#train"
_SAME_SHARE = 0.01
"""Samples per step that differ by less are the same: the last batch of an epoch is shorter."""


def limits(report: Report, maxima: Mapping[str, float]) -> tuple[Gate, ...]:
    """One gate for each fact of `maxima`. A fact that the recording does not hold does not pass.

    Raises UsageError for a name that is no fact, or that several facts share.
    """
    return tuple(_limit(fact_name(name), limit, report.evidence) for name, limit in maxima.items())


def regression(report: Report, before: Report, limit: float) -> Gate:
    """Whether the median step is at most `limit` (a share) slower than in `before`, or within the noise of both runs.

    When the steps hold other numbers of samples, the time of a sample is compared.
    """
    name = "step.median_ms"
    new, old = (_number(one.evidence, name) for one in (report, before))
    if new is None or old is None:
        which = "recording" if new is None else "one before"
        return Gate(name, new, old * (1 + limit) if old else 0.0, False, f"the {which} has no measured step")
    noise = _noise(report, before)
    if noise is None:
        return Gate(name, new, old * (1 + limit), False, "too few steps to tell a change from noise: record more")
    scale, unit = _scale(report, before)
    expected = old * scale
    said = f"{new:.4g} ms against {expected:.4g} ms{unit}: {new / expected - 1:+.1%}, noise {noise:.1%}"
    return Gate(name, new, expected * (1 + limit), new <= expected * (1 + max(limit, noise)), said)


def fact_name(name: str) -> str:
    """The fact that `name` means: itself, or the only one that ends in ".name" ("data_wait_share")."""
    numbers = [fact for fact, entry in catalogue.facts().items() if entry.type in _NUMBERS]
    found = [name] if name in numbers else [fact for fact in numbers if fact.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    near = catalogue.near(name)
    to_do = f"Write one of: {', '.join(found)}." if found else f"Did you mean {near}?" if near else ""
    what = "several facts are called" if found else "there is no fact with a number that is called"
    raise UsageError(f'{what} "{name}"', where="--max", to_do=to_do)


def _limit(name: str, limit: float, evidence: Evidence) -> Gate:
    value = _number(evidence, name)
    if value is None:
        return Gate(name, None, limit, False, "this recording does not hold it")
    return Gate(name, value, limit, value <= limit, "")


def _number(evidence: Evidence, name: str) -> float | None:
    """The value of the run or of its training loader; else the largest of all subjects."""
    known = evidence.lookup(_TRAIN, name)
    values = [known] if known is not None else [facts[name] for facts in evidence.facts.values() if name in facts]
    return max((float(value) for value in values if isinstance(value, int | float)), default=None)


def _noise(report: Report, before: Report) -> float | None:
    """Half width of the interval of the ratio of both steps, as a share."""
    shares = [_number(one.evidence, "step.noise_share") for one in (report, before)]
    return None if None in shares else hypot(*(share for share in shares if share is not None))


def _scale(report: Report, before: Report) -> tuple[float, str]:
    """How many times the samples of the step before a step has now, and what to say about it."""
    now, then = (_samples(one) for one in (report, before))
    if now is None or then is None or abs(now / then - 1) <= _SAME_SHARE:
        return 1.0, ""
    return now / then, f" (for {now:.4g} samples instead of {then:.4g})"


def _samples(report: Report) -> float | None:
    """Samples of an optimizer step of one process."""
    step = report.step
    return step.samples_per_s * step.mean_ms / 1000 if step is not None and step.samples_per_s else None
