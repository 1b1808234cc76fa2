"""A small discrete-event model of a DataLoader and the training that it feeds, on a limited number of cores.

Batches are dealt to the workers in turn and taken in order, as torch does (utils/data/dataloader.py,
_MultiProcessingDataLoaderIter): workers x prefetch are outstanding, and one is asked for whenever one is taken.
Who computes shares the cores evenly, and is slower the more of them are busy; who waits for I/O needs none.
"""

from __future__ import annotations

import functools
import random
from collections import deque

from msgspec import Struct

SEED = 20_251
BATCHES = 96
"""Simulated after those that were ready before the first step."""

MOST_CV = 1.5

CROWDED = 0.15
"""A core takes that much longer beside cores that are all busy: they share caches, memory and power, and two may be
threads of one. Set by the fit half of benchmarks/prediction.py."""


class Pipeline(Struct, frozen=True):
    """Costs of one batch in milliseconds, with nothing beside them.

    `serial_ms` prepares it in the training process; a worker needs `io_ms` of waiting and `cpu_ms` of computing;
    `handover_ms` takes it from a worker; `compute_ms` trains on it with `threads` cores,
    `warm_ms` does so on one that was there already: who has slept begins with cold caches. `start_ms` and `end_ms` are
    for each worker of an epoch of `batches` (None: unknown or endless, and so for nothing). `cv` is the standard
    deviation of the time to prepare a batch, of its mean.
    """

    serial_ms: float
    io_ms: float
    cpu_ms: float
    handover_ms: float
    compute_ms: float
    warm_ms: float
    start_ms: float
    end_ms: float
    cores: float
    threads: float = 1.0
    batches: int | None = None
    cv: float = 0.0


@functools.lru_cache(maxsize=1024)
def batch_ms(costs: Pipeline, workers: int, prefetch: int = 2) -> float:
    """Milliseconds from batch to batch with `workers`, the start and the end of an epoch's workers included."""
    if workers == 0:
        return costs.serial_ms + costs.compute_ms
    return _taken(costs, workers, prefetch) + epoch_ms(costs, workers)


def epoch_ms(costs: Pipeline, workers: int) -> float:
    """What of that is the start and the end of an epoch's workers, with the first batch, which is waited for."""
    if not workers or not costs.batches:
        return 0.0
    return ((costs.start_ms + costs.end_ms) * workers + costs.io_ms + costs.cpu_ms) / costs.batches


def _taken(costs: Pipeline, workers: int, prefetch: int) -> float:
    """Mean time between two batches once those that were ready at the start are used up."""
    ready = workers * prefetch
    ends = Simulation(costs, workers, prefetch).ends(ready + BATCHES)
    return (ends[-1] - ends[ready - 1]) / BATCHES


class SimulatedProcess(Struct):
    """What a process does now: `left` milliseconds on `cores` cores; 0 cores wait. `then` is what follows it."""

    left: float
    cores: float
    then: tuple[tuple[float, float], ...] = ()


class Simulation:
    """One run of the model: process 0 trains, 1 .. workers prepare."""

    def __init__(self, costs: Pipeline, workers: int, prefetch: int) -> None:
        self.costs = costs
        self.factors = _factors(costs.cv)
        self.now, self.asked, self.wanted, self.trained_at = 0.0, 0, 0, 0.0
        self.queues: list[deque[int]] = [deque() for _ in range(workers)]
        self.ready: set[int] = set()
        self.jobs: dict[int, SimulatedProcess] = {}
        for _ in range(workers * prefetch):
            self._ask()

    def ends(self, count: int) -> list[float]:
        """When each of the first `count` batches was trained on."""
        ends: list[float] = []
        while len(ends) < count:
            self._start()
            for process in self._advance():
                job = self.jobs.pop(process)
                if job.then:
                    (left, cores), *rest = job.then
                    self.jobs[process] = SimulatedProcess(left, cores, tuple(rest))
                elif process:
                    self.ready.add(self.queues[process - 1].popleft())
                else:
                    self.trained_at = self.now
                    ends.append(self.now)
        return ends

    def _ask(self) -> None:
        self.queues[self.asked % len(self.queues)].append(self.asked)
        self.asked += 1

    def _start(self) -> None:
        """Who is free and has something to do begins it."""
        costs = self.costs
        if 0 not in self.jobs and self.wanted in self.ready:
            self.ready.remove(self.wanted)
            self.wanted += 1
            self._ask()
            train_ms = costs.compute_ms if self.now > self.trained_at else costs.warm_ms
            self.jobs[0] = SimulatedProcess(costs.handover_ms, 1.0, ((train_ms, costs.threads),))
        for process, queue in enumerate(self.queues, 1):
            if queue and process not in self.jobs:
                factor = self.factors[queue[0] % len(self.factors)]
                self.jobs[process] = SimulatedProcess(costs.io_ms * factor, 0.0, ((costs.cpu_ms * factor, 1.0),))

    def _slowed(self, busy: float) -> float:
        """How many times as long a core takes where `busy` are."""
        cores = self.costs.cores
        return 1 + CROWDED * max(0.0, min(busy, cores) - 1) / max(1.0, cores - 1)

    def _advance(self) -> list[int]:
        """Go on to when the next job is done; all that are done then."""
        busy = sum(job.cores for job in self.jobs.values())
        speed = min(1.0, self.costs.cores / max(1e-9, busy)) / self._slowed(busy)
        # What a job was measured by alone has its own threads in it.
        rates = {key: speed * self._slowed(job.cores) if job.cores else 1.0 for key, job in self.jobs.items()}
        passed = min(job.left / rates[key] for key, job in self.jobs.items())
        for key, job in self.jobs.items():
            job.left -= passed * rates[key]
        self.now += passed
        return [process for process, job in self.jobs.items() if job.left <= 1e-9]


def _factors(cv: float) -> list[float]:
    """How long each batch takes, of the mean: gamma distributed, always the same draws, with a mean of 1."""
    cv = min(cv, MOST_CV)
    if cv <= 0:
        return [1.0]
    draw = random.Random(SEED)
    drawn = [draw.gammavariate(cv**-2, cv**2) for _ in range(BATCHES)]
    return [value * len(drawn) / sum(drawn) for value in drawn]
