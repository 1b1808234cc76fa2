"""DDP training on sonar images: torchrun --nproc-per-node 4 shuffles_alike_in_each_epoch.py"""

import os

import torch
import torch.distributed as dist
from sonar import SonarDataset, SonarNet
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    data = SonarDataset("pings")
    loader = DataLoader(
        data, batch_size=32, sampler=DistributedSampler(data, shuffle=True), num_workers=4, pin_memory=True,
        persistent_workers=True,
    )  # fmt: skip
    model = DistributedDataParallel(SonarNet().cuda(), device_ids=[local])
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, fused=True)
    for epoch in range(50):
        for ping, label in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = nn.functional.cross_entropy(model(ping.cuda(non_blocking=True)), label.cuda(non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(epoch, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
