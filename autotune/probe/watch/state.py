"""The state of a watched process as a file, whole at every moment: `state-<host>-<pid>.json` (watch.schema.json).

The same figures as one flat dictionary for trackers, and as a file for Prometheus.
"""

from __future__ import annotations

import json
import os
import socket
import sys

from . import drift

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..shapes import Row


def identity() -> Row:
    """What tells this process from every other one, as machine/processes.py compares it; None for an unknown start."""
    host = socket.gethostname()
    try:
        host = f"{host} {os.readlink('/proc/self/ns/pid')}"
        return {"pid": os.getpid(), "process_start": _process_start(), "host": host}
    except (OSError, ValueError, IndexError, StopIteration):
        return {"pid": os.getpid(), "process_start": None, "host": host}


def _process_start() -> float:
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    with open("/proc/stat", encoding="ascii", errors="replace") as file:
        booted = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    return booted + ticks / os.sysconf("SC_CLK_TCK")


def script() -> str:
    """The name of what runs, without its arguments: these may hold a secret."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return str(spec.name).removesuffix(".__main__")
    return os.path.basename(getattr(main, "__file__", None) or "python")


def path(folder: str) -> str:
    """The file of this process."""
    return os.path.join(folder, f"state-{socket.gethostname()}-{os.getpid()}.json")


def write(folder: str, row: Row) -> None:
    """Replace the file of this process. Raises OSError where it cannot be written."""
    _put(path(folder), json.dumps(row, allow_nan=False) + "\n")


def _put(path: str, text: str) -> None:
    part = f"{path}.part-{os.getpid()}"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(part, path)


def summary(row: Row) -> dict[str, float]:
    """The figures of a state for W&B, MLflow and TensorBoard; what is not known yet is absent (docs/watch.md)."""
    windows = row["windows"]
    found: dict[str, float | None] = {
        "step": row["steps"],
        "step_ms": row["step_ms"],
        "first_step_ms": row["first_step_ms"],
        "step_ratio": row["step_ms"] / row["first_step_ms"] if row["step_ms"] and row["first_step_ms"] else None,
        "memory_bytes": row["memory_bytes"],
        "first_memory_bytes": row["first_memory_bytes"],
        "windows": len(windows),
        "drifted": float(bool(row["drift"])) if windows else None,
        "since_step": row["drift"][0]["since_step"] if row["drift"] else None,
    }
    for prefix, window in (("first_", windows[0]), ("", windows[-1])) if windows else ():
        found[f"{prefix}data_wait_share"] = _wait_share(window)
        found.update({f"{prefix}{phase}_ms": spent for phase, spent in window["phases_ms"].items()})
    return {f"autotune/{name}": float(value) for name, value in found.items() if value is not None}


def _wait_share(window: Row) -> float | None:
    """The part of a step that it waits for data; None where no DataLoader was seen."""
    phases: dict[str, float] = window["phases_ms"]
    return phases["data_wait"] / window["step_ms"] if "data_wait" in phases else None


PROMETHEUS = {
    "step": ("autotune_steps_total", "counter", "Optimizer steps that were made.", 1.0),
    "step_ms": ("autotune_step_seconds", "gauge", "A step now, without the slowest tenth.", 1e-3),
    "first_step_ms": ("autotune_first_step_seconds", "gauge", "A step before the first window.", 1e-3),
    "data_wait_share": ("autotune_data_wait_ratio", "gauge", "Part of a step spent waiting for data.", 1.0),
    "first_data_wait_share": ("autotune_first_data_wait_ratio", "gauge", "The same in the first window.", 1.0),
    "memory_bytes": ("autotune_memory_bytes", "gauge", "CUDA's allocator, or else resident memory.", 1.0),
    "drifted": ("autotune_drifted", "gauge", "1 where something has drifted since the first window.", 1.0),
    "stepped_at": ("autotune_last_step_timestamp_seconds", "gauge", "When the last step ended.", 1.0),
}
"""Key of the summary -> name, type, help and unit of the metric."""


def write_prometheus(path: str, row: Row, folder: str) -> None:
    """A file for the textfile collector of node_exporter; ranks after the first have files of their own."""
    values = {name.partition("/")[2]: value for name, value in summary(row).items()}
    values["stepped_at"] = row["stepped_at"]
    labels = ",".join(
        f'{name}="{_escaped(str(value))}"'
        for name, value in (("script", row["script"]), ("rank", row["rank"]), ("run", os.path.basename(folder)))
    )
    lines = []
    for key, (metric, kind, text, unit) in PROMETHEUS.items():
        if key in values:
            lines += [
                f"# HELP {metric} {text}",
                f"# TYPE {metric} {kind}",
                f"{metric}{{{labels}}} {values[key] * unit}",
            ]
    stem, ending = os.path.splitext(path)
    _put(f"{stem}-rank{row['rank']}{ending}" if row["rank"] else path, "\n".join(lines) + "\n")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def line(window: Row, row: Row) -> str:
    """What is printed at a window's end."""
    parts = [f"{drift.ms(row['step_ms'])} per step"]
    wait = _wait_share(window)
    if wait is not None:
        parts.append(f"data wait {wait:.0%}".replace("%", " %"))
    if row["memory_bytes"] is not None:
        parts.append(f"memory {drift.size(row['memory_bytes'])}")
    said = "; ".join(one["text"] for one in row["drift"])
    return f"step {window['step']:,}: {', '.join(parts)}{'. Since the first window: ' + said if said else ''}"


def closing_lines(row: Row, where: str, first: int) -> list[str]:
    """What is printed at the run's end; `where` is the run folder, `first` the step of the first planned window."""
    if not row["windows"]:
        return [f"watched {row['steps']:,} steps: the first window, which begins after step {first}, did not end"]
    head = f"watched {row['steps']:,} steps: {drift.ms(row['step_ms'])} per step at the end"
    head += f", {drift.ms(row['first_step_ms'])} at step {row['windows'][0]['step']:,}"
    said = [f"{one['text']} (said after step {one['said_at_step']:,})" for one in row["drift"]]
    return [head, *(said or ["nothing has drifted"]), *([f"its windows: autotune watch {where}"] if where else [])]
