"""What a stored diagnosis says of memory: the measured peak of its window, scaled to other micro-batches."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from autotune.diagnose import diagnose
from autotune.errors import UsageError
from autotune.fit.memory_need import CONTEXT
from autotune.model.fitted import MemoryNeed
from autotune.model.outlook import MemoryBudget
from autotune.predict import memory_budget as names
from autotune.predict.gain_inputs import TRAIN


class MeasuredBudget(Struct, frozen=True):
    """The budget of a run, and the samples of its micro-batch; None is unknown."""

    command: tuple[str, ...]
    memory: MemoryBudget
    samples: int | None
    notes: tuple[str, ...]


def read(name: str, cwd: Path) -> MeasuredBudget:
    """The memory budget of the stored run `name`. Raises UsageError where it has none."""
    report = diagnose.load(name, cwd=cwd)
    memory = report.outlook.memory
    if memory is None or memory.of(names.WEIGHTS) is None:
        raise UsageError("this run has no memory budget: its model or its peak is unknown", where=name)
    value = report.evidence.lookup(TRAIN, "loader.batch_size")
    samples = value if type(value) is int else None
    where = "the GPU" if memory.on_device else "the host: libraries and data that stay there are in it"
    note = f"from the measured peak of a window on {where}"
    return MeasuredBudget(tuple(report.run.command), memory, samples, (note,))


def need(found: MeasuredBudget, samples: int | None) -> MemoryNeed:
    """What a micro-batch of `samples` needs. Activations and the rest grow in step with it, or not at all.

    The lower end has the smaller of the two and what is known, the upper end the larger one, and the whole peak.
    """
    memory = found.memory
    known = {
        name: memory.of(name) or 0 for name in (names.WEIGHTS, names.GRADIENTS, names.OPTIMIZER, names.ACTIVATIONS)
    }
    fixed = sum(known.values()) - known[names.ACTIVATIONS]
    rest = memory.peak_bytes - fixed
    factor = samples / found.samples if samples and found.samples else 1.0
    low = fixed + known[names.ACTIVATIONS] * min(1.0, factor) * (1.0 if memory.on_device else 0.0)
    high = fixed + rest * max(1.0, factor)
    return MemoryNeed(samples, None, int(low) + CONTEXT[0], int(high) + CONTEXT[1], known)
