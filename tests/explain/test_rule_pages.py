from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from autotune.cli.rules import command
from autotune.engine.load import load_rules
from autotune.explain.explain import explanation
from autotune.explain.rule_pages import pages, symptoms
from autotune.report.text.explain import section_lines

DOCS = Path(__file__).parents[2] / "docs" / "rules"
WRITTEN_BY_HAND = {"left-out.md"}


def test_the_pages_in_the_repository_are_those_of_the_rules() -> None:
    found = {file.name: file.read_text(encoding="utf-8") for file in DOCS.glob("*.md")}
    assert {name: text for name, text in found.items() if name not in WRITTEN_BY_HAND} == pages(load_rules())


def test_the_command_writes_them_and_deletes_those_of_old_rules(tmp_path: Path) -> None:
    (tmp_path / "XX999.md").write_text("gone")
    (tmp_path / "left-out.md").write_text("stays")
    done = CliRunner().invoke(command, ["--docs", str(tmp_path)])
    assert (done.exit_code, done.output) == (0, "")
    assert {file.name for file in tmp_path.iterdir()} == {*pages(load_rules()), "left-out.md"}


def test_every_rule_has_a_symptom_and_every_symptom_its_rules() -> None:
    rules, known = load_rules(), symptoms()
    assert [rule.id for rule in rules if not any(symptom.fits(rule) for symptom in known)] == []
    assert {one for symptom in known for one in symptom.rules} <= {rule.id for rule in rules}
    assert {one for symptom in known for one in symptom.families} <= {rule.family for rule in rules}


def test_a_page_says_what_explain_says() -> None:
    for rule in load_rules():
        page = pages([rule])[f"{rule.id}.md"].replace("\\", "")
        said = [line.strip() for section in explanation(rule).sections for line in section_lines(section)]
        assert [line for line in said if line not in page] == []
