"""The Request: what the parent asks of the probe. `request.schema.json` beside this file describes the JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins
from msgspec.json import encode

from autotune import reading
from autotune.catalogue import frameworks, startup
from autotune.model.evidence import Value

if TYPE_CHECKING:
    from autotune.collect.request_document import (
        FitRequest,
        IsolateSettings,
        NotebookRequest,
        PretendedCard,
        RequestDocument,
    )

DEFAULT_STEPS = 30
LEAST_WINDOW_S = 0.5
WHAT_IF_LIMIT_S = 40.0
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "PMI_", "MPI_", "SLURM_")
"""How the names of variables begin by which a launcher numbers the processes that it starts."""


class Override(Struct, frozen=True):
    """Arguments that one call of the script gets in place of its own, by key; its files are left alone.

    `at` names the call: loader (DataLoader), optimizer, threads (torch.set_num_threads, wherever it is called), or
    the object of a framework's settings (hf_args ...). `file` and the lines are the user's call.
    """

    at: str
    file: str
    first_line: int
    last_line: int
    arguments: Mapping[str, Value | None]


class FitPlan(Struct, frozen=True):
    """Steps on fake tensors on a pretended card: micro-batches and sequence lengths to try beside the script's own."""

    card_name: str
    card_bytes: int
    capability: tuple[int, int]
    batches: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()


class Request(Struct, frozen=True):
    """What to measure. `steps` and `warmup` None let the probe choose: at least `default_steps` and `min_s`, and more
    warm-up than batches that workers have ready; as many steps as divide by `multiple`, or None: by those of an epoch
    where it sees that these are short. Times are in seconds.

    `time_limit_s` counts from the first optimizer step, `startup_limit_s` until it. `after` lets that many steps
    pass before the warm-up. With `keep_going` the hooks are taken off after the window and training finishes.
    `overrides` are what the script is run with instead of what it says. `save_at` lets a trainer that the
    probe knows save once, after that step, into the run folder; `resume_from` lets it go on from such a save.
    With `fit` the script makes fake steps, which take no memory, in place of the window. `notebook` is the file whose
    cells a kernel runs.
    """

    steps: int | None = None
    warmup: int | None = None
    default_steps: int = DEFAULT_STEPS
    min_s: float = LEAST_WINDOW_S
    multiple: int | None = None
    after: int = 0
    time_limit_s: float = 180.0
    startup_limit_s: float = 1800.0
    keep_going: bool = False
    what_ifs: bool = True
    overrides: tuple[Override, ...] = ()
    save_at: int | None = None
    resume_from: str | None = None
    fit: FitPlan | None = None
    notebook: Path | None = None


def write(
    request: Request, run_dir: Path, isolate: IsolateSettings | None, environ: Collection[str] = frozenset()
) -> Path:
    """Write request.json into `run_dir`; `isolate` is what keeps writes away from the user's files (isolation.py).

    `environ` are the names of the variables that the command is started with.
    """
    path = run_dir / "request.json"
    inherited = sorted(name for name in environ if name.startswith(OF_LAUNCHERS))
    path.write_text(json.dumps(as_json(request, run_dir, isolate, inherited), indent=1), "utf-8")
    return path


def as_json(
    request: Request, run_dir: Path, isolate: IsolateSettings | None, inherited: Sequence[str] = ()
) -> RequestDocument:
    """The Request as the probe reads it."""
    return {
        "schema": 1,
        "run_dir": str(run_dir),
        "inherited": list(inherited),
        "isolate": isolate,
        "keep_going": request.keep_going,
        "what_ifs": request.what_ifs,
        "what_if_limit_s": WHAT_IF_LIMIT_S,
        "save_at": request.save_at,
        "resume_from": request.resume_from,
        "overrides": list(to_builtins(request.overrides)),
        "frameworks": json.loads(encode(frameworks.hooks())),
        "libraries": frameworks.library_versions(),
        "loader_files": list(frameworks.loader_files()),
        "startup_entries": [
            {
                "cause": cause,
                "module": entry.module,
                "functions": list(entry.functions),
                "arguments": list(entry.arguments),
                "waits": entry.waits,
            }
            for cause, entry in startup.entries()
        ],
        "fit": _fit(request.fit),
        "notebook": _notebook(request.notebook) if request.notebook is not None else None,
        "window": {
            "warmup": request.warmup,
            "steps": request.steps,
            "default_steps": request.default_steps,
            "min_s": request.min_s,
            "multiple": request.multiple,
            "after": request.after,
            "time_limit_s": request.time_limit_s,
        },
    }


def _notebook(path: Path) -> NotebookRequest:
    from autotune.syntax import notebook  # few commands run one

    found = notebook.read(reading.read(path, follow=True), str(path))
    starts = {cell: found.script_line(cell, 1) for cell in found.sources}
    return {
        "path": str(path),
        "script": found.script.decode(),
        "cells": [{"source": text, "line": line} for cell, text in found.sources.items() if (line := starts[cell])],
    }


def _fit(plan: FitPlan | None) -> FitRequest | None:
    if plan is None:
        return None
    card: PretendedCard = {
        "name": plan.card_name,
        "memory_bytes": plan.card_bytes,
        "capability": plan.capability,
    }
    return {"card": card, "batches": list(plan.batches), "lengths": list(plan.lengths)}
