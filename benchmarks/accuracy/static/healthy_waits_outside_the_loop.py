"""Times an epoch: the GPU is waited for, and its cache emptied, once before and once after."""

import time

import torch
from tides import TideNet, stations


def train(model, optimizer, loader):
    for levels, following in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(levels.cuda(non_blocking=True)) - following.cuda(non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


def main():
    model = TideNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loader = stations(batch_size=128, num_workers=4, pin_memory=True, persistent_workers=True)
    for epoch in range(30):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = train(model, optimizer, loader)
        torch.cuda.synchronize()
        print(f"epoch {epoch}: {time.perf_counter() - start:.1f} s, loss {loss.item():.4f}")
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
