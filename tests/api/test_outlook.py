"""The outlook of a stored run: what was measured goes in, what was asked for comes out."""

from __future__ import annotations

import sys

import pytest

from autotune import collect
from autotune.api import diagnose as api
from autotune.api.outlook import NOTHING, Asked
from autotune.model.outlook import Progress, Way
from autotune.predict import memory_budget
from autotune.predict.options import Wanted

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


@pytest.fixture(scope="module")
def project(place_in, tmp_path_factory):
    """The folder of a diagnosed script, and the Report of then."""
    place = place_in(tmp_path_factory.mktemp("outlook") / "project")
    place.write("train.py", SCRIPT)
    options = api.Options(("train.py",), collect.Request(steps=12, warmup=3), sys.executable, lock=False)
    return place.cwd, api.diagnose(options, lambda status: None, cwd=place.cwd, environ=place.environ)


@pytest.mark.train
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
    asked = Asked(Progress(100, 1_000_000), Wanted(2))
    found = api.load("last", cwd=cwd, price=1.0, asked=asked).outlook
    assert found.restart.position.left == 999_900
    assert {course.way for course in found.restart.courses} >= {Way.FINISH}
    assert [row.num_devices for row in found.comparison.setups][-3:] == [2, 2, 2]
