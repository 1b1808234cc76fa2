# Cell nuclei segmentation, small U-Net. Synthetic microscopy so that it runs anywhere.
# usage: python unet_cell_masks.py
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CFG = {
    "seed": 3,
    "tile": 96,
    "n_tiles": 480,
    "batch": 8,
    "epochs": 8,
    "channels": (16, 32, 64),
    "lr": 1e-3,
    "memory": {"remat": True},
}


def conv_unit(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
        nn.GroupNorm(8, c_out),
        nn.SiLU(),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
        nn.GroupNorm(8, c_out),
        nn.SiLU(),
    )


class UNet(nn.Module):
    def __init__(self, channels, remat=False):
        super().__init__()
        self.remat = remat
        self.stem = nn.Conv2d(1, channels[0], 3, padding=1)
        self.down = nn.ModuleList()
        self.up = nn.ModuleList()
        previous = channels[0]
        for c in channels:
            self.down.append(conv_unit(previous, c))
            previous = c
        self.bottom = conv_unit(previous, previous)
        for c in reversed(channels):
            self.up.append(conv_unit(previous + c, c))
            previous = c
        self.out = nn.Conv2d(previous, 1, 1)

    def _apply_unit(self, unit, x):
        if self.remat and self.training:
            return checkpoint(unit, x, use_reentrant=False)
        return unit(x)

    def forward(self, x):
        x = self.stem(x)
        skips = []
        for unit in self.down:
            x = self._apply_unit(unit, x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self._apply_unit(self.bottom, x)
        for unit in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = self._apply_unit(unit, torch.cat([x, skips.pop()], dim=1))
        return self.out(x)


def synth_tiles(n, size, gen):
    """Discs of random centre and radius on a noisy background."""
    grid = torch.arange(size, dtype=torch.float32)
    yy, xx = torch.meshgrid(grid, grid, indexing="ij")
    masks = torch.zeros(n, size, size)
    for _ in range(5):
        cy, cx = torch.rand(2, n, 1, 1, generator=gen) * size
        r = 4 + 8 * torch.rand(n, 1, 1, generator=gen)
        masks = torch.maximum(masks, ((yy - cy) ** 2 + (xx - cx) ** 2 < r**2).float())
    images = 0.6 * masks + 0.35 * torch.randn(n, size, size, generator=gen)
    return images.unsqueeze(1), masks.unsqueeze(1)


def soft_dice(logits, target):
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()


def main(cfg):
    torch.manual_seed(cfg["seed"])
    gen = torch.Generator().manual_seed(cfg["seed"])
    images, masks = synth_tiles(cfg["n_tiles"], cfg["tile"], gen)
    net = UNet(cfg["channels"], **cfg["memory"])
    opt = torch.optim.AdamW(net.parameters(), lr=cfg["lr"], fused=True)
    per_epoch = math.ceil(len(images) / cfg["batch"])
    for epoch in range(cfg["epochs"]):
        began, running = time.time(), 0.0
        for picked in torch.randperm(len(images), generator=gen).split(cfg["batch"]):
            logits, target = net(images[picked]), masks[picked]
            loss = F.binary_cross_entropy_with_logits(logits, target) + soft_dice(logits, target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.detach()
        print(f"epoch {epoch}  loss {running.item() / per_epoch:.4f}  {time.time() - began:.1f}s")


if __name__ == "__main__":
    main(CFG)
