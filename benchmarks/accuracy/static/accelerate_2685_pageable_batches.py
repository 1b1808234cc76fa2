"""Trains a super-resolution network on the first GPU."""

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, RandomCrop, ToTensor

device = torch.device("cuda")


def main():
    photos = ImageFolder("photos", Compose([RandomCrop(192), ToTensor()]))
    loader = DataLoader(photos, batch_size=32, shuffle=True, num_workers=8, persistent_workers=True)
    model = nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 48, 3, padding=1), nn.PixelShuffle(4)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for epoch in range(30):
        for step, (large, _) in enumerate(loader):
            large = large.to(device)
            small = nn.functional.avg_pool2d(large, 4)
            with torch.autocast("cuda", torch.bfloat16):
                loss = nn.functional.l1_loss(model(small), large)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(epoch, step, loss.item())


if __name__ == "__main__":
    main()
