"""The memory budget of Recordings made by hand: what is measured, what is modelled, what stays unknown."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from autotune.model.outlook import MemoryBudget, MemoryPart
from autotune.model.recording import Event, Recording, WhatIf
from autotune.predict import memory_budget as of

MB = 10**6


def model(**given: Any) -> dict[str, Any]:
    row = {
        "id": 0,
        "type": "Net",
        "num_params": 25 * MB,
        "num_trainable": 25 * MB,
        "param_bytes": 100 * MB,
        "dtypes": {"float32": 25 * MB},
        "parallel": None,
    }
    return {**row, **given}


ADAM = {"type": "AdamW", "module": "torch.optim.adamw", "arguments": {"amsgrad": False}, "num_params": 25 * MB}
GPU = {"peak_allocated_bytes": 700 * MB, "peak_reserved_bytes": 800 * MB, "total_bytes": 2000 * MB}


def recording(
    models: tuple[dict[str, Any], ...] = (model(),),
    optimizers: tuple[dict[str, Any], ...] = (ADAM,),
    what_ifs: tuple[WhatIf, ...] = (),
    device: str = "cuda",
    memory: dict[str, int] | None = None,
    local: int = 1,
) -> Recording:
    empty: dict[str, Any] = dict.fromkeys(Recording.__struct_fields__, ())
    trained = Event("forward", 0, 1, 0, 3)
    changed: dict[str, Any] = {
        "models": models,
        "optimizers": optimizers,
        "what_ifs": what_ifs,
        "device": {"type": device},
        "memory": GPU if memory is None else memory,
        "events": (trained,),
        "process": {"rank": 0, "local_world_size": local},
    }
    return Recording(**{**empty, **changed})


def budget(made: Recording, limit: int | None = None) -> MemoryBudget:
    found = of.memory_budget(made, limit)
    assert found is not None
    return found


def part(found: MemoryBudget, name: str) -> MemoryPart:
    return next(each for each in found.parts if each.name == name)


def sizes(found: MemoryBudget) -> dict[str, int | None]:
    return {each.name: None if each.num_bytes is None else each.num_bytes // MB for each in found.parts}


def test_a_gpu_run_adds_up_to_the_device() -> None:
    found = budget(recording())
    assert sizes(found) == {
        of.WEIGHTS: 100,
        of.GRADIENTS: 100,
        of.OPTIMIZER: 200,
        of.ACTIVATIONS: 300,
        of.CACHE: 100,
        of.HEADROOM: 1200,
    }
    assert {each.name for each in found.parts if each.basis == "measured"} == {of.WEIGHTS, of.CACHE, of.HEADROOM}
    assert {each.basis for each in found.parts} == {"measured", "modelled"}
    assert found.on_device


def test_a_cpu_run_has_the_process_and_no_cache() -> None:
    memory = {"rss_peak_bytes": 1000 * MB, "rss_start_bytes": 250 * MB}
    found = budget(recording(device="cpu", memory=memory), 4000 * MB)
    assert sizes(found) == {
        of.PROCESS: 250,
        of.WEIGHTS: 100,
        of.GRADIENTS: 100,
        of.OPTIMIZER: 200,
        of.ACTIVATIONS: 350,
        of.HEADROOM: 3000,
    }
    assert sum(each.num_bytes or 0 for each in found.parts) == 4000 * MB


def test_a_serialised_state_is_measured() -> None:
    saved = WhatIf("serialise", "completed", {}, {"ns": 1, "bytes": 350 * MB})
    found = part(budget(recording(what_ifs=(saved,))), of.OPTIMIZER)
    assert (found.num_bytes, found.basis) == (250 * MB, "measured")


@pytest.mark.parametrize(("device", "expected"), [("cuda", 150 * MB), ("cpu", 40)])
def test_the_state_that_was_read_goes_before_what_is_modelled(device: str, expected: int) -> None:
    rows = ({**ADAM, "state_bytes": {"cuda": 100 * MB, "cpu": 40}}, {**ADAM, "id": 1, "state_bytes": {"cuda": 50 * MB}})
    saved = WhatIf("serialise", "completed", {}, {"ns": 1, "bytes": 350 * MB})
    memory = GPU if device == "cuda" else {"rss_peak_bytes": 1000 * MB}
    made = recording(optimizers=rows, what_ifs=(saved,), device=device, memory=memory)
    found = part(budget(made), of.OPTIMIZER)
    assert (found.num_bytes, found.basis) == (expected, "measured")


def test_a_state_that_was_not_read_is_modelled() -> None:
    rows = ({**ADAM, "state_bytes": {"cuda": 100 * MB}}, {**ADAM, "state_bytes": None})
    found = part(budget(recording(optimizers=rows)), of.OPTIMIZER)
    assert (found.num_bytes, found.basis) == (200 * MB, "modelled")


@pytest.mark.parametrize(
    "models",
    [(model(parallel="FullyShardedDataParallel"),), (model(), model(id=1, type="Other"))],
)
def test_a_state_that_may_not_be_of_these_weights_is_not_taken(models: tuple[dict[str, Any], ...]) -> None:
    saved = WhatIf("serialise", "completed", {}, {"ns": 1, "bytes": 350 * MB})
    made = recording(models=models, what_ifs=(saved,))
    made = Recording(**{**{name: getattr(made, name) for name in Recording.__struct_fields__}, "events": ()})
    assert part(budget(made), of.OPTIMIZER).basis == "modelled"


@pytest.mark.parametrize(
    ("row", "states"),
    [
        (ADAM, 2),
        ({**ADAM, "arguments": {"amsgrad": True}}, 3),
        ({**ADAM, "type": "Adagrad"}, 1),
        ({**ADAM, "type": "SGD", "module": "torch.optim.sgd"}, None),
        ({**ADAM, "type": "SGD", "module": "torch.optim.sgd", "arguments": {"momentum": 0.9}}, 1),
        ({**ADAM, "type": "SGD", "module": "torch.optim.sgd", "arguments": {"momentum": 0}}, 0),
        ({**ADAM, "module": "bitsandbytes.optim.adamw"}, None),
    ],
)
def test_what_optimizers_keep(row: dict[str, Any], states: int | None) -> None:
    found = part(budget(recording(optimizers=(row,))), of.OPTIMIZER)
    assert found.num_bytes == (None if states is None else states * 100 * MB)


def test_an_unknown_part_is_said_to_be_in_the_rest() -> None:
    found = budget(recording(optimizers=()))
    assert part(found, of.OPTIMIZER).basis is None
    assert "part of the rest" in part(found, of.OPTIMIZER).how
    assert sizes(found)[of.ACTIVATIONS] == 500


@pytest.mark.parametrize(
    ("dtypes", "trained", "gradients"),
    [
        ({"bfloat16": 24 * MB, "float32": MB}, MB, 4 * MB),
        ({"torch.bfloat16": 25 * MB}, MB, 2 * MB),
        ({"uint8": 24 * MB, "float32": MB}, 2 * MB, None),
        ({"bfloat16": MB, "float32": MB, "uint8": 23 * MB}, MB, None),
    ],
)
def test_gradients_are_of_what_trains(dtypes: dict[str, int], trained: int, gradients: int | None) -> None:
    lora = model(dtypes=dtypes, num_trainable=trained)
    assert part(budget(recording(models=(lora,))), of.GRADIENTS).num_bytes == gradients


def test_a_model_that_was_called_with_its_wrapper_too_counts_once() -> None:
    made = recording(models=(model(), model(id=1, parallel="DistributedDataParallel"), model(id=2, num_params=1)))
    assert sizes(budget(made))[of.WEIGHTS] == 100


@pytest.mark.parametrize("wrapper", [{"parallel": "DistributedDataParallel"}, {"compiled": True}])
def test_two_models_that_are_alike_count_twice(wrapper: dict[str, Any]) -> None:
    twins = (model(), model(id=1))
    wrapped = tuple(model(id=each["id"] + 2, **wrapper) for each in twins)
    for models in (twins, wrapped, (*twins, *wrapped), (*wrapped, *twins)):
        made = replace(recording(models=models), events=())
        assert sizes(budget(made))[of.WEIGHTS] == 200


def test_libraries_that_come_after_torch_are_in_the_rest() -> None:
    memory = {"rss_peak_bytes": 1000 * MB, "rss_start_bytes": 250 * MB}
    found = budget(recording(device="cpu", memory=memory))
    assert [found.parts[0].name, found.parts[0].how] == ["Python and torch", "resident once torch was imported"]


def test_parts_beyond_the_peak_leave_the_rest_unknown() -> None:
    found = budget(recording(memory={**GPU, "peak_allocated_bytes": 300 * MB}))
    assert part(found, of.ACTIVATIONS).num_bytes is None
    assert "not all were in memory at once" in part(found, of.ACTIVATIONS).how


def test_a_headroom_that_several_processes_share_is_unknown() -> None:
    memory = {"rss_peak_bytes": 1000 * MB, "rss_start_bytes": 250 * MB}
    found = budget(recording(device="cpu", memory=memory, local=2), 4000 * MB)
    assert part(found, of.HEADROOM).num_bytes is None
    assert part(budget(recording(device="cpu", memory=memory)), of.HEADROOM).how == "the limit is not known"


def test_without_a_peak_or_a_model_there_is_none() -> None:
    assert of.memory_budget(recording(memory={}), None) is None
    assert of.memory_budget(recording(models=()), None) is None
