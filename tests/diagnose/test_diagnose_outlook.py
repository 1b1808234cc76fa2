"""The outlook of a stored run: what was measured goes in, what was asked for comes out."""

from __future__ import annotations

import sys

import pytest

from autotune import collect
from autotune.diagnose import diagnose as api
from autotune.diagnose.outlook import NOTHING, OutlookRequest, outlook
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Evaluation, Gain, Recommendation
from autotune.model.outlook import ProgressLine, RestartOption
from autotune.model.recording import Recording
from autotune.model.report import Report, RunSummary, Step
from autotune.model.rule import Effect
from autotune.predict import memory_budget
from autotune.predict.device_options import DeviceRequest

SCRIPT = """
    import time
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Slow(Dataset):
        def __len__(self):
            return 4000

        def __getitem__(self, index):
            time.sleep(0.004)
            return torch.ones(64)

    model = torch.nn.Linear(64, 50_000)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for x in DataLoader(Slow(), batch_size=4):
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"rank": 0}, software={}, frameworks={}, torch_state={}, environment={},
    memory={}, what_ifs=(), side_effects={}, overhead={}, sampler_interval_ns=1, window=None,
    **dict.fromkeys(("error", "device", "io", "compile", "kernels")), **EMPTY,
)  # fmt: skip
TWENTY_MS = Gain(1 / 0.95, 1.0, 1 / 0.9, "measured")


def with_a_rare_save(run_ms: float | None) -> Report:
    """Steps of 100 ms, and one save of 10 s in a window of 33; a change takes 20 ms away."""
    step = Step(33, 400.0, 100.0, 100.0, {}, run_ms=run_ms)
    facts = {"step.mean_ms": 400.0} | ({"run.step_ms": run_ms} if run_ms else {})
    return Report(
        run=RunSummary(("train.py",), "completed", planned_steps=10_000, startup_s=10.0, folder=""),
        machine={},
        software={},
        step=step,
        evidence=Evidence({RUN: facts}),
        evaluation=Evaluation((), (), ()),
        recommendations=(Recommendation(1, (), (), Effect.EXACT, TWENTY_MS, TWENTY_MS),),
    )


def test_what_pays_back_is_of_the_whole_run():
    found = outlook(with_a_rare_save(110.0), [RECORDING], NOTHING).payback
    assert (found.planned_s, found.saved_s) == (pytest.approx(1100.0), pytest.approx(200.0))
    assert (found.steps, found.basis, found.is_worth_it) == (pytest.approx(500, abs=1), "measured", True)


def test_a_run_of_unknown_time_is_neither_worth_it_nor_not():
    found = outlook(with_a_rare_save(None), [RECORDING], NOTHING).payback
    assert (found.planned_s, found.saved_s, found.is_worth_it) == (None, None, None)
    assert found.steps == pytest.approx(500, abs=1)


def test_a_running_job_goes_on_with_the_steps_of_the_run():
    found = outlook(with_a_rare_save(110.0), [RECORDING], OutlookRequest(ProgressLine(100, 10_000))).restart
    assert found.position.step_s == pytest.approx(0.11)
    assert found.courses[0].seconds == pytest.approx(9900 * 0.11)
    # 20 ms less in each of them, after a start-up and 100 steps again.
    assert found.courses[1].seconds == pytest.approx(10 + 10_000 * 0.09)


@pytest.fixture(scope="module")
def project(place_in, tmp_path_factory):
    """The folder of a diagnosed script, and the Report of then."""
    place = place_in(tmp_path_factory.mktemp("outlook") / "project")
    place.write("train.py", SCRIPT)
    options = api.DiagnoseOptions(("train.py",), collect.Request(steps=12, warmup=3), sys.executable, lock=False)
    return place.cwd, api.diagnose(options, lambda status: None, cwd=place.cwd, environ=place.environ)


@pytest.mark.train
@pytest.mark.long
def test_the_memory_of_a_known_model(project):
    _, report = project
    budget = report.outlook.memory
    weights = 65 * 50_000 * 4
    assert budget.of(memory_budget.WEIGHTS) == budget.of(memory_budget.GRADIENTS) == weights
    assert budget.of(memory_budget.OPTIMIZER) == pytest.approx(2 * weights, rel=0.01)
    assert budget.of(memory_budget.PROCESS) > weights
    assert sum(part.num_bytes for part in budget.parts) == budget.limit_bytes


@pytest.mark.train
def test_only_what_was_asked_for_is_told(project):
    cwd, report = project
    assert (report.outlook.restart, report.outlook.comparison) == (None, None)
    again = api.load("last", cwd=cwd, asked=NOTHING)
    assert again.outlook == report.outlook


@pytest.mark.train
def test_a_running_job_and_other_devices(project):
    cwd, _ = project
    asked = OutlookRequest(ProgressLine(100, 1_000_000), DeviceRequest(2))
    found = api.load("last", cwd=cwd, price=1.0, asked=asked).outlook
    assert found.restart.position.left == 999_900
    assert {course.way for course in found.restart.courses} >= {RestartOption.FINISH}
    assert [row.num_devices for row in found.comparison.setups][-3:] == [2, 2, 2]
