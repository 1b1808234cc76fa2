"""Small builders of jobs: their lines, and stored Recordings of their ranks. What a test does not say is plausible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autotune.collect import artefacts
from autotune.model import recording as wire
from autotune.model.job import FoundJobs, JobSummary
from autotune.model.recording import Recording

STEP_MS, NUM_STEPS = 65.0, 12


def rank_row(number: int, of: int = 1, host: str = "node1", **process: Any) -> dict[str, Any]:
    """The JSON of a Recording of one rank: steps of STEP_MS, of which 10 ms are data wait."""
    ends = [round(STEP_MS * 1e6 * (step + 1)) for step in range(NUM_STEPS + 1)]
    events = []
    for end in ends:
        begin = end - round(STEP_MS * 1e6)
        parts = (("fetch", 10, 0, 1), ("forward", 20, 0, 3), ("backward", 30, -1, 0), ("optimizer", 5, 0, 0))
        for kind, ms, ref, flag in parts:
            events.append([kind, begin, begin + ms * 1_000_000, ref, flag])
            begin += ms * 1_000_000
    return {
        "schema": 1,
        "outcome": "completed",
        "origin_ns": 0,
        "process": {
            "pid": 100 + number, "ppid": 1, "rank": number, "local_rank": None, "world_size": of,
            "local_world_size": None, "host": host, "argv": ["train.py"], "executable": "python",
            "python": [3, 11, 7], "main_file": None, "num_threads": 2, **process,
        },
        "window": {
            "warmup_steps": 1, "steps": NUM_STEPS, "start_ns": ends[0], "end_ns": ends[-1], "step_ends_ns": ends,
            "steps_by": "optimizer", "ended_by": "steps",
        },
        "events": events,
        "sampler_interval_ns": 10_000_000,
        "device": {"type": "cpu", "index": None, "name": None, "capability": None},
        "side_effects": {"blocked": [], "not_isolated": []},
        "overhead": dict.fromkeys(("events", "event_ns", "sampler_ns", "setup_ns"), 0),
        **{name: [] for name in ("fetches", "batches", "samples", "what_ifs", "loaders", "optimizers", "models")},
        "calls": [],
        **{name: {} for name in ("software", "frameworks", "torch_state", "environment", "memory")},
        **dict.fromkeys(("error", "io", "compile", "kernels")),
    }  # fmt: skip


def rank(number: int, of: int = 1, host: str = "node1", **process: Any) -> Recording:
    return wire.from_json(rank_row(number, of, host, **process))


def run_folder(root: Path, name: str, *rows: dict[str, Any]) -> Path:
    """The run folder `name` of the project at `root`, with these Recordings."""
    folder = root / artefacts.FOLDER / "runs" / name
    folder.mkdir(parents=True)
    for row in rows:
        (folder / f"recording-{row['process']['pid']}.json").write_text(json.dumps(row), encoding="utf-8")
    (folder / artefacts.MANIFEST).write_text("{}", encoding="utf-8")
    return folder


def job(**given: Any) -> JobSummary:
    fields: dict[str, Any] = {
        "run": "20261124-093000-abcdef",
        "folder": "/home/user/project/.autotune/runs/20261124-093000-abcdef",
        "began": "2026-11-24T09:30:00Z",
        "command": ("torchrun", "train.py", "--lr", "1e-4"),
        "outcome": "completed",
        "hosts": ("node1", "node2"),
        "ranks": 8,
        "missing_ranks": (),
        "device": "NVIDIA H100",
        "step_ms": 412.5,
        "planned_steps": 10_000,
        "bound": "data_wait",
        "bound_share": 0.61,
        "wait_share": 0.64,
        "busy_share": 0.31,
        "lost_share": 0.48,
        "hours_lost": 2.25,
        "first_fix": "DL001",
        "first_fix_name": "batches prepared in the training process",
        "version": "0.3.0",
    }
    return JobSummary(**{**fields, **given})


def unknown(**given: Any) -> JobSummary:
    """A job of which nothing is known but that it ran."""
    names = ("began", "ranks", "device", "step_ms", "planned_steps", "bound", "bound_share", "wait_share")
    more = ("busy_share", "lost_share", "hours_lost", "first_fix", "first_fix_name")
    nothing = dict.fromkeys((*names, *more))
    return job(**{**nothing, "command": (), "hosts": (), "outcome": "no_step", **given})


def found(*jobs: JobSummary, unreadable: tuple[tuple[str, str], ...] = ()) -> FoundJobs:
    return FoundJobs(jobs or (job(),), unreadable)
