"""check with a recorded profile: limits of its facts, and a step that became slower."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.check import check as api
from autotune.collect import artefacts
from autotune.model.checked import Checked

SCRIPT = """
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for (x,) in DataLoader(TensorDataset(torch.ones(400, 8)), batch_size=4):
        model(x).sum().backward()
        optimizer.step()
"""


def slower(value: object, factor: float, is_time: bool = False) -> object:
    """A Recording all of whose times are longer by `factor`."""
    if isinstance(value, dict):
        return {key: slower(one, factor, key.endswith("_ns")) for key, one in value.items()}
    if isinstance(value, list):
        is_event = len(value) == 5 and isinstance(value[0], str)
        return [slower(one, factor, is_time or (is_event and place in (1, 2))) for place, one in enumerate(value)]
    return round(value * factor) if is_time and isinstance(value, int) else value


@pytest.fixture(scope="module")
def project(place_in, tmp_path_factory) -> Path:
    """A script, its recording, and the same recording with all times 10 % longer."""
    place = place_in(tmp_path_factory.mktemp("profiled"))
    (place.cwd / ".git").mkdir()
    place.measure(str(place.write("train.py", SCRIPT)), steps=20)
    (file,) = artefacts.runs(place.cwd)[0].glob("recording-*.json")
    recorded = json.loads(file.read_text())
    # So few short steps are noisy: the gate is to see the plant, not the noise of the machine that tests.
    even = {**recorded, "window": _even(recorded["window"])}
    (place.cwd / "before.json").write_text(json.dumps(even))
    (place.cwd / "slower.json").write_text(json.dumps(slower(even, 1.1)))
    return place.cwd


def _even(window: dict) -> dict:
    """The window with steps of one length."""
    ends, first = window["step_ends_ns"], window["warmup_steps"]
    step = (window["end_ns"] - window["start_ns"]) // window["steps"]
    even = [window["start_ns"] + step * (number + 1 - first) for number in range(first, len(ends))]
    return {**window, "step_ends_ns": [*ends[:first], *even]}


def check(project: Path, **options: object) -> Checked:
    return api.check(api.CheckOptions((Path(),), **options), cwd=project)  # type: ignore[arg-type]


@pytest.mark.train
def test_what_was_measured_decides_rules_that_need_a_run(project) -> None:
    static, measured = check(project), check(project, profile="before.json")
    needs = [{skipped.rule.id for skipped in one.bundles[0].skipped} for one in (static, measured)]
    assert needs[1] < needs[0]
    assert measured.gates == ()


@pytest.mark.train
def test_limits_of_facts(project) -> None:
    checked = check(project, profile="before.json", maxima={"data_wait_share": 1.0, "step.median_ms": 0.0})
    assert [(gate.fact, gate.holds) for gate in checked.gates] == [
        ("step.data_wait_share", True),
        ("step.median_ms", False),
    ]
    assert checked.fails


@pytest.mark.train
@pytest.mark.parametrize(("profile", "holds"), [("before.json", True), ("slower.json", False)])
def test_a_plant_of_ten_percent_is_caught_and_the_same_again_is_not(profile: str, holds: bool, project) -> None:
    checked = check(project, profile=profile, against="before.json", max_regression=0.05)
    (gate,) = checked.gates
    assert gate.holds is holds, gate.why
    assert check(project, profile=profile, against="before.json", max_regression=0.2).gates[0].holds
    assert not check(project, profile="slower.json", against="before.json", max_regression=0.09).gates[0].holds
