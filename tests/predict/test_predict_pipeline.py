from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from autotune.predict.pipeline import CROWDED, Pipeline, batch_ms

IO = Pipeline(serial_ms=30, io_ms=30, cpu_ms=0, handover_ms=0, compute_ms=10, warm_ms=10, start_ms=0, end_ms=0, cores=4)
CPU = replace(IO, io_ms=0, cpu_ms=30)
SLOWER = 1 + CROWDED


def test_without_workers_a_batch_and_a_step_take_turns():
    assert batch_ms(IO, 0) == 40


@pytest.mark.parametrize(
    ("costs", "workers", "ms"),
    [
        pytest.param(IO, 1, 30, id="the slower of the two"),
        pytest.param(IO, 2, 15, id="workers wait beside one another"),
        pytest.param(IO, 4, 10, id="training is the slower one"),
        pytest.param(replace(IO, cores=0.5), 2, 20, id="training itself has half a core"),
        pytest.param(replace(IO, handover_ms=2), 4, 12, id="handing over is training's time"),
        pytest.param(replace(CPU, cores=64), 2, 15, id="cores enough"),
        pytest.param(replace(CPU, cores=2), 4, SLOWER * 20, id="two cores do 30 + 10 ms, each slower beside the other"),
        pytest.param(replace(CPU, cores=1), 4, 40, id="one core gains nothing"),
        pytest.param(
            replace(CPU, cores=2, threads=2),
            4,
            (SLOWER * 30 + 20) / 2,
            id="training was measured on both: 30 + 2 x 10 ms",
        ),
        pytest.param(replace(IO, batches=10, start_ms=50, end_ms=15), 2, 15 + (2 * 65 + 30) / 10, id="a short epoch"),
    ],
)
def test_the_steady_pace(costs, workers, ms):
    assert batch_ms(costs, workers) == pytest.approx(ms, rel=0.02)


def test_cheap_batches_lose_by_workers():
    cheap = replace(CPU, serial_ms=0.2, cpu_ms=0.8, handover_ms=0.5, compute_ms=5, warm_ms=5, cores=2)
    tiny = replace(cheap, start_ms=40, batches=40)
    paces = [batch_ms(tiny, workers) for workers in (0, 1, 2, 4)]
    assert paces == sorted(paces)


def test_uneven_batches_are_waited_for_in_their_order():
    even = replace(IO, compute_ms=14, warm_ms=14)
    uneven = replace(even, cv=1.0)
    assert batch_ms(uneven, 2) > batch_ms(even, 2) * 1.05
    assert batch_ms(uneven, 2, prefetch=8) < batch_ms(uneven, 2, prefetch=1)


def test_a_batch_that_was_there_is_trained_on_at_once():
    slept = replace(IO, compute_ms=14, warm_ms=10)
    assert batch_ms(slept, 0) == 44
    assert batch_ms(slept, 1) == pytest.approx(30)
    assert batch_ms(slept, 4) == pytest.approx(10, rel=0.05)


costs = st.builds(
    Pipeline,
    serial_ms=st.floats(0.1, 50),
    io_ms=st.floats(0, 50),
    cpu_ms=st.floats(0.1, 50),
    handover_ms=st.floats(0.01, 2),
    compute_ms=st.floats(0.5, 50),
    warm_ms=st.just(0.5),
    start_ms=st.just(0.0),
    end_ms=st.just(0.0),
    cores=st.floats(0.5, 16),
    threads=st.just(1.0),
)


@given(costs, st.integers(1, 6))
def test_neither_the_cores_nor_the_workers_nor_training_can_be_beaten(costs, workers):
    costs = replace(costs, warm_ms=costs.compute_ms)
    floor = max(
        (costs.io_ms + costs.cpu_ms) / workers,
        (costs.cpu_ms + costs.handover_ms + costs.compute_ms) / costs.cores,
        costs.handover_ms + costs.compute_ms,
    )
    alone = costs.io_ms + (costs.cpu_ms + costs.handover_ms + costs.compute_ms) / min(1, costs.cores)
    pace = batch_ms(costs, workers)
    # Up to the batches in flight at the ends of what is simulated.
    assert floor * 0.85 <= pace <= alone * max(1, workers) * 1.15
