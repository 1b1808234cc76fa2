"""A raw loop of steps of about the same length, which reports its own mean step: the workload of overhead.py.

`--calibrate MS` prints the batch size at which a step takes about MS milliseconds. Otherwise it trains
`warmup + steps + 2` steps and writes to --result, of each step after the warm-up, when it began and ended (monotonic
seconds) and its process CPU milliseconds. With --paused it writes its process id to that file's name with `.pid` after
the warm-up, and stops itself until it gets a SIGCONT.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 128
BLOCKS = 12
SAMPLES = 4096


def make_model() -> nn.Module:
    """37 modules: as many calls for the probe to look at as a small transformer makes."""
    blocks = [nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)) for _ in range(BLOCKS)]
    return nn.Sequential(*blocks)


class Training:
    """Model, optimizer and endless batches; `step` makes one optimizer step."""

    def __init__(self, batch_size: int) -> None:
        torch.manual_seed(0)
        self.loader = DataLoader(TensorDataset(torch.randn(SAMPLES, WIDTH)), batch_size=batch_size, shuffle=True)
        self.batches = iter(self.loader)
        self.model = make_model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, fused=True)

    def step(self) -> None:
        try:
            (inputs,) = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            (inputs,) = next(self.batches)
        loss = (self.model(inputs) - inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def measured(batch_size: int, steps: int, warmup: int, pid_file: Path | None = None) -> list[list[float]]:
    """(begin, end, CPU ms) of each step, of this process with all its threads."""
    training = Training(batch_size)
    for _ in range(warmup):
        training.step()
    if pid_file is not None:
        pid_file.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    rows = []
    for _ in range(steps):
        begin, cpu = time.monotonic(), time.process_time()
        training.step()
        rows.append([begin, time.monotonic(), 1e3 * (time.process_time() - cpu)])
    for _ in range(2):
        training.step()
    return rows


def mean_ms(rows: list[list[float]]) -> float:
    return 1e3 * (rows[-1][1] - rows[0][0]) / len(rows)


def calibrate(target_ms: float) -> int:
    """The batch size at which a step takes about `target_ms`: a line through two measured sizes."""
    small, large = mean_ms(measured(8, 40, 10)), mean_ms(measured(264, 20, 5))
    per_sample = max(1e-6, (large - small) / 256)
    return min(SAMPLES, max(1, round(8 + (target_ms - small) / per_sample)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibrate", type=float, metavar="MS")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--result", type=Path, help="File for the measured steps, as JSON.")
    parser.add_argument("--paused", action="store_true", help="Stop after the warm-up.")
    args = parser.parse_args()
    if args.calibrate is not None:
        print(calibrate(args.calibrate))
        return
    if args.result is None:
        parser.error("--result or --calibrate")
    pid_file = args.result.with_suffix(".pid") if args.paused else None
    rows = measured(args.batch_size, args.steps, args.warmup, pid_file)
    args.result.write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
