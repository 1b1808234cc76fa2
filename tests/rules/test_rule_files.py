"""Every rule file: its examples hold, and they would notice if the rule were another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import survivors

from autotune.catalogue import what_ifs
from autotune.engine.examples import failures
from autotune.engine.load import load_rule, load_rules, rules_folder
from autotune.model.rule import Rule, Severity
from autotune.predict import WHAT_IFS
from autotune.predict.combine import target

FILES = sorted(rules_folder().glob("*/*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
class TestRuleFile:
    def test_loads_and_its_examples_hold(self, file: Path) -> None:
        assert list(failures(load_rule(file))) == []

    def test_an_example_notices_every_mutant(self, file: Path) -> None:
        assert survivors(load_rule(file)) == []


@pytest.mark.parametrize("rule", [rule for rule in load_rules() if rule.static], ids=lambda rule: rule.id)
def test_what_was_not_measured_is_said_modestly(rule: Rule) -> None:
    part = rule.as_static()
    assert part.severity.rank >= Severity.MEDIUM.rank
    assert part.confidence in ("medium", "low")


def test_all_files_load_together() -> None:
    assert [rule.id for rule in load_rules()] == sorted(file.stem for file in FILES)


def test_no_two_rules_have_one_name() -> None:
    names = [rule.name for rule in load_rules()]
    assert sorted(set(names)) == sorted(names)


def test_a_rule_may_name_every_what_if_that_there_is() -> None:
    assert sorted(what_ifs()) == sorted(WHAT_IFS)


def test_the_documented_rule_is_a_rule(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "adding-a-rule.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    silent = '\n[[example]]\nexpect = "silent"\nfacts = { "loader.is_train" = false }\n'
    file = tmp_path / "dataloader" / "DL004.toml"
    file.parent.mkdir()
    file.write_text(text + silent * 2, encoding="utf-8")
    assert list(failures(load_rule(file))) == []


@pytest.mark.parametrize("rule", [rule for rule in load_rules() if rule.gain], ids=lambda rule: rule.id)
def test_what_batches_cost_is_one_part_of_the_step(rule: Rule) -> None:
    """Gains on parts with different names are added: none of a loader's may have a name of its own."""
    assert not target(rule.gain).startswith("loader.")
