"""Three-fold super-resolution of lichen photographs with a residual CNN, trained on large crops with Accelerate."""

import time
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Options:
    photographs: int = 480
    fine: int = 288
    factor: int = 3
    width: int = 40
    blocks: int = 4
    batch_size: int = 2
    epochs: int = 60
    lr: float = 4e-4
    report_every: int = 40


def photographs(options: Options) -> torch.Tensor:
    """Fine pictures of overlapping patches: noise of three scales, thresholded and tinted."""
    side, count = options.fine, options.photographs
    picture = torch.zeros(count, 1, side, side)
    for cells, share in ((9, 0.5), (36, 0.3), (144, 0.2)):
        noise = torch.rand(count, 1, cells, cells)
        picture += share * F.interpolate(noise, size=side, mode="bilinear", align_corners=False)
    patches = torch.sigmoid(24.0 * (picture - 0.5))
    tint = 0.3 + 0.7 * torch.rand(count, 3, 1, 1)
    return (255.0 * patches * tint).round().to(torch.uint8)


def pairs(options: Options) -> TensorDataset:
    """The coarse and the fine side of every photograph, as bytes."""
    fine = photographs(options)
    coarse = torch.cat([F.avg_pool2d(part.float(), options.factor).round().to(torch.uint8) for part in fine.split(48)])
    return TensorDataset(coarse, fine)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.spread = nn.Conv2d(width, width, 3, padding=1)
        self.gather = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 0.2 * self.gather(F.relu(self.spread(x)))


class Upscaler(nn.Module):
    """Works at the coarse resolution and rearranges channels into pixels at the end."""

    def __init__(self, width: int, blocks: int, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.enter = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.leave = nn.Conv2d(width, 3 * factor**2, 3, padding=1)

    def forward(self, coarse: torch.Tensor) -> torch.Tensor:
        features = self.enter(coarse)
        detail = F.pixel_shuffle(self.leave(features + self.body(features)), self.factor)
        return detail + F.interpolate(coarse, scale_factor=float(self.factor), mode="nearest")


def psnr(error: torch.Tensor) -> float:
    return -10.0 * torch.log10(error).item()


def main() -> None:
    options = Options()
    set_seed(13)
    accelerator = Accelerator(cpu=True)
    accelerator.print(asdict(options))
    loader = DataLoader(pairs(options), batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = Upscaler(options.width, options.blocks, options.factor)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(loader))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    step, error, began = 0, torch.zeros(()), time.perf_counter()
    for epoch in range(options.epochs):
        model.train()
        for coarse, fine in loader:
            coarse, fine = coarse.float() / 255.0, fine.float() / 255.0
            restored = model(coarse)
            loss = F.l1_loss(restored, fine)
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            error += F.mse_loss(restored.detach(), fine)
            step += 1
            if step % options.report_every == 0:
                took = (time.perf_counter() - began) / step
                quality = psnr(error / options.report_every)
                accelerator.print(f"epoch {epoch} step {step}: {quality:.2f} dB, {took:.3f} s a step", flush=True)
                error.zero_()


if __name__ == "__main__":
    main()
