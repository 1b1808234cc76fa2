"""U-Net for cell segmentation (our in-house fork, single machine)."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--crop", type=int, default=96)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--base", type=int, default=24)
    p.add_argument("--epochs", type=int, default=12)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--lr", type=float, default=2e-3)
    return p.parse_args()


class CellCrops(Dataset):
    """Microscopy frames are held as uint8; every access cuts, flips and scales a random window."""

    def __init__(self, frames, masks, crop, repeat):
        self.frames, self.masks = frames, masks
        self.crop, self.repeat = crop, repeat

    def __len__(self):
        return len(self.frames) * self.repeat

    def __getitem__(self, i):
        frame, mask = self.frames[i % len(self.frames)], self.masks[i % len(self.frames)]
        y, x = np.random.randint(0, frame.shape[0] - self.crop, size=2)
        frame = frame[y : y + self.crop, x : x + self.crop]
        mask = mask[y : y + self.crop, x : x + self.crop]
        if np.random.rand() < 0.5:
            frame, mask = frame[:, ::-1], mask[:, ::-1]
        if np.random.rand() < 0.5:
            frame, mask = frame[::-1], mask[::-1]
        image = frame.astype(np.float32) / 255.0
        image = (image - image.mean()) / (image.std() + 1e-3)
        return torch.from_numpy(image)[None], torch.from_numpy(mask.astype(np.float32))[None]


def fake_plates(count, size=256, seed=7):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    frames, masks = [], []
    for _ in range(count):
        mask = np.zeros((size, size), bool)
        for cy, cx, r in zip(rng.integers(0, size, 25), rng.integers(0, size, 25), rng.integers(6, 18, 25)):
            mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        frames.append(np.clip(60 + 90 * mask + rng.normal(0, 25, mask.shape), 0, 255).astype(np.uint8))
        masks.append(mask)
    return frames, masks


def double_conv(a, b):
    return nn.Sequential(
        nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
        nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(1, base), double_conv(base, 2 * base), double_conv(2 * base, 4 * base)
        self.u2, self.u1 = double_conv(6 * base, 2 * base), double_conv(3 * base, base)
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a)


def main():
    args = parse()
    np.random.seed(0)
    torch.manual_seed(0)
    data = CellCrops(*fake_plates(32), args.crop, repeat=20)
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, num_workers=args.workers, drop_last=True)
    net = UNet(args.base).to(memory_format=torch.channels_last)
    optim = torch.optim.AdamW(net.parameters(), lr=args.lr, fused=True)
    for epoch in range(args.epochs):
        began, running = time.time(), 0.0
        for image, mask in loader:
            logits = net(image.to(memory_format=torch.channels_last))
            loss = F.binary_cross_entropy_with_logits(logits, mask)
            optim.zero_grad()
            loss.backward()
            optim.step()
            running += loss.item()
        print(f"{epoch:02d} bce={running / len(loader):.4f} {time.time() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
