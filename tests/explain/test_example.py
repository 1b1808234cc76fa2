"""What a rule looks like in code, made of its own example."""

from __future__ import annotations

import ast
import re
import shlex

import pytest
from report_builders import rule
from ruamel.yaml import YAML

from autotune.engine.load import load_rules
from autotune.explain import example
from autotune.explain.explain import explanation
from autotune.explain.rules import find_rule
from autotune.report.text.explain import section_lines

NO_FILE_SHOWS_IT = {
    "DD006": "the slow rank may be slow for any reason",
    "EN003": "the clock of the GPU",
    "EN004": "the slot of the GPU",
    "HS001": "a question about the reader's own line",
    "HS002": "a question about the reader's own line",
    "MS001": "a figure of nvidia-smi",
    "MS006": "a figure of a progress bar",
}
"""Rules without code before and after, and what they are about instead."""

PROGRAMS = ("docker", "export", "pip", "python", "rsync", "srun", "torchrun")
"""What stands first on a line of a shell in an example."""


def lines(rule_id: str) -> list[str]:
    return [f"{one.first.strip()} {one.text}" for one in example.paragraphs(find_rule(rule_id))]


def test_a_change_is_shown_in_the_words_of_each_framework_that_has_its_own() -> None:
    assert lines("DL001") == [
        "seen data wait is 72 % of the step (168 ms per batch): the training process prepares its own batches "
        "(num_workers=0); 61 % of preparing one is __getitem__ (data.py:31)",
        "before DataLoader(num_workers=0)",
        "after DataLoader(num_workers=4, persistent_workers=True)",
        "before TrainingArguments(dataloader_num_workers=0) # transformers",
        "after TrainingArguments(dataloader_num_workers=4, dataloader_persistent_workers=True)",
    ]


def test_what_is_written_in_another_way_and_what_was_not_set() -> None:
    found = lines("PR002")
    assert "before not set # Lightning" in found
    assert "after Trainer(precision='bf16-mixed')" in found


def test_advice_without_a_setting_is_told_in_words() -> None:
    assert [line.split()[0] for line in lines("MS001")] == ["seen", "fix"]


def test_code_of_the_rules_own_stands_as_it_is() -> None:
    shown = section_lines(explanation(find_rule("DL006")).sections[0])
    first = next(number for number, line in enumerate(shown) if line.startswith("  before"))
    assert shown[first:] == [
        "  before  def __getitem__(self, index):",
        '              return tokenizer(self.texts[index])["input_ids"]',
        "  after   def __init__(self, texts):",
        '              self.ids = [tokenizer(text)["input_ids"] for text in texts]',
        "",
        "          def __getitem__(self, index):",
        "              return self.ids[index]",
    ]


@pytest.mark.parametrize("of", load_rules(), ids=lambda one: one.id)
def test_every_rule_begins_with_its_example(of) -> None:
    sections = explanation(of).sections
    assert sections[0].title == "Example"
    labels = [one.first.strip() for one in sections[0].paragraphs]
    assert labels[0] == "seen"
    assert len(labels) > 1
    assert "{" not in sections[0].paragraphs[0].text


def test_every_rule_shows_code_unless_no_file_shows_it() -> None:
    without = {of.id for of in load_rules() if not any(one.first.strip() == "before" for one in example.paragraphs(of))}
    assert without == set(NO_FILE_SHOWS_IT)


@pytest.mark.parametrize("of", [of for of in load_rules() if of.code], ids=lambda one: one.id)
def test_code_is_python_a_config_or_commands(of) -> None:
    """Code that does not parse cannot be copied."""
    for text in (of.code.before, of.code.after):
        assert is_python(text) or is_config(text) or all(map(is_command, text.splitlines())), text


@pytest.mark.parametrize("text", ["for x in y", "run: [", "rm -r x", 'python "x'])
def test_what_is_none_of_these_is_found(text: str) -> None:
    assert not (is_python(text) or is_config(text) or is_command(text))


def is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def is_config(text: str) -> bool:
    """A mapping, as JSON or YAML."""
    try:
        return isinstance(YAML(typ="safe").load(text), dict)
    except Exception:  # of any kind: it is none
        return False


def is_command(line: str) -> bool:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        return False
    named = [word for word in words if not re.match(r"[A-Z_]+=", word)]
    return not named or named[0] in PROGRAMS


def test_a_rule_without_an_example_has_no_section() -> None:
    assert list(example.paragraphs(rule())) == []
