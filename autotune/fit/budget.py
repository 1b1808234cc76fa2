"""What a stored diagnosis says of memory: the measured peak of its window, scaled to other micro-batches."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from autotune.diagnose import diagnose
from autotune.errors import UsageError
from autotune.model.evidence import RUN
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


TO_DO = "Give the script instead of --load."


def read(name: str, cwd: Path) -> MeasuredBudget:
    """The memory budget of the stored run `name`. Raises UsageError where it has none, or is of several processes."""
    report = diagnose.load(name, cwd=cwd)
    memory = report.outlook.memory
    if memory is None or memory.of(names.WEIGHTS) is None:
        raise UsageError("this run has no memory budget: its model or its peak is unknown", where=name, to_do=TO_DO)
    world = report.evidence.lookup(RUN, "run.world_size")
    if report.run.num_processes > 1 or (type(world) is int and world > 1):
        what = "this run had several processes: what each card shares with others is unknown"
        raise UsageError(what, where=name, to_do=TO_DO)
    value = report.evidence.lookup(TRAIN, "loader.batch_size")
    samples = value if type(value) is int else None
    where = "the GPU" if memory.on_device else "the host: libraries and data that stay there are in it"
    note = f"from the measured peak of a window on {where}"
    return MeasuredBudget(tuple(report.run.command), memory, samples, (note,))


def need(found: MeasuredBudget, samples: int | None) -> MemoryNeed:
    """What a micro-batch of `samples` needs: predict.memory_budget.card_need.

    Parts belong to the measured micro-batch alone. Raises UsageError where nothing can be scaled.
    """
    memory = found.memory
    every = (names.WEIGHTS, names.GRADIENTS, names.OPTIMIZER, names.ACTIVATIONS)
    known = {name: size for name in every if (size := memory.of(name)) is not None}
    activations = known.get(names.ACTIVATIONS)
    if activations is None or sum(known.values()) > memory.peak_bytes:
        what = "what activations took at the measured peak is unknown: its known parts do not leave a rest"
        raise UsageError(what, where="--load", to_do=TO_DO)
    if samples is not None and found.samples is None:
        what = "the micro-batch of the stored run is unknown, so its peak cannot be scaled to another"
        raise UsageError(what, where="--batch", to_do=f"Leave --batch out, or: {TO_DO}")
    factor = samples / found.samples if samples and found.samples else 1.0
    low, high = names.card_need(memory, factor)
    return MemoryNeed(samples, None, low, high, known if factor == 1.0 else {})
