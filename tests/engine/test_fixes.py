from __future__ import annotations

import pytest
from engine_builders import HERE, TRAIN, evidence, rule, with_settings

from autotune.engine.fixes import advice_of, changes_of, effect_of
from autotune.model.evidence import RUN, Setting
from autotune.model.finding import SettingChange
from autotune.model.rule import Effect, Fix, Limit

WORKERS = "loader.num_workers"
FEW = Fix(setting=WORKERS, value="limits.few")
SDPA = Fix(setting="model.attention", value="'sdpa'")


def changes(values, *fixes: Fix, settings=()):
    base = with_settings(evidence(values), *settings)
    return changes_of(rule(fixes=fixes, limits={"few": Limit(2, "workers", "why")}), base, TRAIN)


def advice(values, *fixes: Fix):
    return advice_of(rule(fixes=fixes), evidence(values), TRAIN)


def new_values(values, *fixes: Fix):
    return [(each.setting, each.new) for each in changes(values, *fixes)]


def test_a_change_has_old_new_place_spelling_effect_and_note() -> None:
    old = Setting(WORKERS, TRAIN, 0, "observed", HERE, spelling="dataloader_num_workers")
    fix = Fix(setting=WORKERS, value="loader.workers_needed", note="starts {loader.workers_needed} processes")
    assert changes({"loader.workers_needed": 1200}, fix, settings=[old]) == (
        SettingChange(WORKERS, 0, 1200, Effect.EQUIVALENT, HERE, "dataloader_num_workers", "starts 1,200 processes"),
    )


def test_an_unset_setting_has_no_old_value_and_no_place() -> None:
    fix = Fix(setting="loader.prefetch_factor", value="1")
    assert changes({}, fix) == (SettingChange("loader.prefetch_factor", None, 1, Effect.EXACT),)


PIN = Fix(setting="loader.pin_memory", value="true")
LIVE = Fix(setting="loader.persistent_workers", value="true", optional=True)


@pytest.mark.parametrize(
    ("values", "fixes", "expected"),
    [
        ({}, (FEW, PIN), {WORKERS: ("loader.pin_memory",), "loader.pin_memory": (WORKERS,)}),
        ({}, (FEW, LIVE), {WORKERS: (), "loader.persistent_workers": (WORKERS,)}),
        ({WORKERS: 2}, (FEW, PIN), {"loader.pin_memory": ()}),
        ({"run.framework": "llmfoundry"}, (FEW, SDPA), {WORKERS: ("model.attention",)}),
        (
            {"loader.is_train": False},
            (FEW, Fix(setting="loader.pin_memory", value="true", when="loader.is_train")),
            {WORKERS: ()},
        ),
    ],
    ids=[
        "both or none",
        "an optional one",
        "the other is so already",
        "the other cannot be set",
        "the other is not asked for",
    ],
)
def test_the_settings_of_a_rule_change_together(values, fixes, expected) -> None:
    assert {each.setting: each.needs for each in changes(values, *fixes)} == expected


@pytest.mark.parametrize(
    ("framework", "expected", "said"),
    [
        ("hf_trainer", [("model.attention", "sdpa")], ()),
        ("llmfoundry", [], ("by hand, model.attention: sdpa, model.attn_config.attn_impl has no such value",)),
    ],
)
def test_a_value_that_the_framework_does_not_have_is_no_change(framework: str, expected: object, said: object) -> None:
    assert new_values({"run.framework": framework}, SDPA) == expected
    assert advice({"run.framework": framework}, SDPA) == said


MANY = Fix(setting=WORKERS, value="loader.workers_needed")
TRAINING = Fix(setting=WORKERS, value="1", when="loader.is_train")


@pytest.mark.parametrize(
    ("values", "fixes", "expected"),
    [
        ({"loader.workers_needed": 4}, (MANY, FEW), [(WORKERS, 4)]),
        ({}, (MANY, FEW), [(WORKERS, 2)]),
        ({"loader.is_train": True}, (TRAINING, FEW), [(WORKERS, 1)]),
        ({"loader.is_train": False}, (TRAINING, FEW), [(WORKERS, 2)]),
        ({}, (TRAINING, FEW), [(WORKERS, 2)]),
        ({WORKERS: 2}, (FEW,), []),
        ({WORKERS: 4, "loader.workers_needed": 4}, (MANY, FEW), []),
        ({}, (FEW, Fix(setting="loader.pin_memory", value="true")), [(WORKERS, 2), ("loader.pin_memory", True)]),
        ({}, (Fix(text="do it by hand"),), []),
        ({"loader.len_cv": 2.6}, (Fix(setting=WORKERS, value="loader.len_cv * limits.few"),), [(WORKERS, 5)]),
        ({}, (Fix(setting="train.precision", value='"bf16-mixed"'),), [("train.precision", "bf16-mixed")]),
    ],
    ids=[
        "the first decides",
        "an unknown value falls to the next",
        "its condition holds",
        "its condition does not hold",
        "its condition is unknown",
        "as it is already",
        "as it is already, and the next does not override",
        "two settings",
        "manual",
        "a whole number",
        "text",
    ],
)
def test_which_changes(values, fixes, expected) -> None:
    assert new_values(values, *fixes) == expected


@pytest.mark.parametrize(
    ("setting", "values", "effect"),
    [
        ("loader.prefetch_factor", {}, Effect.EXACT),
        ("train.precision", {}, Effect.ALTERING),
        ("loader.batch_size", {"model.has_batchnorm": False}, Effect.EQUIVALENT),
        ("loader.batch_size", {"model.has_batchnorm": True}, Effect.ALTERING),
        ("loader.batch_size", {}, Effect.ALTERING),
    ],
)
def test_effect_depends_on_facts_and_the_unknown_counts_as_grave(setting: str, values, effect: Effect) -> None:
    assert effect_of(setting, evidence(values), TRAIN) is effect


@pytest.mark.parametrize(
    ("values", "setting", "value", "spelling"),
    [
        ({"run.framework": "raw"}, WORKERS, "1", "num_workers"),
        ({"run.framework": "hf_trainer"}, WORKERS, "1", "dataloader_num_workers"),
        (
            {"run.framework": "hf_trainer", "software.transformers": (5, 22)},
            "train.activation_checkpointing",
            "false",
            "gradient_checkpointing",
        ),
        (
            {"run.framework": "hf_trainer", "software.transformers": (5, 23)},
            "train.activation_checkpointing",
            "false",
            "activation_checkpointing",
        ),
        ({"run.framework": "trl"}, "train.precision", '"bf16-mixed"', "bf16=True"),
        ({"run.framework": "unheard of"}, WORKERS, "1", ""),
        ({}, WORKERS, "1", ""),
    ],
)
def test_spelling_follows_framework_and_version(values, setting: str, value: str, spelling: str) -> None:
    (change,) = changes(values, Fix(setting=setting, value=value))
    assert change.spelling == spelling


def test_what_the_framework_cannot_set_is_said_by_hand() -> None:
    values = {"run.framework": "raw"}
    fix = Fix(setting="train.precision", value='"bf16-mixed"')
    assert changes(values, fix) == ()
    (text,) = advice(values, fix)
    assert text.startswith("by hand, train.precision: bf16-mixed, ")


def test_a_setting_of_the_run_is_found_for_every_subject() -> None:
    old = Setting("train.compile", RUN, False, "observed", HERE)
    (change,) = changes({}, Fix(setting="train.compile", value="true"), settings=[old])
    assert (change.old, change.location) == (False, HERE)
