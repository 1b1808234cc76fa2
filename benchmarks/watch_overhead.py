"""What a watched run costs between its windows: the hook of the optimizer's step, in two ways.

(a) Counted: the CPU time of the hook when it is called, as a share of steps of several lengths, and of a write of the
state, which comes every ten seconds. (b) Interleaved: one process trains, and blocks of its steps, a few tens of
milliseconds each, run with the hook, without it, and without it once more, in random order, so that load on the host
meets all three. The ratio of the first to the second is what it costs, that of the third to the second what this
comparison makes of nothing; medians over the rounds, with 95 % bootstrap intervals. Windows are no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

LIMIT = 0.002
CALLS = 2000
BLOCK_S = 0.05
WRITE_S = 10.0
PHASES = ("data_wait", "forward", "backward", "optimizer", "other")
ROW = {
    "step": 10**6, "reason": "moved", "steps": 20, "step_ms": 100.0, "memory_bytes": 2**34, "queued_ms": 0.123456,
    "phases_ms": dict.fromkeys(PHASES, 20.123456), "places": dict.fromkeys(PHASES, "train.py:100"),
}  # fmt: skip
"""A window as the state has it."""


def hook_us(clock: Any, torch: Any, turns: int) -> tuple[float, float]:
    """CPU microseconds of the hook, with what is done at each block's end: median and half of the middle half."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    hook, arguments = clock._after, ((), {})
    spent = []
    for _ in range(turns):
        begin = time.thread_time_ns()
        for _ in range(CALLS):
            hook(optimizer, *arguments)
        spent.append((time.thread_time_ns() - begin) / CALLS / 1e3)
    low, middle, high = statistics.quantiles(spent, n=4)
    return middle, (high - low) / 2


def write_us(watch: Any) -> float:
    """CPU microseconds of one write of the state, with a hundred windows in it."""
    watch.windows = [ROW] * 100
    begin = time.thread_time_ns()
    for _ in range(20):
        watch._write("running")
    watch.windows = []
    return (time.thread_time_ns() - begin) / 20 / 1e3


def rounds(clock: Any, step: Callable[[], object], step_s: float, seconds: float) -> list[tuple[float, float, float]]:
    """CPU seconds of a block's steps with the hook, without it, and without it again, each round in another order."""
    steps = max(2, round(BLOCK_S / step_s))

    def block(on: bool) -> float:
        if on:
            clock.start()
        begin = time.thread_time()
        for _ in range(steps):
            step()
        spent = time.thread_time() - begin
        if on:
            clock.stop()
        return spent

    found, until, draw = [], time.monotonic() + seconds, random.Random(0)
    while time.monotonic() < until:
        spent = [0.0, 0.0, 0.0]
        for which in draw.sample(range(3), 3):
            spent[which] = block(which == 0)
        found.append((spent[0], spent[1], spent[2]))
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """Median, and its 95 % bootstrap interval."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return statistics.median(values), medians[25], medians[974]


def measure(width: int, seconds: float) -> dict[str, Any]:
    """In a process of its own under watch: a step of a model of this width."""
    import torch

    torch.set_num_threads(1)
    watch = sys.modules["_autotune_probe"].watch.watch.current()
    watch.clock.stop()
    added, spread = hook_us(watch.clock, torch, 30)
    written = write_us(watch)
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(8)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    inputs = torch.randn(64, width)

    def step() -> None:
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(20):
        step()
    begin = time.thread_time()
    for _ in range(20):
        step()
    step_s = (time.thread_time() - begin) / 20
    watch.clock.clear()
    found = rounds(watch.clock, step, step_s, seconds)
    return {"step_ms": step_s * 1e3, "hook_us": added, "hook_us_spread": spread, "write_us": written, "rounds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", default="64,256,512", help="of the model: one row each")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each row")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure is not None:
        print(json.dumps(measure(args.measure, args.seconds)))
        return
    print(f"limit between windows: {LIMIT:.1%} of a step\n")
    print("step ms  hook us       write us  counted  with / without            without / without         rounds")
    for width in args.widths.split(","):
        row = _measured(width, args.seconds)
        share = row["hook_us"] / 1e3 / row["step_ms"] + row["write_us"] / 1e6 / WRITE_S
        with_hook = interval([on / off for on, off, _ in row["rounds"]])
        nothing = interval([again / off for _, off, again in row["rounds"]])
        print(
            f"{row['step_ms']:7.2f}  {row['hook_us']:.2f} +- {row['hook_us_spread']:.2f}  "
            f"{row['write_us']:8.0f}  {share:7.3%}  {_text(with_hook)}  {_text(nothing)}  {len(row['rounds']):6}",
            flush=True,
        )


def _text(ratio: tuple[float, float, float]) -> str:
    middle, low, high = (each - 1 for each in ratio)
    return f"{middle:+.2%} ({low:+.2%} to {high:+.2%})".ljust(26)


def _measured(width: str, seconds: float) -> dict[str, Any]:
    from autotune.collect.command import on_python_path

    # No window and no block's end but those of the first steps: what stays is measured.
    test = {"at": [10**9], "prints": False}
    variables = {"AUTOTUNE_WATCH": "1", "_AUTOTUNE_WATCH_TEST": json.dumps(test), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, os.path.abspath(__file__), "--measure", width, "--seconds", str(seconds)]
        environ = {**on_python_path(os.environ), **variables}
        done = subprocess.run(words, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


if __name__ == "__main__":
    main()
