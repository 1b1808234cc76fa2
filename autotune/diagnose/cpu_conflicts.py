"""Workers and threads share the CPUs: their changes are predicted together, and one may take the other's gain away."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from autotune.engine.evaluate import LITTLE
from autotune.model.evidence import RUN, Evidence, Value
from autotune.model.finding import Finding, Gain
from autotune.model.forecast import Forecast
from autotune.predict.gain_inputs import gain, number
from autotune.predict.step_time import step_ms

SHARING = ("threads", "workers")
"""The what-ifs of changes that share the CPUs, each by one finding at most."""


def resolve(findings: Sequence[Finding], evidence: Evidence) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings whose changes hold beside each other, and those that another takes the gain of.

    Where workers and threads together are hardly faster than the better of the two, the other is left out, with what it
    would add. A change whose own gain is not known takes that of no other.
    """
    pair = _pair(findings)
    alone = [_forecast((finding,), evidence) for finding in pair]
    both = _forecast(pair, evidence)
    known = [forecast for forecast in alone if forecast is not None]
    if both is None or len(known) < len(SHARING) or any(finding.gain is None for finding in pair):
        return tuple(findings), ()
    better, other = sorted(zip(known, pair, strict=True), key=lambda each: each[0].ms)
    if better[0].ms / both.ms >= LITTLE:
        return tuple(findings), ()
    then = Gain(
        better[0].ms / both.ms,
        better[0].low_ms / both.high_ms,
        better[0].high_ms / both.low_ms,
        both.basis,
        note=f"beside the change of {better[1].rule.id}",
    )
    left_out = replace(other[1], gain=then)
    return tuple(each for each in findings if each is not other[1]), (left_out,)


def together(findings: Sequence[Finding], evidence: Evidence) -> tuple[Sequence[Finding], Gain | None]:
    """The findings that share the CPUs where both are there, and their gain as one; nothing where it is not known."""
    pair = _pair(findings)
    forecast, mean = _forecast(pair, evidence), number(evidence, RUN, "step.mean_ms")
    own = [finding.gain.speedup for finding in pair if finding.gain is not None]
    if forecast is None or mean is None or len(own) < len(SHARING):
        return (), None
    speedup = max(mean / forecast.ms, *own)
    interval = min(speedup, mean / forecast.high_ms), max(speedup, mean / forecast.low_ms)
    return pair, gain(evidence, RUN, speedup, interval, forecast.basis)


def _pair(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The finding of each what-if that shares the CPUs; nothing where one of them is missing."""
    found = (
        next((one for one in findings if one.rule.gain and one.rule.gain.what_if == name and one.changes), None)
        for name in SHARING
    )
    pair = tuple(one for one in found if one is not None)
    return pair if len(pair) == len(SHARING) else ()


def _forecast(findings: Sequence[Finding], evidence: Evidence) -> Forecast | None:
    """The step under all changes of the findings; None where something of it is not modelled."""
    wanted: dict[str, Value] = {change.setting: change.new for one in findings for change in one.changes}
    forecast = step_ms(wanted, evidence) if wanted else None
    return None if forecast is None or forecast.unmodelled else forecast
