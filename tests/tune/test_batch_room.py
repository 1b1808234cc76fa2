from __future__ import annotations

import pytest

from autotune.model.evidence import Evidence, Value
from autotune.model.outlook import MemoryBudget, MemoryPart
from autotune.model.rule import Effect
from autotune.model.tuned import Space
from autotune.tune.space import space

GIB = 2**30


def budget(rest: float | None, *, limit: int = 40, on_device: bool = True, held: float | None = 12.0) -> MemoryBudget:
    """16 GiB of weights, gradients and optimizer state, and `rest` GiB of activations, at a micro-batch of 3. Between
    two steps `held` GiB are in use, by default weights and state."""
    sizes = {"weights": 4.0, "gradients": 4.0, "optimizer state": 8.0, "activations and the rest": rest}
    parts = tuple(
        MemoryPart(name, None if each is None else int(each * GIB), "measured", "") for name, each in sizes.items()
    )
    return MemoryBudget(parts, 17 * GIB, limit * GIB, on_device, None if held is None else int(held * GIB))


def searched(facts: dict[str, Value], memory: MemoryBudget | None = None) -> Space:
    """The space of the micro-batch axis: 3 samples, 4 accumulation steps."""
    known = {"train.accumulation_steps": 4, **facts}
    evidence = Evidence({"run": known, "loader#train": {"loader.batch_size": 3}})
    return space(evidence, {"batch"}, {Effect.ALTERING}, lambda setting, subject: "", memory)


def sizes(found: Space) -> list[Value]:
    return [point["loader.batch_size"] for axis in found.axes for point in axis.points]


def reasons(found: Space) -> list[str]:
    return [one.why for one in found.left_out if one.setting == "loader.batch_size"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"batch_curve.double_ran_out": True}, [1, 2, 3, 4]),
        ({"memory.used_share": 0.3, "batch_curve.double_used_share": 0.49}, [1, 2, 3, 4, 6, 12]),
        ({"memory.used_share": 0.3, "batch_curve.double_used_share": 0.51}, [1, 2, 3, 4, 6]),
        ({"memory.used_share": 0.95, "batch_curve.double_used_share": 0.99}, [1, 2, 3]),
        ({"memory.used_share": 0.3, "batch_curve.double_used_share": 0.2}, [1, 2, 3, 4, 6, 12]),
        ({"memory.used_share": 0.3}, [1, 2, 3, 4, 6, 12]),
    ],
)
def test_micro_batches_fit_in_memory_as_far_as_it_is_known(facts: dict[str, Value], expected: list[int]) -> None:
    assert sizes(searched(facts)) == expected


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (budget(6.6), [1, 2, 3, 4, 6]),  # 16 + 4 x 6.6 = 42.4 GiB of 36
        (budget(5.0), [1, 2, 3, 4, 6, 12]),  # 16 + 4 x 5 = 36, on the limit
        (budget(5.1), [1, 2, 3, 4, 6]),
        (budget(19.0), [1, 2, 3]),
        (budget(30.0), [1, 2, 3]),  # the run's own stays, whatever the budget says
        (budget(30.0, on_device=False), [1, 2, 3, 4, 6, 12]),  # resident memory does not say what grows
        (budget(None), [1, 2, 3, 4, 6, 12]),
        (budget(11.6, held=17.0), [1, 2, 3, 4, 6]),  # a teacher of 5 GiB: 21 + 4 x 6.6 = 47.4 GiB of 36
        (budget(10.0, held=19.0), [1, 2, 3, 4, 6, 12]),  # of 7 GiB: 16 + 7 + 4 x 3 = 35
        (budget(6.6, held=None), [1, 2, 3, 4, 6, 12]),  # what is held between two steps is not known
    ],
)
def test_the_memory_budget_says_it_where_twice_was_not_tried(memory: MemoryBudget, expected: list[int]) -> None:
    assert sizes(searched({}, memory)) == expected


def test_a_measured_peak_of_twice_counts_before_the_budget() -> None:
    facts: dict[str, Value] = {"memory.used_share": 0.3, "batch_curve.double_used_share": 0.4}
    assert sizes(searched(facts, budget(19.0))) == [1, 2, 3, 4, 6, 12]


def test_what_is_not_tried_is_said_with_the_reason() -> None:
    assert reasons(searched({}, budget(6.6))) == [
        "micro-batches of 12 would take more than 90% of the memory by the memory budget of the diagnosis"
    ]
    assert reasons(searched({"batch_curve.double_ran_out": True})) == [
        "micro-batches of 6, 12 would not fit: 6 ran out of memory in the diagnosis"
    ]
    needs: dict[str, Value] = {"batch_curve.double_left_out": True, "batch_curve.double_needs_bytes": 41 * GIB}
    assert reasons(searched(needs)) == [
        "micro-batches of 6, 12 would not fit: 6 needs 41 GiB at least by the diagnosis, and the device has less"
    ]
    assert reasons(searched({})) == []
