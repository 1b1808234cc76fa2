"""Trains a face recogniser on all GPUs of the workstation."""

import torch
from faces import FaceNet, triplet_loader, triplet_loss
from torch import nn


def main():
    model = nn.DataParallel(FaceNet(embedding=256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loader = triplet_loader("faces", batch_size=256, num_workers=16, pin_memory=True, persistent_workers=True)
    for epoch in range(40):
        for step, (anchor, same, other) in enumerate(loader):
            vectors = model(torch.cat([anchor, same, other]).cuda(non_blocking=True))
            loss = triplet_loss(*vectors.chunk(3))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 200 == 0:
                print(epoch, step, loss.item())
        torch.save(model.module.state_dict(), f"facenet-{epoch}.pt")


if __name__ == "__main__":
    main()
