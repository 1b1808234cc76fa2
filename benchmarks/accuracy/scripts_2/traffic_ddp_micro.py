"""Traffic-flow forecaster on two processes.

torchrun --nproc-per-node=2 traffic_ddp_micro.py
"""
import argparse
import itertools

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, IterableDataset

SENSORS, PAST, FUTURE = 160, 12, 6


class FlowStream(IterableDataset):
    """Each process simulates its own days."""

    def __init__(self, batch, rank):
        self.batch, self.rank = batch, rank

    def __iter__(self):
        g = torch.Generator().manual_seed(1000 + self.rank)
        clock = torch.arange(PAST + FUTURE)
        while True:
            rush = torch.rand(self.batch, 1, SENSORS, generator=g) * 6.28
            flow = torch.sin(clock[:, None] / 3 + rush) + 0.1 * torch.randn(self.batch, 1, SENSORS, generator=g)
            yield flow[:, :PAST], flow[:, PAST:]


class Forecaster(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.mix = nn.Sequential(
            nn.Flatten(), nn.Linear(PAST * SENSORS, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
            nn.Linear(width, FUTURE * SENSORS),
        )

    def forward(self, past):
        return past[:, -1:] + self.mix(past).view(-1, FUTURE, SENSORS)


class Runner:
    def __init__(self, args):
        self.args, self.rank = args, dist.get_rank()
        torch.manual_seed(55)
        self.net = DDP(Forecaster())
        self.optim = torch.optim.SGD(self.net.parameters(), lr=args.lr, momentum=0.9, fused=True)
        self.batches = iter(DataLoader(FlowStream(args.micro_batch, self.rank), batch_size=None))

    def backward(self, past, future):
        error = nn.functional.l1_loss(self.net(past), future)
        (error / self.args.accumulate).backward()
        return error.detach()

    def update(self):
        errors = [self.backward(past, future) for past, future in itertools.islice(self.batches, self.args.accumulate)]
        self.optim.step()
        self.optim.zero_grad()
        return torch.stack(errors).mean()

    def run(self):
        for step in range(self.args.updates):
            error = self.update()
            if self.rank == 0 and step % 20 == 0:
                print(f"update {step} mae {error.item():.4f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--micro-batch", type=int, default=128)
    ap.add_argument("--accumulate", type=int, default=4)
    ap.add_argument("--updates", type=int, default=1600)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    Runner(args).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
