"""Every fact of the catalogue is read by a rule, a prediction or the report, or is in the JSON dump for a reason."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FACTS = tomllib.loads((ROOT / "autotune" / "catalogue" / "facts.toml").read_text(encoding="utf-8"))

JSON_ONLY = {
    "step.forward_share": "with its siblings it sums to the step",
    "step.backward_share": "with its siblings it sums to the step",
    "step.optimizer_share": "with its siblings it sums to the step",
    "step.rank_wait_share": "with its siblings it sums to the step",
    "step.communication_share": "with its siblings it sums to the step",
    "step.other_share": "with its siblings it sums to the step",
    "step.one_cpu_share": "how much of a step has no use for more CPUs; the report has them line by line",
    "step.num_flops": "what device.mfu_share is made of",
    "code.old_names": "names.removed are those of them that a release which may be used lacks",
    "code.knows_old_local_rank": "with the command, job.passes_unknown_local_rank",
    "growth.memory_is_steady": "says why growth.memory_bytes_per_step is absent",
    "loader.len_cv": "how much the lengths differ",
    "env.omp_num_threads": "explains run.num_threads",
    "line.num_seen": "asked for by subject where a rule has none (engine/evaluate.py)",
    "loop.num_seen": "likewise",
    "result.num_seen": "likewise",
    "line.other_share": "where the time of a line is",
    "loop.carried": "why loop.is_carried is true",
    "result.bytes": "what keeping the result would take",
    "frozen.share": "what storing features could save at most",
    "frozen.module": "the module of frozen.share",
}
"""Read by nobody here but the user: name -> why it is stated."""

DESCRIPTIONS = ("machine.", "software.")
"""What was measured on: whole inventories, for who compares two reports."""

BY_PART = {"memory.asked_bytes": "report/text/failure.py"}
"""Read under a name that is put together where it is read."""


def rule_texts() -> str:
    """The rules without their examples: a fact that only an example states is not read."""
    return "\n".join(
        text.split("[[example]]")[0] + "\n".join(re.findall(r"(?m)^\[gain\][^\[]*", text))
        for text in (file.read_text(encoding="utf-8") for file in sorted((ROOT / "rules").glob("*/*.toml")))
    )


def readers() -> str:
    folders = ("predict", "report", "engine", "diagnose", "check", "apply", "tune")
    sources = (file for folder in folders for file in sorted((ROOT / "autotune" / folder).rglob("*.py")))
    return "\n".join([rule_texts(), *(file.read_text(encoding="utf-8") for file in sources)])


READ = {name for name in FACTS if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", readers())} | set(BY_PART)


def test_a_fact_has_a_reader_or_a_reason() -> None:
    for name in FACTS:
        is_described = name.startswith(DESCRIPTIONS)
        assert name in READ or name in JSON_ONLY or is_described, f"{name} has no reader: delete it, or give a reason"
        assert not (name in READ and name in JSON_ONLY), f"{name} has a reader: it needs no reason"


def test_the_reasons_are_of_facts_that_there_are() -> None:
    assert set(JSON_ONLY) | set(BY_PART) <= set(FACTS)


@pytest.mark.parametrize(("name", "file"), BY_PART.items())
def test_what_is_read_in_parts_is_read(name: str, file: str) -> None:
    text = (ROOT / "autotune" / file).read_text(encoding="utf-8")
    owner, _, part = name.partition(".")
    assert f"{owner}.{{" in text
    assert f'"{part}"' in text
