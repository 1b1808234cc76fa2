"""A DDP job on gloo in which one rank is slower: by its own loop, its loader or its disk, or in which none is."""

from __future__ import annotations

import argparse
import os
import zlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

PACKED = zlib.compress(os.urandom(1 << 16) * 8)
BLOCK = 24 << 20


def summarise(rounds: int) -> int:
    """What only the late rank computes in its loop."""
    size = 0
    for _ in range(rounds):
        size += len(zlib.compress(PACKED, 1))
    return size


def unpack(rounds: int) -> int:
    """What only the late rank's dataset decodes."""
    size = 0
    for _ in range(rounds):
        size += len(zlib.decompress(PACKED))
    return size


def read_block(path: Path, index: int) -> int:
    """A block from the disk, not from memory."""
    with path.open("rb") as file:
        descriptor = file.fileno()
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return len(os.pread(descriptor, BLOCK, index % 8 * BLOCK))


class Samples(Dataset[Tensor]):
    def __init__(self, fault: str, path: Path, work: int) -> None:
        self.fault, self.path, self.work = fault, path, work

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> Tensor:
        if self.fault == "loader":
            unpack(self.work)
        if self.fault == "disk":
            read_block(self.path, index)
        return torch.full((64,), index / 4096)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", choices=("none", "loop", "loader", "disk", "host"), default="none")
    parser.add_argument("--late", type=int, nargs="*", default=[])
    parser.add_argument("--work", type=int, default=8)
    parser.add_argument("--path", type=Path, default=Path("blocks.bin"))
    parser.add_argument("--steps", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    is_late = torch.distributed.get_rank() in args.late
    fault = args.fault if is_late else "none"
    loader = DataLoader(Samples("loader" if fault == "host" else fault, args.path, args.work), batch_size=1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, batch in enumerate(loader):
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fault == "loop":
            summarise(args.work)
        if step + 1 == args.steps:
            break
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
