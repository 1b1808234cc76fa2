"""Synthetic Recordings: a Script plays a training script on a clock of milliseconds, so that every number is exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from autotune.derive.assemble import derive
from autotune.model.derived import Derived
from autotune.model.evidence import Setting, Value
from autotune.model.recording import Batch, Event, Fetch, RecordedWindow, Recording, Sample, WhatIf

MS = 1_000_000
TRAIN, NO_GRAD, GRAD_IN_EVAL = 3, 0, 1
"""Flags of a forward: gradients and training mode, neither, gradients alone."""

USER = {"file": "train.py", "line": 7, "function": "main", "is_user": True}
LIBRARY = {"file": "/lib/transformers/trainer.py", "line": 900, "function": "get", "is_user": False}
GB = 1 << 30


@dataclass
class Script:
    """Appends events and moves the clock (ms). `ends` are the ends of its optimizer steps."""

    now: int = 0
    events: list[Event] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def run(self, kind: str, ms: int, ref: int = -1, flag: int = 0) -> None:
        """One event without anything inside."""
        with self.inside(kind, ref, flag):
            self.now += ms

    @contextmanager
    def inside(self, kind: str, ref: int = -1, flag: int = 0) -> Iterator[None]:
        """An event around others."""
        start = self.now
        yield
        self.events.append(Event(kind, start * MS, self.now * MS, ref, flag))

    def idle(self, ms: int) -> None:
        self.now += ms

    def fetch(self, ms: int, loader: int = 0, came: bool = True) -> None:
        self.run("fetch", ms, loader, int(came))

    def forward(self, ms: int, flag: int = TRAIN, model: int = 0) -> None:
        self.run("forward", ms, model, flag)

    def mode(self, train: bool, model: int = 0) -> None:
        self.run("mode", 0, model, int(train))

    def micro(self, fetch: int = 10, forward: int = 20, backward: int = 30, loader: int = 0) -> None:
        """One micro-batch."""
        self.fetch(fetch, loader)
        self.forward(forward)
        self.run("backward", backward)

    def update(self, ms: int = 5, optimizer: int = 0) -> None:
        """An optimizer step, which ends a step."""
        self.run("optimizer", ms, optimizer)
        self.end_step()

    def end_step(self) -> None:
        self.ends.append(self.now)

    def step(self, micros: int = 1, **ms: int) -> None:
        for _ in range(micros):
            self.micro(**ms)
        self.update()

    def evaluate(self, batches: int = 2, loader: int = 1, modes: bool = True, flag: int = NO_GRAD) -> None:
        """4 ms of start, then 3 + 7 ms per batch."""
        if modes:
            self.mode(False)
        self.run("iter", 4, loader)
        for _ in range(batches):
            self.fetch(3, loader)
            self.forward(7, flag)
        if modes:
            self.mode(True)


def loader(identity: int = 0, **changes: Any) -> dict[str, Any]:
    arguments = {
        "num_workers": 0,
        "batch_size": 8,
        "prefetch_factor": None,
        "pin_memory": False,
        "persistent_workers": False,
    }
    row = {
        "id": identity,
        "site": USER,
        "arguments": arguments | changes.pop("arguments", {}),
        "given": ["batch_size"],
        "dataset": {"type": "Data", "module": "__main__", "length": 800, "map_style": True},
        "num_batches": 100,
        "wraps": None,
    }
    return row | changes


def model(identity: int = 0, **changes: Any) -> dict[str, Any]:
    row = {
        "id": identity,
        "type": "Net",
        "module": "__main__",
        "site": USER,
        "num_params": 1000,
        "num_trainable": 900,
        "param_bytes": 4000,
        "dtypes": {"float32": 1000},
        "num_batchnorm": 0,
        "checkpointing": False,
        "compiled": False,
    }
    return row | changes


def optimizer(identity: int = 0, **changes: Any) -> dict[str, Any]:
    row = {
        "id": identity,
        "type": "AdamW",
        "module": "torch.optim.adamw",
        "site": USER,
        "arguments": {},
        "has_fused": True,
    }
    return row | changes


def batches(lengths: Iterable[tuple[int, ...]], width: int | None = None, loader: int = 0) -> tuple[Batch, ...]:
    """Batches of samples with these lengths, padded to `width` or to their own longest."""
    return tuple(_batch(row, width or max(row), loader) for row in lengths)


def _batch(row: tuple[int, ...], width: int, owner: int) -> Batch:
    size = len(row)
    return Batch(owner, 0, size, size * width * 8, ((size, width),), size * width, sum(row), width, row, "pad_id")


def fetches(
    wall_ms: Iterable[int], cpu_ms: int = 1, collate_ms: int = 0, pid: int = 1, loader: int = 0
) -> tuple[Fetch, ...]:
    return tuple(
        Fetch(loader, pid, i, wall * MS, cpu_ms * MS, collate_ms * MS, 0, 8, True) for i, wall in enumerate(wall_ms)
    )


def launches(name: str, ms: float, operator: str = "", count: int = 1, kind: str = "kernel") -> dict[str, Any]:
    """`count` launches that took `ms` together, for `kernels`."""
    return {"name": name, "operator": operator, "kind": kind, "count": count, "total_ns": int(ms * MS)}


def kernels(
    *given: dict[str, Any], busy: float, end: int, start: int = 0, steps: int = 1, idle: Any = (), host: Any = None
) -> Any:
    """A synthetic `kernels` of profiled steps in start..end; all times in ms. `host` are ({name ...}, start, end).

    The kernels follow one another for `busy` ms around the gaps of `idle`, and run beside one another where they are
    longer than that. Copies and fills begin with the first of them.
    """
    slots = _slots([(first * MS, last * MS) for first, last in idle], busy * MS, start * MS, end * MS)
    laid, at = [], 0.0
    for row, one in enumerate(given):
        for _ in range(one["count"]):
            length = one["total_ns"] / one["count"]
            if one["kind"] != "kernel":
                laid.append((row, 7, start * MS, round(length)))
                continue
            laid += [(row, 7 + row, round(a), round(b - a)) for a, b in _cut(slots, at, length)]
            at += length
    table: dict[str, Any] = {"steps": steps, "start_ns": start * MS, "end_ns": end * MS}
    if host is not None:
        table["host_rows"] = [row for row, _, _ in host]
        table["host"] = [(number, round(a * MS), round((b - a) * MS)) for number, (_, a, b) in enumerate(host)]
    rows = [{key: one[key] for key in ("name", "operator", "kind")} for one in given]
    return table | {"rows": rows, "launches": sorted(laid, key=lambda one: one[2])}


def on_host(name: str, start: float, end: float, kind: str = "operator", **more: str) -> tuple[Any, float, float]:
    """What the host did from `start` to `end` ms, for `kernels`."""
    return {"name": name, "operator": "", "kind": kind} | more, start, end


def _slots(idle: list[tuple[float, float]], busy: float, start: float, end: float) -> list[tuple[float, float]]:
    """Where kernels run for `busy` ns: between the gaps, 1 ms after the last one, and the rest before the first."""
    if not idle:
        return [(start, start + busy)]
    edges = [start, *(edge for gap in idle for edge in gap), end]
    between = [(edges[i], edges[i + 1]) for i in range(2, len(edges) - 2, 2)]
    left = busy - sum(b - a for a, b in between)
    before = min(left - MS, edges[1] - start)
    return [(edges[1] - before, edges[1]), *between, (edges[-2], edges[-2] + left - before)]


def _cut(slots: list[tuple[float, float]], at: float, length: float) -> Iterator[tuple[float, float]]:
    """The stretches of `slots`, taken one after another and again from the first, from `at` on and `length` long."""
    whole = sum(b - a for a, b in slots)
    while length > 1e-6:
        place = at % whole
        for a, b in slots:
            if place < b - a - 1e-6:
                part = min(length, b - a - place)
                yield a + place, a + place + part
                at, length = at + part, length - part
                break
            place -= b - a
        else:
            at += whole - at % whole


def what_if(name: str, arguments: dict[str, Any] | None = None, outcome: str = "completed", **result: Any) -> WhatIf:
    return WhatIf(name, outcome, arguments or {}, result)


def sample(phase: str, count: int, leaf: str = "/lib/x.py", user: str = "train.py", line: int = 3) -> Sample:
    return Sample(phase, leaf, "leaf", user, line if user else 0, "work" if user else "", count)


def recording(script: Script | None = None, warmup: int = 1, **changes: Any) -> Recording:
    """A Recording of `script`, whose window begins after `warmup` steps; any field can be given."""
    script = script or Script()
    fields: dict[str, Any] = {
        "outcome": "completed",
        "origin_ns": 0,
        "process": {"rank": 0, "world_size": 1, "local_world_size": 1},
        "error": None,
        "software": {"torch": "2.13.0"},
        "device": {"type": "cpu", "name": None, "capability": None, "index": None},
        "window": window(script, warmup),
        "events": tuple(script.events),
        "fetches": (),
        "batches": (),
        "samples": (),
        "sampler_interval_ns": 10 * MS,
        "loaders": (loader(),),
        "optimizers": (optimizer(),),
        "models": (model(),),
        "frameworks": {},
        "calls": (),
        "torch_state": {"autocast": "off", "num_threads": 2, "anomaly": False, "matmul_precision": "highest"},
        "environment": {"NCCL_DEBUG": ""},
        "memory": {"rss_peak_bytes": 2 * GB, "rss_start_bytes": GB},
        "io": None,
        "compile": None,
        "kernels": None,
        "what_ifs": (),
        "side_effects": {"blocked": [], "not_isolated": []},
        "overhead": {},
    }
    return Recording(**(fields | changes))


def window(script: Script, warmup: int, ended_by: str = "steps") -> RecordedWindow | None:
    ends = [end * MS for end in script.ends]
    if len(ends) <= warmup:
        return None
    start = ends[warmup - 1] if warmup else 0
    return RecordedWindow(warmup, len(ends) - warmup, start, ends[-1], tuple(ends), "optimizer", ended_by)


def facts(derived: Derived, subject: str = "run") -> dict[str, Value]:
    return {fact.name: fact.value for fact in derived.facts if fact.subject == subject}


def facts_of(subject: str = "run", limits: dict[str, Any] | None = None, **fields: Any) -> dict[str, Value]:
    """The facts of `subject` of a Recording with these fields; `limits` go to derive."""
    return facts(derive([recording(**fields)], **(limits or {})), subject)


def settings_of(**fields: Any) -> dict[tuple[str, str], Setting]:
    return {(row.subject, row.name): row for row in derive([recording(**fields)]).settings}


def steps(count: int, micros: int = 1, **ms: int) -> Script:
    """`count` plain steps: 10 ms fetch, 20 forward, 30 backward per micro-batch, 5 optimizer."""
    script = Script()
    for _ in range(count):
        script.step(micros, **ms)
    return script
