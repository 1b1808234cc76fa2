"""Two processes train one click model: torchrun --nproc-per-node 2 ddp_averages_every_micro_batch.py"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ACCUMULATION = 8
FIELDS, WIDTH = 256, 1024


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    rows = torch.randn(40_000, FIELDS)
    data = TensorDataset(rows, (rows.sum(1) > 0).float())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=128, sampler=sampler, drop_last=True)
    net = nn.Sequential(
        nn.Linear(FIELDS, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
        nn.Linear(WIDTH, 1),
    )  # fmt: skip
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(20):
        sampler.set_epoch(epoch)
        for micro, (x, y) in enumerate(loader, 1):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            (loss / ACCUMULATION).backward()
            if micro % ACCUMULATION == 0:
                optimizer.step()
                optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
