"""Growth is certain where a phase rises steadily and nothing else explains it; everything that resembles it is not."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from build import MS, TRAIN, Script, facts_of, loader, recording, window
from msgspec.structs import replace

from autotune.derive import timeline
from autotune.derive.growth import LEAST_STEPS, PLANNED
from autotune.derive.summary_statistics import kendall_tau, theil_sen
from autotune.model.evidence import Value
from autotune.model.recording import Batch, Sample

COUNT = 33
"""Steps: a warm-up of three and a window of thirty."""


def grown(forward: Any = lambda step: 20, other: Any = lambda step: 10 + step, micros: Any = lambda step: 1) -> Script:
    """Steps of 20 ms of forward, 30 of backward, 5 of the optimizer and, first, `other` ms of the script's own."""
    script = Script()
    for step in range(COUNT):
        script.idle(other(step))
        for _ in range(micros(step)):
            script.forward(forward(step), TRAIN)
            script.run("backward", 30)
        script.update(5)
    return script


def growth(
    script: Script, cpu: float = 1.0, memory: Any = None, inputs: Any = None, queued: float | None = None, **fields: Any
) -> dict[str, Value]:
    """Facts `growth.*`, their names without it; the process uses `cpu` CPUs."""
    measured = window(script, 3)
    assert measured is not None
    ends = measured.step_ends_ns
    measured = replace(
        measured,
        queued_ns=None if queued is None else round(queued * (measured.end_ns - measured.start_ns)),
        step_process_cpu_ns=tuple(round(cpu * (end - ends[0])) for end in ends),
        step_input_elements=tuple(inputs(step) for step in range(len(ends))) if inputs else (),
        memory_bytes=tuple((step + 1, memory(step)) for step in range(len(ends))) if memory else (),
    )
    found = facts_of(script=script, **{"window": measured, "loaders": (), **fields})
    return {name.removeprefix("growth."): value for name, value in found.items() if name.startswith("growth.")}


def test_a_phase_that_rises_steadily_grows() -> None:
    found = growth(grown())
    assert found["step_is_certain"] is True
    assert found["step_ms_per_step"] == pytest.approx(1.0)
    assert found["phase"] == "the script's own code"
    assert found["num_steps"] == PLANNED
    assert found["step_ms_then"] == pytest.approx(55 + 10 + 31 + PLANNED - COUNT)
    assert found["step_share"] == pytest.approx((COUNT - 15) / (55 + 10 + 17.5))
    assert "place" not in found


def test_a_planned_run_is_as_long_as_it_is() -> None:
    site = {"file": "train.py", "line": 1, "function": "main", "is_user": True}
    told = {"type": "TrainingArguments", "module": "transformers", "site": site, "values": {"max_steps": 133}}
    found = growth(grown(), frameworks={"hf_args": told})
    assert found["num_steps"] == 133
    assert found["step_ms_then"] == pytest.approx(96 + 100)


def test_noise_hides_no_growth_that_is_larger() -> None:
    draw = random.Random(0)
    found = growth(grown(other=lambda step: 10 + step + draw.randint(0, 8)))
    assert found["step_is_certain"] is True
    assert found["step_ms_per_step"] == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda step: 10, id="nothing rises"),
        pytest.param(lambda step: 10 + 30 * (step > 16), id="a change of level"),
        pytest.param(lambda step: 10 + 2 * min(step, 16), id="a cache that fills half way"),
        pytest.param(lambda step: 10 + 2 * max(0, step - 16), id="a rise that begins half way"),
        pytest.param(lambda step: 40 - step, id="it falls"),
        pytest.param(lambda step: 10 + step // 6, id="less than a tenth of a step in all"),
        pytest.param(lambda step: 10 + 60 * (step == 30), id="one slow step"),
        pytest.param(lambda step: 10 + 40 * (step % 10 == 9), id="every tenth step"),
    ],
)
def test_what_only_resembles_growth_is_none(other: Any) -> None:
    found = growth(grown(other=other))
    assert found["step_is_certain"] is False
    assert not {"phase", "step_share", "step_ms_then", "place"} & set(found)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_growth(seed: int) -> None:
    draw = random.Random(seed)
    script = grown(lambda step: draw.randint(5, 60), lambda step: draw.randint(1, 40))
    assert growth(script)["step_is_certain"] is False


def test_a_machine_that_slows_down_slows_down_all() -> None:
    script = Script()
    for step in range(COUNT):
        slow = 1 + step / 20
        script.idle(round(10 * slow))
        script.forward(round(20 * slow), TRAIN)
        script.run("backward", round(30 * slow))
        script.update(round(5 * slow))
    assert growth(script)["step_is_certain"] is False


def test_without_a_rest_there_is_nothing_to_tell_by() -> None:
    script = Script()
    for step in range(COUNT):
        script.idle(10 + step)
        script.end_step()
    assert growth(script)["step_is_certain"] is False


@pytest.mark.parametrize(
    ("queued", "threads", "certain"),
    [(None, 2, True), (0.2, 2, True), (0.21, 2, False), (0.21, 1, True), (0.9, None, False)],
)
def test_with_several_threads_a_crowded_machine_leaves_it_open(queued: Any, threads: Any, certain: bool) -> None:
    found = growth(grown(), queued=queued, torch_state={"num_threads": threads})
    assert found["step_is_certain"] is certain


@pytest.mark.parametrize(
    ("rest", "queued", "certain"),
    [(1, 0.0, True), (0, 0.0, False), (1, None, False), (1, 0.5, False), (1, -0.5, False), (3, None, True)],
)
def test_a_short_rest_tells_enough_on_a_quiet_machine(rest: int, queued: Any, certain: bool) -> None:
    """The rest is `rest` ms of a step of 210 ms: under a hundredth for 1 ms."""
    script = Script()
    for step in range(COUNT):
        script.idle(40 + 10 * step)
        script.update(rest)
    found = growth(script, queued=queued, torch_state={"num_threads": 1})
    assert found["step_is_certain"] is certain


@pytest.mark.parametrize(
    ("inputs", "certain"),
    [
        pytest.param(lambda step: 100 * step, True, id="as large in each step"),
        pytest.param(lambda step: 100 * step + step * step, False, id="larger in each step: a curriculum, an episode"),
        pytest.param(lambda step: 0, True, id="nothing that has a size"),
    ],
)
def test_growth_with_the_inputs_is_not_certain(inputs: Any, certain: bool) -> None:
    assert growth(grown(), inputs=inputs)["step_is_certain"] is certain


def test_growth_with_the_number_of_calls_is_not_certain() -> None:
    assert (
        growth(grown(other=lambda step: 10 + 2 * step, micros=lambda step: 1 + step // 4))["step_is_certain"] is False
    )


@pytest.mark.parametrize(("more", "certain"), [(0, True), (50, False)])
def test_growth_with_the_batches_is_not_certain(more: int, certain: bool) -> None:
    script = Script()
    for step in range(COUNT):
        script.fetch(5)
        script.idle(10 + step)
        script.forward(20)
        script.run("backward", 30)
        script.update(5)
    rows = tuple(Batch(0, step, 8, 1000 + more * step, ((8, 4),)) for step in range(COUNT))
    assert growth(script, loaders=(loader(),), batches=rows)["step_is_certain"] is certain


@pytest.mark.parametrize(("workers", "certain"), [(0, True), (2, False)])
def test_what_workers_are_waited_for_is_not_the_process_own(workers: int, certain: bool) -> None:
    script = Script()
    for step in range(COUNT):
        script.step(fetch=10 + step)
    found = growth(script, loaders=(loader(arguments={"num_workers": workers}),))
    assert found["step_is_certain"] is certain


@pytest.mark.parametrize(("filling", "certain"), [(0, True), (1, False)])
def test_a_deque_that_fills_ends_growing(filling: int, certain: bool) -> None:
    kept = {"num_steps": 1, "num_filling": filling, "holder": None}
    assert growth(grown(), kept_graphs=kept)["step_is_certain"] is certain


def sampled(line: int, count: int, step: float, cpu: float = 1.0, phase: str = "other") -> Sample:
    return Sample(
        phase, "x.py", "leaf", "train.py", line, "rank", count,
        wall_ns=count * 20 * MS, cpu_ns=round(count * 20 * MS * cpu), step_sum=round(count * step),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpu", "process", "certain"),
    [(1.0, 1.0, True), (0.5, 1.0, True), (0.4, 1.0, False), (0.4, 0.6, True), (1.0, 2.0, True)],
)
def test_what_only_waits_longer_is_not_certain(cpu: float, process: float, certain: bool) -> None:
    found = growth(grown(), cpu=process, samples=(sampled(3, 20, 18.0, cpu),))
    assert found["step_is_certain"] is certain


def test_the_line_whose_samples_come_late_is_named() -> None:
    early, late = sampled(3, 200, 17.5), sampled(8, 60, 23.0)
    backward = sampled(9, 500, 25.0, phase="backward")
    assert growth(grown(), samples=(early, late, backward))["place"] == "rank (train.py:8)"


@pytest.mark.parametrize(("count", "step"), [(7, 30.0), (60, 20.0)], ids=["few samples", "not surely late"])
def test_a_line_that_is_not_surely_late_is_not_named(count: int, step: float) -> None:
    assert "place" not in growth(grown(), samples=(sampled(8, count, step),))


def test_too_few_steps_and_older_recordings_say_nothing() -> None:
    short = Script()
    for step in range(LEAST_STEPS):
        short.idle(step)
        short.update()
    assert growth(short) == {}
    found = facts_of(script=grown(), loaders=())
    assert {name for name in found if name.startswith("growth.")} == {"growth.num_steps"}


def test_evaluations_are_no_part_of_it() -> None:
    script = Script()
    for step in range(COUNT):
        script.step()
        script.evaluate(batches=1 + step)
    assert growth(script, loaders=(loader(), loader(1)))["step_is_certain"] is False


@pytest.mark.parametrize(("steps", "certain"), [(1, True), (3, False)])
def test_on_cuda_more_is_asked_for_and_nothing_is_named(steps: int, certain: bool) -> None:
    device = {"type": "cuda", "name": None, "capability": None, "index": 0}
    found = growth(grown(other=lambda step: 10 + step // steps), device=device)
    assert found["step_is_certain"] is certain
    assert "phase" not in found
    assert growth(grown(other=lambda step: 10 + step // steps))["step_is_certain"] is True


# Memory


def test_memory_that_rises_steadily() -> None:
    found = growth(grown(), memory=lambda step: 10**9 + 500_000 * step)
    assert found["memory_is_steady"] is True
    assert found["memory_bytes_per_step"] == 500_000
    assert found["memory_bytes_then"] == 10**9 + 500_000 * (PLANNED - 1)


@pytest.mark.parametrize(
    "memory",
    [lambda step: 10**9, lambda step: 10**9 + 10**6 * min(step, 12), lambda step: 10**9 + 10**8 * (step > 16)],
    ids=["level", "an allocator that warms up", "one large allocation"],
)
def test_memory_that_does_not_rise_all_along(memory: Any) -> None:
    found = growth(grown(), memory=memory)
    assert found["memory_is_steady"] is False
    assert "memory_bytes_per_step" not in found


def test_memory_that_was_read_rarely_is_scaled_to_steps() -> None:
    measured = window(grown(), 3)
    assert measured is not None
    script = grown()
    script.ends = list(range(1, 101))
    measured = replace(window(script, 3), memory_bytes=tuple((step, 1000 * step) for step in range(3, 100, 4)))
    assert facts_of(script=script, window=measured, loaders=())["growth.memory_bytes_per_step"] == 1000


@pytest.mark.parametrize(("held", "stated"), [(32, 32), (26, 26), (25, 0), (1, 0)])
def test_graphs_are_kept_where_those_of_nearly_all_steps_are(held: int, stated: int) -> None:
    holder = {"name": "losses", "file": "train.py", "line": 9}
    found = growth(grown(), kept_graphs={"num_steps": held, "num_filling": 0, "holder": holder})
    assert found["num_kept_graphs"] == stated
    assert found.get("holder") == ("losses" if stated else None)


# Its arithmetic


@pytest.mark.parametrize(
    ("values", "slope", "tau"),
    [
        ([], 0.0, 0.0),
        ([4.0], 0.0, 0.0),
        ([1.0, 3.0, 5.0, 7.0], 2.0, 1.0),
        ([7.0, 5.0, 3.0, 1.0], -2.0, -1.0),
        ([1.0, 2.0, 3.0, 1000.0, 5.0, 6.0, 7.0], 1.0, 1 - 2 * 3 / 21),
        ([2.0, 2.0, 2.0], 0.0, 0.0),
        ([0.0] * 8 + [1.0] * 8, 0.0, 64 / 120),
    ],
)
def test_slopes_and_signs_of_all_pairs(values: list[float], slope: float, tau: float) -> None:
    assert theil_sen(values) == pytest.approx(slope, abs=0.1)
    assert kendall_tau(values) == pytest.approx(tau)


def test_the_phases_of_each_step_sum_to_it() -> None:
    script = Script()
    for step in range(4):
        script.step()
        script.idle(step)
        script.end_step()
    nodes = timeline.nest(recording(script).events)
    edges = [end * MS for end in script.ends]
    rows = timeline.by_step(nodes, edges, [(edges[1], edges[1] + 5 * MS)])
    assert [sum(row.values()) for row in rows] == [after - before for before, after in pairwise(edges)]
    assert rows[0] == {}
    assert rows[1] == {
        "evaluation": 5 * MS,
        "data_wait": 5 * MS,
        "forward": 20 * MS,
        "backward": 30 * MS,
        "optimizer": 5 * MS,
    }
    assert rows[2] == {"other": 1 * MS}
