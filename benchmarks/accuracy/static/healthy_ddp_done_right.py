"""DDP as it should be: torchrun --nproc-per-node 8 healthy_ddp_done_right.py"""

import contextlib
import os

import torch
import torch.distributed as dist
from maps import RoadNet, Tiles, road_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

ACCUMULATION = 4


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    tiles = Tiles("train")
    sampler = DistributedSampler(tiles)
    loader = DataLoader(tiles, 64, sampler=sampler, num_workers=6, pin_memory=True, persistent_workers=True)
    model = DistributedDataParallel(RoadNet().cuda(), device_ids=[local], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for micro, (tile, roads) in enumerate(loader, 1):
            is_last = micro % ACCUMULATION == 0
            with contextlib.nullcontext() if is_last else model.no_sync():
                with torch.autocast("cuda", dtype=torch.bfloat16):
                    predicted = model(tile.cuda(non_blocking=True))
                loss = road_loss(predicted.float(), roads.cuda(non_blocking=True)) / ACCUMULATION
                loss.backward()
            if is_last:
                optimizer.step()
                optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
