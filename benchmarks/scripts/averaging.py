"""A DDP job on gloo whose gradients are many for its work. With `--turns` it measures itself: blocks of steps of one
way to average in turns with blocks of another, in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import statistics
import time

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

BLOCK, BLOCKS = 6, 12


def step(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, parts: list[Tensor], no_sync: bool) -> None:
    for number, part in enumerate(parts, 1):
        with model.no_sync() if no_sync and number < len(parts) else contextlib.nullcontext():
            ((model(part) - part).square().mean() / len(parts)).backward()
    optimizer.step()
    optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--bucket", type=float, default=25)
    parser.add_argument("--turns", help="JSON: what the other side has: bucket, no_sync")
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    layers = nn.Sequential(*(part for _ in range(6) for part in (nn.Linear(1024, 1024), nn.ReLU())))
    other = json.loads(args.turns) if args.turns else {}
    own, changed = {"bucket": args.bucket, "no_sync": False}, {"bucket": args.bucket, "no_sync": False, **other}
    sides = []
    for side in [own, changed] if args.turns else [own]:
        model = DistributedDataParallel(copy.deepcopy(layers), bucket_cap_mb=side["bucket"])
        sides.append((model, torch.optim.SGD(model.parameters(), lr=1e-3), side["no_sync"]))
    data = DataLoader(TensorDataset(torch.randn(65536, 1024)), batch_size=32)
    batches = iter(data)
    took: list[list[float]] = [[] for _ in sides]
    for number in range(BLOCK * BLOCKS * 2 if args.turns else args.steps):
        at = number // BLOCK % len(sides)
        began = time.perf_counter()
        parts = [next(batches)[0] for _ in range(args.micro_batches)]
        step(*sides[at][:2], parts, sides[at][2])
        if number % BLOCK:  # the first of a block still finds the other one's caches
            took[at].append(time.perf_counter() - began)
    if args.turns and torch.distributed.get_rank() == 0:
        print(json.dumps([statistics.median(each) for each in took]))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
