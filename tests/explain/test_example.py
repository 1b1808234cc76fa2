"""What a rule looks like in code, made of its own example."""

from __future__ import annotations

import pytest
from report_builders import rule

from autotune.engine.load import load_rules
from autotune.explain import example
from autotune.explain.explain import explanation
from autotune.explain.rules import find_rule


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
    assert [line.split()[0] for line in lines("SY006")] == ["seen", "fix"]


@pytest.mark.parametrize("of", load_rules(), ids=lambda one: one.id)
def test_every_rule_begins_with_its_example(of) -> None:
    sections = explanation(of).sections
    assert sections[0].title == "Example"
    labels = [one.first.strip() for one in sections[0].paragraphs]
    assert labels[0] == "seen"
    assert len(labels) > 1
    assert "{" not in sections[0].paragraphs[0].text


def test_a_rule_without_an_example_has_no_section() -> None:
    assert list(example.paragraphs(rule())) == []
