"""Activity of molecules in a panel of assays from their fingerprints, trained by two processes on one machine."""

import argparse
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Panel:
    molecules: int = 24_576
    bits: int = 2048
    assays: int = 512
    density: float = 0.04
    measured: float = 0.3
    seed: int = 17


@dataclass(frozen=True)
class Schedule:
    micro_batch: int = 64
    micro_batches: int = 4
    epochs: int = 12
    peak_lr: float = 6e-4
    report_every: int = 40


class FingerprintNet(nn.Module):
    def __init__(self, panel: Panel, width: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(panel.bits, width),
            nn.LayerNorm(width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.LayerNorm(width),
            nn.SiLU(),
        )
        self.heads = nn.Linear(width, panel.assays)

    def forward(self, bits: Tensor) -> Tensor:
        return self.heads(self.body(bits))


def measurements(panel: Panel, rank: int, world: int) -> tuple[Tensor, Tensor, Tensor]:
    """Fingerprints, activities and which of them were measured: the share of one process."""
    draw = torch.Generator().manual_seed(panel.seed)
    effects = torch.randn(panel.bits, panel.assays, generator=draw) / (panel.bits * panel.density) ** 0.5
    mine = torch.Generator().manual_seed(panel.seed + 1 + rank)
    count = panel.molecules // world
    bits = (torch.rand(count, panel.bits, generator=mine) < panel.density).float()
    activity = (bits @ effects > 0.5).float()
    known = (torch.rand(count, panel.assays, generator=mine) < panel.measured).float()
    return bits, activity, known


def groups(data: tuple[Tensor, ...], schedule: Schedule, draw: torch.Generator) -> Iterator[list[tuple[Tensor, ...]]]:
    """The micro-batches of each optimizer step of one epoch."""
    per_step = schedule.micro_batch * schedule.micro_batches
    order = torch.randperm(len(data[0]), generator=draw)
    for start in range(0, len(order) - per_step + 1, per_step):
        rows = order[start : start + per_step].split(schedule.micro_batch)
        yield [tuple(column[part] for column in data) for part in rows]


def masked_loss(logits: Tensor, activity: Tensor, known: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits, activity, weight=known, reduction="sum") / known.sum()


def train(rank: int, world: int, port: int, panel: Panel, schedule: Schedule, width: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.manual_seed(panel.seed)
    data = measurements(panel, rank, world)
    net = DistributedDataParallel(FingerprintNet(panel, width), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(net.parameters(), lr=schedule.peak_lr, weight_decay=0.01, fused=True)
    steps = schedule.epochs * (len(data[0]) // (schedule.micro_batch * schedule.micro_batches))
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, schedule.peak_lr, total_steps=steps)
    draw = torch.Generator().manual_seed(rank)
    done, running = 0, torch.zeros(())

    for _epoch in range(schedule.epochs):
        for parts in groups(data, schedule, draw):
            optimizer.zero_grad()
            for bits, activity, known in parts:
                loss = masked_loss(net(bits), activity, known) / schedule.micro_batches
                loss.backward()
                running += loss.detach()
            optimizer.step()
            rate.step()
            done += 1
            if rank == 0 and done % schedule.report_every == 0:
                print(f"step {done}/{steps}: loss {running.item() / schedule.report_every:.4f}", flush=True)
                running.zero_()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--epochs", type=int, default=Schedule.epochs)
    options = parser.parse_args()
    schedule = Schedule(epochs=options.epochs)
    given = (options.processes, free_port(), Panel(), schedule, options.width)
    mp.spawn(train, args=given, nprocs=options.processes)


if __name__ == "__main__":
    main()
