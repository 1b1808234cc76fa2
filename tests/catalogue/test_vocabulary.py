from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from autotune import catalogue
from autotune.catalogue.vocabulary import KINDS, SUBJECTS
from autotune.engine.expr import compile_expression
from autotune.engine.load import load_rules
from autotune.model.report import PHASES
from autotune.model.rule import Effect

FACTS = tuple(catalogue.facts().values())
SETTINGS = tuple(catalogue.settings().values())
NAME = re.compile(r"[a-z]\w*\.[a-z]\w*")


def test_every_entry_is_whole() -> None:
    for entry in (*FACTS, *SETTINGS):
        assert NAME.fullmatch(entry.name)
        assert entry.type in KINDS, entry.name
        assert entry.subject in SUBJECTS, entry.name
        assert entry.meaning.strip(), entry.name


def test_every_topic_is_one_of_a_fact_or_setting_and_every_such_has_one() -> None:
    assert {entry.topic for entry in (*FACTS, *SETTINGS)} == set(catalogue.topics())


def test_a_topic_has_a_reason_whose_conditions_compile() -> None:
    for topic in catalogue.topics().values():
        assert bool(topic.lacks) is not topic.is_tried, topic.name
        for each in topic.because:
            assert (each.without in SUBJECTS) if each.without else compile_expression(each.when).kind == "bool"


def test_phases_are_those_of_a_step() -> None:
    named = {phase for entry in (*FACTS, *catalogue.what_ifs().values()) for phase in entry.phases}
    assert named <= set(PHASES)


def test_names_say_the_unit() -> None:
    endings = {"_per_s": "per_s", "_share": "share", "_ms": "ms", "_s": "s", "_bytes": "bytes"}
    for entry in FACTS:
        ending = next((end for end in endings if entry.name.endswith(end)), None)
        assert ending is None or entry.type == endings[ending], entry.name


def test_every_supplier_is_a_module() -> None:
    suppliers = {entry.supplier for entry in FACTS}
    assert [name for name in sorted(suppliers) if find_spec(f"autotune.{name}") is None] == []


def test_no_name_is_both_a_fact_and_a_setting() -> None:
    assert not set(catalogue.facts()) & set(catalogue.settings())
    assert catalogue.names() == (*catalogue.facts(), *catalogue.settings())


def test_effects_hang_on_conditions_that_compile() -> None:
    for entry in SETTINGS:
        assert isinstance(entry.effect, Effect), entry.name
        for case in entry.effect_when:
            assert compile_expression(case.when).kind == "bool", entry.name
            assert case.effect is not entry.effect, entry.name


def test_the_effect_of_a_micro_batch_depends_on_what_compares_its_samples() -> None:
    cases = catalogue.settings()["loader.batch_size"].effect_when
    assert [(case.when, case.effect) for case in cases] == [
        ("model.has_batchnorm", Effect.ALTERING),
        ("surely(code.compares_samples)", Effect.ALTERING),
    ]


def test_what_was_asked_for_bit_by_bit_is_not_taken_away_as_equivalent() -> None:
    assert catalogue.settings()["train.deterministic"].effect is Effect.ALTERING


def test_every_fact_in_a_rule_exists() -> None:
    names = {name for rule in load_rules() for name in compile_expression(rule.when, rule.limits).names}
    assert names <= set(catalogue.names())


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("loader.wait_shre", "loader.wait_share"),
        ("loader.num_worker", "loader.num_workers"),
        ("train.activation_checkpoint", "train.activation_checkpointing"),
        ("zzz", None),
        ("", None),
    ],
)
def test_near(name: str, near: str | None) -> None:
    assert catalogue.near(name) == near


def test_the_catalogue_is_read_once_and_cannot_be_changed() -> None:
    assert catalogue.facts() is catalogue.facts()
    with pytest.raises(TypeError):
        catalogue.facts()["a.b"] = FACTS[0]  # type: ignore[index]
