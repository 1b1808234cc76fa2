"""Windows of whole epochs: where these are short, what each one's beginning costs must come in as often as it does."""

from __future__ import annotations

from autotune.model.derived import Derived
from autotune.verify.thresholds import MOST_EPOCH_S

TRAIN = "loader#train"


def steps_of(num_batches: object, batches_per_step: object) -> int | None:
    """Optimizer steps of an epoch; None where the length of the loader is unknown, or what a step takes of it."""
    if (
        not isinstance(num_batches, int | float)
        or not isinstance(batches_per_step, int | float)
        or not batches_per_step
    ):
        return None
    return max(1, round(num_batches / batches_per_step))


def observed_epochs(derived: Derived) -> int | None:
    """Those of a start."""
    facts = {fact.name: fact.value for fact in derived.facts if fact.subject == TRAIN}
    return steps_of(facts.get("loader.num_batches"), facts.get("loader.batches_per_step"))


def multiple(step_s: float, epoch_steps: int | None) -> int:
    """Of how many steps a window has to hold a multiple: of an epoch where that is short, else of one."""
    return epoch_steps if epoch_steps is not None and epoch_steps * step_s <= MOST_EPOCH_S else 1
