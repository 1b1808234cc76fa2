"""Every renderer of the registry handles an empty result, one in which all was skipped, and a full one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attached_builders
import check_builders
import pytest
import report_cases
from fitted_builders import card, fitted
from job_builders import found, unknown
from msgspec import Struct
from msgspec.structs import replace
from report_builders import report, run
from tuned_builders import kept, tuned
from verified_builders import CHANGE, verified
from watched_builders import row, runs

from autotune.errors import UsageError
from autotune.explain.explain import explanation
from autotune.explain.rules import find_rule, list_rules
from autotune.model.applied import ApplyPlan, Undone, UndoneFile
from autotune.model.explanation import Explanation
from autotune.model.finding import Gain
from autotune.model.job import FoundJobs
from autotune.model.tuned import Space
from autotune.model.verified import Estimate, LossComparison, LossVerdict, Memory, Verdict
from autotune.model.watched import WatchedRuns
from autotune.report import RENDERERS, formats, render

ROOT = Path("/home/me/project")
FILE = ROOT / "train.py"
PLAN = ApplyPlan(ROOT, "run-1", "1 of 1 changes of run run-1", (), (), ())
UNDONE = Undone(ROOT, 7, PLAN.title, ())
NOT_COMPARED = LossComparison(LossVerdict.NOT_COMPARED, 0, "no loss was seen")

RESULTS: dict[str, dict[str, Callable[[], Any]]] = {
    "diagnose": {
        "empty": lambda: report(
            run=run("no_step", wall_s=None, overhead_share=None), step=None, machine={}, software={}
        ),
        "skipped": report_cases.skipped_only,
        "full": report_cases.full,
    },
    "diagnose --pid": {
        "empty": attached_builders.nothing_known,
        "skipped": lambda: attached_builders.attached(stacks=None, window=None),
        "full": attached_builders.attached,
    },
    "check": {
        "empty": check_builders.nothing,
        "skipped": check_builders.only_skipped,
        "full": check_builders.full,
    },
    "check --facts": {
        "empty": check_builders.nothing,
        "skipped": check_builders.only_skipped,
        "full": check_builders.full,
    },
    "tune": {
        "empty": lambda: kept(space=Space(()), trials=(), verified=None, stopped="there is nothing to search"),
        "skipped": lambda: kept(verified=None),
        "full": lambda: tuned(price_per_hour=2.0),
    },
    "verify": {
        "empty": lambda: verified(
            changes=(),
            verdict=Verdict.CANNOT_TELL,
            estimate=Estimate(1.0, 0.5, 2.0, 0.5),
            losses=NOT_COMPARED,
            memory=Memory("processes", None, None),
            predicted=None,
            resume_command="autotune verify --resume train.py",
        ),
        "skipped": lambda: verified(losses=NOT_COMPARED, predicted=None),
        "full": verified,
    },
    "fit": {
        "empty": lambda: fitted(cards=(), why_not="train.py:7: aten::x cannot run without data", to_do="Measure it."),
        "skipped": lambda: fitted(cards=(card(step_ms=None),)),
        "full": fitted,
    },
    "runs": {
        "empty": lambda: FoundJobs(()),
        "skipped": lambda: found(unknown()),
        "full": found,
    },
    "watch": {
        "empty": lambda: WatchedRuns((), {"/home/me/project/state-x-1.json": "it is not JSON"}),
        "skipped": lambda: runs(row(windows=(), drift=(), step_ms=None, first_step_ms=None, memory_bytes=None)),
        "full": runs,
    },
    "apply": {
        "empty": lambda: PLAN,
        "skipped": lambda: replace(PLAN, left=((CHANGE, "not selected"),)),
        "full": lambda: replace(
            PLAN,
            chosen=(replace(CHANGE, gain="1.40x"), replace(CHANGE, setting="train.precision", gain="1.20x")),
            files=((FILE, b"workers = 0", b"workers = 4"),),
            moved=("train.py:3 is at train.py:9",),
            gain=Gain(1.5, 1.3, 1.6, "modelled"),
        ),
    },
    "undo": {
        "empty": lambda: UNDONE,
        "skipped": lambda: replace(UNDONE, files=(UndoneFile(FILE, "changed since", Path("before-0")),)),
        "full": lambda: replace(
            UNDONE,
            files=tuple(
                UndoneFile(FILE, state, Path("before-0")) for state in ("reverted", "edits kept", "restored before")
            ),
        ),
    },
    "explain": {
        "empty": lambda: Explanation(find_rule("DL001"), ()),
        "skipped": lambda: explanation(find_rule("DL002")),
        "full": lambda: explanation(find_rule("DL001")),
    },
    "rules": {
        "empty": tuple,
        "skipped": lambda: tuple(one for one in list_rules() if not one.decides_without_a_run),
        "full": list_rules,
    },
}
PRINTS = {
    "diagnose": "ME001",
    "diagnose --pid": "train.py",
    "check": "DL001",
    "check --facts": "train.py",
    "tune": "num_workers",
    "verify": "num_workers",
    "fit": "a100-80",
    "runs": "DL001",
    "watch": "data wait rose",
    "apply": "+workers = 4",
    "undo": "train.py no longer has the patch",
    "explain": "loader.num_workers",
    "rules": "DL001",
}
"""What an output cannot leave out of the full result."""

ACTED_ON = "\x1b[2J\u202e"
FOREIGN = {
    "advice", "because", "command", "cpu_name", "file", "files", "function", "gpu_name", "message", "name", "note",
    "reason", "spelling", "symbol", "text", "title", "what", "where", "why", "why_not",
}  # fmt: skip
"""Fields of results whose text comes from files, machines and scripts, or is made of such text."""


def hostile(value: Any, field: str = "") -> Any:
    """A result whose foreign texts end in what a terminal acts on."""
    match value:
        case Struct():
            return replace(value, **{name: hostile(getattr(value, name), name) for name in value.__struct_fields__})
        case tuple():
            return tuple(hostile(one, field) for one in value)
        case Mapping():
            return {name: hostile(one, name) for name, one in value.items()}
        case bytes():
            return value + ACTED_ON.encode()
        case Path() if field != "root":
            return Path(f"{value}{ACTED_ON}")
        case str() if field in FOREIGN:
            return type(value)(f"{value}{ACTED_ON}")
    return value


OUTPUTS = [(verb, format_) for verb in RENDERERS for format_ in formats(verb)]


def test_every_verb_of_the_registry_has_its_results_here() -> None:
    assert RESULTS.keys() == PRINTS.keys() == RENDERERS.keys()


@pytest.mark.parametrize("kind", ["empty", "skipped", "full"])
@pytest.mark.parametrize(("verb", "format_"), OUTPUTS)
def test_every_renderer_handles_every_result(verb: str, format_: str, kind: str) -> None:
    result = RESULTS[verb][kind]()
    text = render(verb, result, format_)
    assert text == "" or text.endswith("\n")
    assert "\x1b" not in text
    text.encode("utf-8")
    assert text == render(verb, result, format_)
    if kind == "full":
        assert PRINTS[verb] in text
    else:
        assert text != render(verb, RESULTS[verb]["full"](), format_)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize(("verb", "format_"), OUTPUTS)
def test_no_renderer_lets_foreign_text_act(verb: str, format_: str, colour: bool) -> None:
    result = RESULTS[verb]["full"]()
    text = re.sub(r"\x1b\[[0-9;]*m", "", render(verb, hostile(result), format_, colour=colour))
    assert "\x1b" not in text and "\u202e" not in text
    assert "202e" in text


@pytest.mark.parametrize("verb", RENDERERS)
def test_an_unknown_format_names_the_known_ones(verb: str) -> None:
    with pytest.raises(UsageError) as caught:
        render(verb, RESULTS[verb]["empty"](), "pdf")
    assert str(caught.value) == f"--format: unknown format 'pdf'\nChoose one of: {', '.join(formats(verb))}."


def test_the_text_of_check_loads_nothing_of_the_report_on_a_run() -> None:
    loaded = "import sys, autotune.report.text.check; print(*(name for name in sys.modules if 'report' in name))"
    names = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    assert {"autotune.model.report", "autotune.report.text.diagnose", "autotune.report.json.diagnose"}.isdisjoint(names)
    assert "autotune.report.findings" in names
