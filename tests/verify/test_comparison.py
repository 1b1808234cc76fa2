"""What is predicted of a patch is one number, whoever says it and whatever the diagnosis proposed beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.diagnose import diagnose
from autotune.engine.load import load_rules
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Evaluation, Finding, Gain, Recommendation
from autotune.model.patch import PatchChange
from autotune.model.report import PHASES, Report, RunSummary, Step
from autotune.model.rule import Effect
from autotune.verify import comparison

OWN = {"CP001": Gain(1.5, 1.4, 1.6, "measured"), "CP004": Gain(1.2, 1.1, 1.3, "measured")}


def change(rule: str) -> PatchChange:
    return PatchChange("x", RUN, 1, 2, (rule,), Effect.EQUIVALENT, gain="")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose run "r" recommends both rules, the second with what it adds to the first."""
    (tmp_path / ".autotune" / "runs" / "r").mkdir(parents=True)
    findings = [Finding(rule, RUN, "", (), (), None, OWN[rule.id]) for rule in load_rules() if rule.id in OWN]
    after = Gain(1.05, 1.04, 1.06, "measured")
    recommendations = tuple(
        Recommendation(number, (one,), (), Effect.EQUIVALENT, one.gain, None if number == 1 else after)
        for number, one in enumerate(findings, 1)
    )
    step = Step(30, 10.0, 10.0, 11.0, dict.fromkeys(PHASES), samples_per_s=None, run_ms=10.0)
    facts = {RUN: {"step.compute_share": 0.9, "step.mean_ms": 10.0}}
    report = Report(
        run=RunSummary(folder="", command=(), outcome="completed"),
        machine={},
        software={},
        step=step,
        evidence=Evidence(facts, {}),
        evaluation=Evaluation(tuple(findings), (), ()),
        recommendations=recommendations,
    )
    monkeypatch.setattr(diagnose, "load", lambda name, cwd: report)
    return tmp_path


@pytest.mark.parametrize("rule", OWN)
def test_one_change_is_predicted_by_itself(project: Path, rule: str) -> None:
    assert comparison.predicted([change(rule)], "r", project) == OWN[rule]


def test_several_changes_are_predicted_together(project: Path) -> None:
    found = comparison.predicted([change(rule) for rule in OWN], "r", project)
    assert found is not None
    assert max(gain.speedup for gain in OWN.values()) < found.speedup < 1.5 * 1.2 + 0.5


def test_beside_a_change_of_unknown_gain_the_others_bound_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = diagnose.load("r", cwd=project)
    first, second = report.recommendations
    unknown = replace(second, gain=None, findings=(replace(second.first, gain=None),))
    known = replace(report, recommendations=(first, unknown))
    monkeypatch.setattr(diagnose, "load", lambda name, cwd: known)
    ids = [one.first.rule.id for one in (first, second)]
    assert comparison.predicted([change(rule) for rule in ids], "r", project) is None
    assert comparison.predicted([change(ids[0])], "r", project) == OWN[ids[0]]


def test_few_steps_measure_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = diagnose.load("r", cwd=project)
    assert report.step is not None
    short = replace(report, step=replace(report.step, steps=3))
    monkeypatch.setattr(diagnose, "load", lambda name, cwd: short)
    found = comparison.predicted([change("CP001")], "r", project)
    assert found is not None
    assert found.basis == "modelled"


def test_what_no_run_proposed_is_not_predicted(project: Path) -> None:
    assert comparison.predicted([change("CP001")], "", project) is None
    assert comparison.predicted([change("DL001")], "r", project) is None
