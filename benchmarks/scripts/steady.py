"""A raw loop of steps of about the same length, which reports its own mean step: the workload of overhead.py.

`--calibrate MS` prints the batch size at which a step takes about MS milliseconds. Otherwise it trains
`warmup + steps + 2` steps and writes wall and process CPU milliseconds of the steps after the warm-up to --result.
"""

from __future__ import annotations

import argparse
import json
import time

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


def ms_per_step(batch_size: int, steps: int, warmup: int) -> tuple[float, float]:
    """Wall and CPU milliseconds per step, of this process with all its threads."""
    training = Training(batch_size)
    for _ in range(warmup):
        training.step()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        training.step()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    for _ in range(2):
        training.step()
    return 1e3 * wall / steps, 1e3 * cpu / steps


def calibrate(target_ms: float) -> int:
    """The batch size at which a step takes about `target_ms`: a line through two measured sizes."""
    (small, _), (large, _) = ms_per_step(8, 40, 10), ms_per_step(264, 20, 5)
    per_sample = max(1e-6, (large - small) / 256)
    return min(SAMPLES, max(1, round(8 + (target_ms - small) / per_sample)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibrate", type=float, metavar="MS")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--result", help="File for the measured times, as JSON.")
    args = parser.parse_args()
    if args.calibrate is not None:
        print(calibrate(args.calibrate))
        return
    wall, cpu = ms_per_step(args.batch_size, args.steps, args.warmup)
    if args.result:
        with open(args.result, "w", encoding="utf-8") as file:
            json.dump({"wall_ms": wall, "cpu_ms": cpu}, file)


if __name__ == "__main__":
    main()
