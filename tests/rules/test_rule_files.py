"""Every rule file: its examples hold, and they would notice if the rule were another one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutants import survivors

from autotune.catalogue import what_ifs
from autotune.derive import ranks
from autotune.engine.coverage import coverage
from autotune.engine.evaluate import evaluate
from autotune.engine.examples import evidence_of, failures
from autotune.engine.expr import compile_expression
from autotune.engine.load import load_rule, load_rules, rules_folder
from autotune.engine.static import needs_a_run
from autotune.model.evidence import Value
from autotune.model.report import Coverage, RunSummary
from autotune.model.rule import Rule, Severity
from autotune.predict import WHAT_IFS
from autotune.predict.combine import target
from autotune.report.labels import phases

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


STAND = {
    "AT010": "it says what is switched off, whatever the device",
    "AT012": "a run shows no probability of a call; what the function does with it is the same in each",
    "BA008": "a second start is not seen in a window",
    "CO006": "the run tells train.compile",
    "EN009": "it is about the installed release",
    "EN015": "a run that does not fail has another compute_loss",
    "EN012": "a reader that ignores unknown keys trains all the same, with the default",
    "EN018": "a run that does not fail found the names, or came to none of them",
    "EN020": "a run shows no options; what bool() makes of a word is the same in each",
    "CK007": "a run that ends well says nothing of one that fails",
    "OP005": "a run shows the rate that it has, and not which one was asked for",
    "OP006": "a run shows the rates that it has, and not which curve was asked for",
    "EV002": "the run tells the interval",
    "FS005": "it is about what is not maintained any more",
    "FS010": "memory that is not pinned is slower with one process, too",
    "GA002": "the run tells the accumulation",
    "GA003": "a loss of the wrong size trains all the same",
    "GA005": "the run tells the accumulation",
    "GA006": "the run tells the accumulation",
    "DL026": "a window does not show that samples come again",
    "DL018": "equal random numbers train all the same",
    "ME003": "it is about a deprecated default",
    "ME008": "memory grows over more steps than a window has",
    "ME009": "it costs memory, on every device",
    "PR004": "the run tells both",
    "PR005": "the run tells both",
    "PR008": "the run tells it",
    "PR013": "the run does not tell the dtype that a layer computes in",
    "SY007": "the run tells it",
    "SY015": "the timers run with one process, too",
    "SY017": "the run tells the setting",
}
"""Rules of files alone that nothing a run shows can take back, and why."""


def test_what_files_say_can_be_taken_back_by_a_run_or_says_why_not() -> None:
    of_files = {rule.id: rule for rule in load_rules() if not any(map(needs_a_run, _names(rule)))}
    assert {name for name, rule in of_files.items() if not rule.refuted_by} == set(STAND)


def _names(rule: Rule) -> tuple[str, ...]:
    return compile_expression(rule.when, rule.limits).names


def test_the_late_rank_of_a_breakdown_and_of_a_finding_is_one() -> None:
    limits = load_rule(rules_folder() / "distributed" / "DD006.toml").limits
    assert (limits["min_spread_share"].value, limits["min_step_share"].value) == (ranks.LEAST_LATE, ranks.LEAST_WAIT)


def test_all_files_load_together() -> None:
    assert [rule.id for rule in load_rules()] == sorted(file.stem for file in FILES)


def test_no_two_rules_have_one_name() -> None:
    names = [rule.name for rule in load_rules()]
    assert sorted(set(names)) == sorted(names)


def test_a_rule_may_name_every_what_if_that_there_is() -> None:
    assert sorted(what_ifs()) == sorted(WHAT_IFS)


def documented(folder: Path, rule_id: str) -> Path:
    """The rule of docs/adding-a-rule.md as a file of its own."""
    page = (Path(__file__).parents[2] / "docs" / "adding-a-rule.md").read_text(encoding="utf-8")
    file = folder / "dataloader" / f"{rule_id}.toml"
    file.parent.mkdir()
    text = page.split("```toml\n")[1].split("```")[0]
    file.write_text(text.replace('id = "DL004"', f'id = "{rule_id}"'), encoding="utf-8")
    return file


def test_the_documented_rule_is_a_rule(tmp_path: Path) -> None:
    assert list(failures(load_rule(documented(tmp_path, "DL004")))) == []


def test_a_new_file_is_all_that_a_report_needs_of_a_rule(tmp_path: Path) -> None:
    documented(tmp_path, "DL999")
    rules = load_rules(tmp_path)
    assert [(rule.id, phases(rule)) for rule in rules] == [("DL999", {"h2d"})]
    summary = RunSummary(folder="", command=(), outcome="completed")

    def said(**known: Value) -> Coverage:
        facts = {"loader.is_train": True, **{name.replace("__", "."): value for name, value in known.items()}}
        evidence = evidence_of(facts, "loader#train")
        return coverage(evaluate(rules, evidence), evidence, summary)

    assert said(loader__pin_memory=True).right == ("pinned memory",)
    assert said(device__type="cpu").useless == ("pinned memory (CPU run)",)
    missing = said(device__type="cuda", loader__pin_memory=False)
    assert missing.not_looked_at == (("device kernels", "none was recorded"),)


@pytest.mark.parametrize("rule", [rule for rule in load_rules() if rule.gain], ids=lambda rule: rule.id)
def test_what_batches_cost_is_one_part_of_the_step(rule: Rule) -> None:
    """Gains on parts with different names are added: none of a loader's may have a name of its own."""
    assert not target(rule.gain).startswith("loader.")


def test_where_padding_is_advised_what_pads_is_named() -> None:
    """A tokenizer that no longer pads leaves samples of unequal length, which the default collate function refuses."""
    fixes = [(rule.id, fix) for rule in load_rules() for fix in (*rule.fixes, *rule.as_static().fixes)]
    told = [(name, fix.note) for name, fix in fixes if fix.setting == "data.padding"]
    told += [(name, fix.text) for name, fix in fixes if "longest sample" in fix.text]
    assert {name for name, _ in told} == {"BA001", "BA005"}
    assert [name for name, text in told if "collate function" not in text] == []
