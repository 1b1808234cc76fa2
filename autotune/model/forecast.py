"""What a step would take under settings that were not run."""

from __future__ import annotations

from msgspec import Struct

from autotune.model.finding import Basis


class Forecast(Struct, frozen=True):
    """Milliseconds of an optimizer step with the ends of their 90 % interval.

    `unmodelled` names the settings that were to change and that nothing is known of: the forecast is without them.
    `least_ms` is what the step takes without any wait that the changes could shorten, where they do nothing else.
    """

    ms: float
    low_ms: float
    high_ms: float
    basis: Basis
    unmodelled: tuple[str, ...] = ()
    least_ms: float | None = None
