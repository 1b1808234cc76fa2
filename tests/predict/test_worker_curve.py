from __future__ import annotations

import pytest
from test_predict_step_time import FACTS, LOADER

from autotune.model.evidence import RUN, Evidence
from autotune.model.window_detail import WorkerCount
from autotune.predict.worker_curve import predicted
from autotune.predict.workers import workers

TRIED = (WorkerCount(0, None, 40.0), WorkerCount(1, None, 41.0))


def test_from_none_to_more_than_there_are_cores_beside_what_was_tried() -> None:
    found = predicted(TRIED, Evidence(FACTS))
    assert [one.workers for one in found] == list(range(7))
    assert [one.alone_ms for one in found[:3]] == [40.0, 41.0, None]
    assert [one.is_now for one in found[:2]] == [True, False]
    assert found[0].predicted_ms == pytest.approx(100.0)
    gain = workers({"workers": "2"}, Evidence(FACTS), LOADER)
    assert gain is not None and gain.speedup > 1
    assert found[2].predicted_ms == pytest.approx(100.0 / gain.speedup)


@pytest.mark.parametrize(("owner", "name"), [(RUN, "machine.cpus_per_rank"), (LOADER, "loader.num_workers")])
def test_without_its_facts_there_is_no_curve(owner: str, name: str) -> None:
    facts = {**FACTS, owner: {key: value for key, value in FACTS[owner].items() if key != name}}
    assert predicted(TRIED, Evidence(facts)) == ()


def test_where_nothing_was_tried_there_is_no_curve() -> None:
    assert predicted((), Evidence(FACTS)) == ()
