from __future__ import annotations

import pytest

from autotune import catalogue
from autotune.engine.expr import compile_expression
from autotune.errors import UsageError
from autotune.model.evidence import Evidence
from autotune.model.rule import Effect
from autotune.tune.points import COMPUTED
from autotune.tune.space import by_axis, searched, space

FACTS = {
    "run": {
        "machine.cpus_per_rank": 2.0,
        "device.type": "cpu",
        "memory.limit_bytes": 1000,
        "train.accumulation_steps": 2,
        "train.num_threads": 2,
        "train.activation_checkpointing": False,
        "train.compile": False,
        "train.precision": "fp32",
        "data.group_by_length": False,
        "data.packing": False,
        "model.attention": "eager",
        "model.supports_sdpa": True,
        "model.has_batchnorm": False,
        "code.accumulation_mistake": None,
        "code.loss_ignores_num_items": None,
        "model.adds_losses": None,
        "code.lacks_accumulate": None,
        "code.accumulates": False,
        "code.divides_loss_again": None,
    },
    "loader#train": {
        "loader.batch_size": 2,
        "loader.num_workers": 0,
        "loader.persistent_workers": False,
        "loader.pin_memory": False,
        "loader.pad_share": 0.3,
    },
    "optimizer#0": {"optimizer.fused": False, "optimizer.has_fused": True},
}


def found(without=(), knobs=frozenset(), allow=frozenset(), cannot=(), **changed):
    named = {name.replace("__", "."): value for name, value in changed.items()}
    facts = {
        owner: {name: named.get(name, value) for name, value in values.items() if name not in without}
        for owner, values in FACTS.items()
    }
    return space(Evidence(facts), knobs, allow, lambda setting, subject: "no place" if setting in cannot else "")


def axes(one) -> list[str]:
    return [axis.name for axis in one.axes]


def why(one, setting: str) -> str:
    return next(left.why for left in one.left_out if left.setting == setting)


def test_every_axis_knows_what_the_user_has() -> None:
    one = found()
    assert axes(one) == ["workers", "batch", "threads", "fused", "attention"]
    assert one.settings(one.current) == {
        "loader.num_workers": 0,
        "loader.batch_size": 2,
        "train.accumulation_steps": 2,
        "train.num_threads": 2,
        "optimizer.fused": False,
        "model.attention": "eager",
    }
    assert one.changes(one.current) == {}
    assert one.memory_limit_bytes == 900
    assert not one.is_on_device


def test_every_searched_setting_is_on_an_axis_or_left_out_with_a_reason() -> None:
    one = found()
    on_axis = {name for axis in one.axes for point in axis.points for name in point}
    left_out = {left.setting for left in one.left_out}
    assert on_axis | left_out | {"loader.persistent_workers"} == set(searched())
    assert not on_axis & left_out
    assert all(left.why for left in one.left_out)


def test_what_is_learned_changes_only_where_that_is_allowed() -> None:
    assert why(found(), "data.group_by_length") == "it is altering: what is learned may change"
    assert "grouping" in axes(found(allow={Effect.ALTERING}))
    assert "batch" not in axes(found(model__has_batchnorm=True))
    assert "batch" in axes(found(model__has_batchnorm=True, allow={Effect.ALTERING}))


@pytest.mark.parametrize(
    ("fact", "value", "because"),
    [
        ("code__accumulation_mistake", "the mistake in words", "the mistake in words"),
        ("code__loss_ignores_num_items", True, "an overridden compute_loss does not use num_items_in_batch"),
        ("code__lacks_accumulate", True, "an Accelerator is created, but the loop enters neither"),
        ("code__divides_loss_again", True, "a loss that the script divided by the accumulation steps"),
    ],
)
def test_accumulation_that_changes_gradients_is_searched_only_where_that_is_allowed(fact, value, because) -> None:
    one = found(**{fact: value})
    assert "batch" not in axes(one)
    assert why(one, "train.accumulation_steps").startswith(f"it is altering: what is learned may change, as {because}")
    assert why(one, "loader.batch_size") == "it can only change together with train.accumulation_steps"
    assert "batch" in axes(found(**{fact: value}, allow={Effect.ALTERING}))
    assert "batch" in axes(found(**{fact: type(value)()}))


def test_what_cannot_be_set_is_left_out_and_takes_its_partner_with_it() -> None:
    one = found(cannot=["train.accumulation_steps"])
    assert why(one, "train.accumulation_steps") == "no place"
    assert why(one, "loader.batch_size") == "it can only change together with train.accumulation_steps"
    workers = found(cannot=["loader.prefetch_factor"]).axes[0]
    assert workers.name == "workers"
    assert workers.points == tuple({"loader.num_workers": count} for count in range(5))


def test_a_setting_is_searched_only_where_the_facts_allow_it() -> None:
    assert why(found(), "train.compile") == "only on a GPU"
    assert why(found(without=["model.supports_sdpa"]), "model.attention") == "not known here: model.supports_sdpa"
    assert why(found(without=["optimizer.fused"]), "optimizer.fused") == "its value in this run is not known"
    on_device = found(device__type="cuda")
    assert {"compile", "checkpointing"} <= set(axes(on_device))
    assert "threads" not in axes(on_device)
    assert on_device.is_on_device


def test_a_value_that_is_not_listed_is_what_the_user_has() -> None:
    axis = found(model__attention="flash_attention_2").axes[-1]
    assert (axis.name, axis.points[axis.current]) == ("attention", {"model.attention": "flash_attention_2"})


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({"batch"}, ["batch"]),
        ({"accum"}, ["batch"]),
        ({"workers", "optimizer.fused"}, ["workers", "fused"]),
        ({"num_threads"}, ["threads"]),
    ],
)
def test_knobs_are_axes_or_settings(knobs, expected) -> None:
    one = found(knobs=frozenset(knobs))
    assert axes(one) == expected
    assert why(one, "model.attention") == "not among the knobs"


def test_a_knob_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="there is no knob colour") as raised:
        found(knobs=frozenset({"colour", "batch"}))
    assert "workers, batch" in str(raised.value)


@pytest.mark.parametrize("name", searched())
def test_a_search_entry_has_conditions_that_compile_and_values_of_its_type(name) -> None:
    entry = catalogue.settings()[name]
    search = entry.search
    assert bool(search.values) != (search.axis in COMPUTED)
    assert not search.when or compile_expression(search.when).kind == "bool"
    kinds = {"bool": bool, "int": int, "text": str}
    assert all(type(value) is kinds[entry.type] for value in search.values)


def test_an_axis_of_listed_values_has_one_setting() -> None:
    assert [name for name, entries in by_axis().items() if len(entries) > 1] == ["workers", "batch"]
    assert set(COMPUTED) <= set(by_axis())


def test_every_condition_is_said_in_words() -> None:
    assert all(bool(entry.search.when) == bool(entry.search.only) for entry in searched().values())
