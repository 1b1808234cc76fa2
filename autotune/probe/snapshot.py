"""Assembles the Recording of this process and writes it atomically. An allowlist: no values of the environment but
the named ones, no tokens, no contents of samples, no credentials."""

from __future__ import annotations

import json
import os
import sys
import traceback

from . import arguments, describe, sampler
from .hooks import fetches
from .what_ifs import other_load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recorder import Recorder
    from .session import ProbeSession
    from .shapes import Row

ENVIRONMENT = (
    "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE",
    "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "TORCH_CUDNN_V8_API_ENABLED",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "TORCH_DISTRIBUTED_DEBUG", "TORCH_SHOW_CPP_STACKTRACES",
    "TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_COMPILE_THREADS",
    "TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_ALGO", "NCCL_PROTO", "NCCL_BUFFSIZE", "NCCL_NTHREADS",
    "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES",
    "OMP_WAIT_POLICY", "OMP_DYNAMIC", "GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS",
    "MKL_DYNAMIC", "OPENBLAS_NUM_THREADS", "TOKENIZERS_PARALLELISM", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE",
    "TRANSFORMERS_OFFLINE", "HF_HUB_ENABLE_HF_TRANSFER", "HF_DATASETS_IN_MEMORY_MAX_SIZE",
)  # fmt: skip
"""What changes how fast or how exactly torch trains, by full names: switches, numbers and names of devices. No path, no
URL and no token is among them, as a prefix (HF_, NCCL_) might let in."""


def write(session: ProbeSession, outcome: str) -> None:
    """Write recording-<pid>.json into the run folder, replacing an earlier one."""
    path = os.path.join(session.request["run_dir"], f"recording-{os.getpid()}.json")
    with open(path + "~", "w", encoding="utf-8") as file:
        json.dump(recording(session, outcome), file, allow_nan=False)
    os.replace(path + "~", path)


def recording(session: ProbeSession, outcome: str) -> Row:
    """The Recording as `recording.schema.json` describes it."""
    recorder, origin = session.recorder, session.recorder.origin
    return {
        "schema": 1,
        "outcome": outcome,
        "origin_ns": origin,
        "process": _process(session),
        "error": _error(recorder) if outcome in ("raised", "out_of_memory") else None,
        "software": describe.software(session.request["libraries"]),
        "device": session.device(),
        "window": _window(session, origin),
        "events": [(kind, start - origin, end - origin, ref, flag) for kind, start, end, ref, flag in recorder.events],
        "fetches": _fetches(session, origin),
        "batches": recorder.batches,
        "averagings": [(end - origin, exposed, compute) for end, exposed, compute in session.averaging.rows],
        "losses": session.losses.rows(recorder.thread),
        "samples": session.samples if session.samples is not None else session.sampler.rows(),
        "startup": _startup(session, origin),
        "sampler_interval_ns": int(sampler.INTERVAL_S * 1e9),
        "loaders": [_without_objects(row) for row in session.loaders],
        "optimizers": [_without_objects(row) for row in session.described_optimizers()],
        "models": [_without_objects(row) for row in session.described_models()],
        "frameworks": session.observed.describe(),
        "calls": _calls(session),
        **(session.of_torch or of_torch(session)),
        "environment": {name: os.environ.get(name, "") for name in ENVIRONMENT},
        "memory": session.memory(),
        "io": session.io or None,
        "kernels": session.kernels,
        "lines": session.lines or None,
        "kept_graphs": session.kept_graphs,
        "what_ifs": session.what_ifs,
        "fit": session.fit_row(),
        "side_effects": session.side_effects(),
        "overhead": session.overhead.row(),
    }


def of_torch(session: ProbeSession) -> Row:
    """The fields of torch's own state and of its compiler: read when the window ends, before what-ifs change both."""
    state = {
        **describe.torch_state(),
        **session.torch_state,
        "profiled_steps": session.window.profiled_steps,
        "averaged_backwards": session.window.averaged_backwards,
    }
    return {"torch_state": state, "compile": describe.compiler(session)}


def _process(session: ProbeSession) -> Row:
    main_file = getattr(sys.modules.get("__main__"), "__file__", None)
    return {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "group": os.getpgrp(),
        "cpus": sorted(other_load.usable()),
        **session.ranks.row(),
        "argv": [*sys.argv[:1], *arguments.scrub(sys.argv[1:])],
        "executable": sys.executable,
        "python": list(sys.version_info[:3]),
        "main_file": os.path.abspath(main_file) if main_file else None,
        "num_threads": describe.num_threads(),
    }


def _window(session: ProbeSession, origin: int) -> Row | None:
    window = session.window.summary(origin)
    marks = [(host - origin, device) for host, device in session.device_marks]
    return {**window, "device_clock": marks} if window is not None and marks else window


def _startup(session: ProbeSession, origin: int) -> Row | None:
    row = session.startup.row() if session.startup is not None else None
    if row is None:
        return None
    moments = [name for name in row if name.endswith("_ns") and row[name] is not None]
    return {**row, **{name: row[name] - origin for name in moments}}


def _error(recorder: Recorder) -> Row | None:
    """Type, phase and frames of what the script died of. Its message stays on its own stderr, where it may quote
    data; only a memory error's, which torch words, is kept."""
    error = getattr(sys, "last_value", None)
    if error is None:
        return None
    from .ending import is_out_of_memory

    frames = traceback.extract_tb(error.__traceback__)
    return {
        "type": type(error).__name__,
        "message": str(error)[:500] if is_out_of_memory(error) else "",
        "traceback": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
        "phase": recorder.failed_phase,
    }


def _fetches(session: ProbeSession, origin: int) -> list[tuple[Any, ...]]:
    rows = [*session.recorder.fetches, *fetches.of_workers(session)]
    return [(loader, pid, start - origin, *rest) for loader, pid, start, *rest in rows]


def _calls(session: ProbeSession) -> list[Row]:
    """Counted calls by site, with their time inside the window."""
    window, rows = session.window, []
    for index, call in enumerate(session.recorder.calls):
        events = [event for event in session.recorder.events if event[3] == index and event[0] == call["kind"]]
        inside = [event for event in events if window.start and window.start <= event[1] <= (window.end or event[1])]
        rows.append(
            {
                **call,
                "count": len(events),
                "in_window": len(inside),
                "total_ns": sum(end - start for _, start, end, _, _ in inside),
                "is_library": not call["site"]["is_user"],
            }
        )
    return rows


def _without_objects(row: Row) -> Row:
    return {name: value for name, value in row.items() if name not in ("object", "dataset_id", "searched")}
