"""Trains a wind model in bf16; the scaler is left from the fp16 days."""

import torch
from wind import Forecast, reanalysis


def main():
    model = Forecast().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for step, (state, following) in enumerate(reanalysis(batch_size=16, num_workers=8, pin_memory=True)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(state.cuda(non_blocking=True)) - following.cuda(non_blocking=True)).abs().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
