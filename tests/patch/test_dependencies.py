"""Changes that only hold together are written together or not at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from autotune.model.evidence import RUN, Location, Value
from autotune.model.patch import Edit, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.patch import with_dependencies
from autotune.patch.dependencies import dependencies, missing_dependencies

EDIT = Edit("a.yaml", "k", "1", "2", sha256="0" * 64)


def change(
    setting: str, *, rule: str = "GA004", old: Value | None = 1, by_hand: str = "", **more: object
) -> PatchChange:
    subject = "loader#train" if setting.startswith("loader.") else RUN
    edits = () if by_hand else (EDIT,)
    return PatchChange(setting, subject, old, 2, (rule,), Effect.EXACT, edits=edits, by_hand=by_hand, **more)  # type: ignore[arg-type]


def call(**arguments: Value) -> ConsumerCall:
    given = {key: WrittenValue(key, value, Location("a.yaml", 1)) for key, value in arguments.items()}
    return ConsumerCall("hf_trainer", "", RUN, given, Location("a.yaml", 1))


def needed(*changes: PatchChange, calls: tuple[ConsumerCall, ...] = ()) -> list[tuple[str, ...]]:
    return [dependencies(each, changes, calls) for each in changes]


def test_the_micro_batch_and_accumulation_of_one_rule_need_each_other() -> None:
    batch, accumulation = change("loader.batch_size"), change("train.accumulation_steps")
    assert needed(batch, accumulation) == [("train.accumulation_steps",), ("loader.batch_size",)]
    assert needed(batch, change("train.accumulation_steps", rule="ME001")) == [(), ()]


def test_what_a_rule_asks_for_together_is_changed_together() -> None:
    own, fsdp = "train.activation_checkpointing", "fsdp.activation_checkpointing"
    off, on = change(own, rule="FS004", needs=(fsdp,)), change(fsdp, rule="FS004", needs=(own,))
    assert needed(off, on) == [(fsdp,), (own,)]
    assert needed(off) == [(fsdp,)]  # what cannot be changed is needed none the less
    first, _ = with_dependencies([off, replace(on, edits=(), by_hand="the config was not read")])
    assert first.by_hand.endswith(f"it depends on {fsdp}, which has to be changed by hand")


@pytest.mark.parametrize("name", ["loader.prefetch_factor", "loader.persistent_workers", "loader.start_method"])
def test_what_only_workers_have_needs_workers_where_there_are_none(name: str) -> None:
    assert needed(change("loader.num_workers", old=0), change(name)) == [(), ("loader.num_workers",)]
    assert needed(change("loader.num_workers", old=None), change(name)) == [(), ("loader.num_workers",)]
    assert needed(change("loader.num_workers", old=2), change(name)) == [(), ()]


@pytest.mark.parametrize(("best", "together"), [(True, True), (False, False), (None, False)])
def test_saves_and_evaluations_belong_together_where_the_best_model_is_loaded(
    best: bool | None, together: bool
) -> None:
    calls = (call() if best is None else call(load_best_model_at_end=best),)
    found = needed(change("checkpoint.interval_steps"), change("evaluation.interval_steps"), calls=calls)
    pair = [("evaluation.interval_steps",), ("checkpoint.interval_steps",)]
    assert found == (pair if together else [(), ()])


def test_a_change_whose_partner_is_by_hand_is_by_hand() -> None:
    batch = change("loader.batch_size", needs=("train.accumulation_steps",))
    accumulation = change("train.accumulation_steps", by_hand="the loop itself", needs=("loader.batch_size",))
    other = change("checkpoint.interval_steps")
    first, second, third = with_dependencies([batch, accumulation, other])
    assert not first.edits
    assert first.by_hand.endswith("it depends on train.accumulation_steps, which has to be changed by hand")
    assert (second, third) == (accumulation, other)


def test_the_workers_of_another_loader_do_not_count() -> None:
    prefetch = change("loader.prefetch_factor", needs=("loader.num_workers",))
    workers = change("loader.num_workers")
    other = replace(workers, subject="loader#eval")
    assert missing_dependencies([other, prefetch], [True, True]) == [(), ("loader.num_workers",)]
    assert missing_dependencies([other, workers, prefetch], [False, True, True]) == [(), (), ()]


def test_of_a_chain_none_is_made_without_its_end() -> None:
    start = change("loader.start_method", needs=("loader.persistent_workers",))
    live = change("loader.persistent_workers", needs=("loader.num_workers",))
    workers = change("loader.num_workers")
    expected = [("loader.persistent_workers",), ("loader.num_workers",), ()]
    assert missing_dependencies([start, live, workers], [True, True, False]) == expected
    assert missing_dependencies([start, live, workers], [True, True, True]) == [(), (), ()]


def test_a_batch_and_the_accumulation_of_another_rule_are_no_partners() -> None:
    batch = change("loader.batch_size", needs=("train.accumulation_steps",))
    other = change("train.accumulation_steps", rule="ME001")
    assert missing_dependencies([batch, other], [True, True]) == [("train.accumulation_steps",), ()]
