"""DDP training of a depth estimator: torchrun --nproc-per-node 8 searches_for_unused_parameters.py"""

import os

import torch
import torch.distributed as dist
from depth import DepthNet, RoadScenes, scale_invariant
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model = DistributedDataParallel(DepthNet().cuda(), device_ids=[local], find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    scenes = RoadScenes("train")
    sampler = DistributedSampler(scenes)
    loader = DataLoader(scenes, batch_size=8, sampler=sampler, num_workers=6, pin_memory=True, persistent_workers=True)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for image, depth in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                predicted = model(image.cuda(non_blocking=True))
            loss = scale_invariant(predicted.float(), depth.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
