from __future__ import annotations

from typing import Any

import pytest
from build import MS, facts_of, steps

from autotune.derive import busy_cpus
from autotune.model.recording import Sample


def sample(line: int, count: int, cpus: float | None, phase: str = "other", file: str = "train.py") -> Sample:
    wall = count * 10 * MS
    used = {} if cpus is None else {"wall_ns": wall, "cpu_ns": round(cpus * wall), "step_sum": 0}
    return Sample(phase, "/lib/y.py", "leaf", file, line if file else 0, "work" if file else "", count, **used)


def share(cpus: float | None = 8, threads: Any = 8, **fields: Any) -> Any:
    given = {"script": steps(11), "torch_state": {"num_threads": threads}, **fields}
    return facts_of(limits={"cpus_per_rank": cpus}, **given).get("step.one_cpu_share")


@pytest.mark.parametrize(
    ("cpus", "expected"), [(0.69, 0.0), (0.7, 0.2), (1.0, 0.2), (1.3, 0.2), (1.31, 0.0), (6.0, 0.0), (0.02, 0.0)]
)
def test_what_runs_on_about_one_cpu(cpus: float, expected: float) -> None:
    """Ten steps of 65 ms; thirteen samples of 10 ms each are a fifth of them."""
    assert share(samples=(sample(3, 13, cpus),)) == pytest.approx(expected)


def test_phases_of_one_line_count_together_and_few_samples_do_not() -> None:
    assert share(samples=(sample(3, 6, 1.9), sample(3, 7, 0.1, "backward"))) == pytest.approx(0.2)
    assert share(samples=(sample(3, 13, 1.0), sample(4, 9, 1.0))) == pytest.approx(0.2)


@pytest.mark.parametrize(
    "changes",
    [
        {"cpus": None},
        {"cpus": 1},
        {"threads": 1},
        {"threads": None},
        {"samples": (sample(3, 13, None),)},
        {"samples": ()},
    ],
    ids=["CPUs unknown", "one CPU", "one thread", "threads unknown", "an older recording", "no sample"],
)
def test_it_is_unknown_where_it_has_no_meaning(changes: dict[str, Any]) -> None:
    assert share(**{"samples": (sample(3, 13, 1.0),), **changes}) is None


def test_by_place() -> None:
    rows = (sample(3, 10, 2.0), sample(3, 30, 1.0), sample(5, 9, 1.0), sample(0, 10, 0.5, file=""), sample(6, 50, None))
    assert busy_cpus.by_place(rows) == {
        ("train.py", 3, "work"): pytest.approx(1.25),
        ("/lib/y.py", 0, "leaf"): pytest.approx(0.5),
    }
