"""What-ifs: facts in, a gain with an interval and its basis out. A missing fact gives no gain, never a guess."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.model.evidence import Evidence
from autotune.model.finding import Gain
from autotune.model.rule import GainSpec
from autotune.predict.amortised import amortised
from autotune.predict.batch_curve import batch_curve
from autotune.predict.combine import combine, target
from autotune.predict.gain_inputs import Arguments
from autotune.predict.local_ratio import local_ratio
from autotune.predict.measured_ceiling import measured_ceiling
from autotune.predict.padding import padding
from autotune.predict.share_removed import share_removed
from autotune.predict.step_time import step_ms
from autotune.predict.tensor_cores import tensor_cores
from autotune.predict.threads import threads
from autotune.predict.workers import workers

__all__ = ["WHAT_IFS", "combine", "predict", "step_ms", "target"]

WHAT_IFS: Mapping[str, Callable[[Arguments, Evidence, str], Gain | None]] = {
    "share_removed": share_removed,
    "local_ratio": local_ratio,
    "padding": padding,
    "measured_ceiling": measured_ceiling,
    "workers": workers,
    "threads": threads,
    "tensor_cores": tensor_cores,
    "amortised": amortised,
    "batch_curve": batch_curve,
}
"""Every what-if that a rule's [gain] may name; catalogue/what_ifs.toml has the arguments, the docstring their use."""


def predict(spec: GainSpec, evidence: Evidence, subject: str) -> Gain | None:
    """The gain that a rule's what-if predicts for `subject`; None when a fact that it needs is unknown.

    Raises KeyError for a what-if that does not exist: rules are checked against WHAT_IFS when they are
    loaded.
    """
    return WHAT_IFS[spec.what_if](spec.arguments, evidence, subject)
