"""Records CUDA runs for the tests, and counts the synchronisations that the probe adds. Needs a GPU: exits 3 without.

Each case of scripts/cuda_cases.py is diagnosed once; its Recording goes to --output as <case>.json, with the folders of
this machine replaced, beside a README that says what it was recorded on. Then a raw loop is profiled in this process,
with every hook and CUDA event of the probe and natively: the calls per step in which the host waits for the device
have to be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import measuring

CASES = measuring.SCRIPTS / "cuda_cases.py"
NAMES = (
    "starving",
    "trainer_fp32",
    "trainer_fp32_checkpointing",
    "trainer_bf16",
    "trainer_bf16_checkpointing",
)
NO_GPU = 3
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
STEPS = 20


def record(case: str, folder: Path, limit_s: float) -> measuring.Json:
    document, ended = measuring.diagnose(
        [sys.executable, str(CASES), "--case", case],
        ["--no-lock"],
        cwd=folder,
        environ=os.environ,
        limit_s=limit_s,
    )
    if document is None:
        raise SystemExit(f"cuda_recordings: {case}: {measuring.failure(ended)}")
    return measuring.recordings(document)[0]


def anonymous(recording: measuring.Json, folder: Path) -> str:
    """The Recording as JSON, without folders of this machine."""
    text = json.dumps(recording)
    for path, name in ((folder, "/run"), (measuring.ROOT, "/repo"), (sys.prefix, "/env"), (sys.base_prefix, "/python")):
        text = text.replace(json.dumps(str(path))[1:-1], name)
    return text.replace(json.dumps(str(Path.home()))[1:-1], "/home/user") + "\n"


def readme(recordings: dict[str, measuring.Json], command: Sequence[str]) -> str:
    head = ["recording", "device", "capability", "steps", "marks", "profiled steps", "kernels"]
    rows = []
    for name, recording in recordings.items():
        device, kernels = recording["device"], recording["kernels"] or {"steps": 0, "rows": [], "launches": []}
        marks = len(recording["window"].get("device_clock", ()))
        launches = sum(kernels["rows"][launch[0]]["kind"] == "kernel" for launch in kernels["launches"])
        sizes = [recording["window"]["steps"], marks, kernels["steps"], launches]
        rows.append([f"{name}.json", device["name"], device["capability"], *map(str, sizes)])
    made = f"Made on {time.strftime('%Y-%m-%d')}, {platform.system()} {platform.machine()}, with {versions()} by"
    title = "# Recordings of CUDA runs"
    return f"{title}\n\n{made}\n\n    {shlex.join(command)}\n\n{measuring.table(head, rows)}\n"


def versions() -> str:
    known = [f"Python {platform.python_version()}"]
    for name in ("torch", "transformers", "accelerate"):
        try:
            known.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(known)


def loop() -> Callable[[], None]:
    """One step of a raw loop, without any read of the device."""
    import torch

    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    inputs = torch.randn(64, 512).pin_memory()

    def step() -> None:
        batch = inputs.to("cuda", non_blocking=True)
        (model(batch) - batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def waits(step: Callable[[], None]) -> Counter[str]:
    """Calls of STEPS steps in which the host waited for the device, by name."""
    from torch.profiler import ProfilerActivity, profile

    step()
    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    profiler.start()
    begin = time.time_ns()
    for _ in range(STEPS):
        step()
    end = time.time_ns()
    # The profiler itself waits for the device when it stops.
    profiler.stop()
    trace = profiler.profiler
    assert trace is not None, "the profiler was started"
    results: Any = trace.kineto_results
    return Counter(
        event.name() for event in results.events() if event.name() in WAITS and begin <= event.start_ns() < end
    )


def added_waits(folder: Path) -> str:
    """The counts inside an endless window and natively, and what one mark of the device's clock costs."""
    from autotune.collect.request import Request, as_json
    from autotune.probe import device_clock
    from autotune.probe.session import ProbeSession

    session = ProbeSession(as_json(Request(steps=10**6, warmup=1), folder, None))
    # First: torch wraps an optimizer's step only once, at its first instance.
    session.install()
    probed = waits(loop())
    marks = session.recorder.device_clock
    if marks is None:
        raise SystemExit("cuda_recordings: the window did not begin")
    spent_us, count = marks.cost_ns() / 1e3, len(device_clock.stop(session.recorder))
    session.ended = True
    session.detach()
    native = waits(loop())
    head = ["call", "native", "probed"]
    rows = [[name, f"{native[name] / STEPS:g}", f"{probed[name] / STEPS:g}"] for name in WAITS]
    ratio = (probed.total() - native.total()) / max(1, native.total())
    added = f"synchronisations added: {probed.total() - native.total()} in {STEPS} steps ({ratio:+.1%})"
    return f"{measuring.table(head, rows)}\n{added}\nmarks: {count}, {spent_us / max(1, count):.1f} us each"


def has_gpu() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="CASE")
    parser.add_argument("--output", type=Path, default=measuring.ROOT / "fixtures" / "recordings")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which a run is ended (900)")
    args = parser.parse_args()
    if not has_gpu():
        print("cuda_recordings: no GPU: torch does not see a CUDA device; nothing was recorded", file=sys.stderr)
        raise SystemExit(NO_GPU)
    args.output.mkdir(parents=True, exist_ok=True)
    found: dict[str, measuring.Json] = {}
    with tempfile.TemporaryDirectory(prefix="cuda-recordings-") as name:
        for case in args.only:
            found[case] = record(case, Path(name), args.limit)
            (args.output / f"{case}.json").write_text(anonymous(found[case], Path(name)), encoding="utf-8")
            print(f"cuda_recordings: {case}", file=sys.stderr)
        (args.output / "README.md").write_text(
            readme(found, ["python", "benchmarks/cuda_recordings.py", *sys.argv[1:]]), encoding="utf-8"
        )
        print(added_waits(Path(name)))


if __name__ == "__main__":
    main()
