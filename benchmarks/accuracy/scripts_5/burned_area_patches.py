"""Segment burned area on multispectral scenes that are kept compressed on disk."""

import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

CONFIG = {
    "folder": "scenes",
    "scenes": 16,
    "side": 1024,
    "bands": 6,
    "patch": 64,
    "patches_per_scene": 128,
    "scenes_at_once": 2,
    "width": 20,
    "lr": 1e-3,
    "epochs": 40,
    "loader": {"batch_size": 32, "num_workers": 12, "persistent_workers": True, "drop_last": True},
}


def smooth_field(rng: np.random.Generator, side: int, cells: int) -> np.ndarray:
    coarse = torch.from_numpy(rng.standard_normal((1, 1, cells, cells), dtype=np.float32))
    return F.interpolate(coarse, size=(side, side), mode="bicubic", align_corners=True)[0, 0].numpy()


def write_scenes(cfg: dict) -> list[Path]:
    """Each file holds reflectance bands and, last, the burn mask, as bytes behind each other."""
    folder = Path(cfg["folder"])
    folder.mkdir(exist_ok=True)
    paths = [folder / f"scene_{number:02d}.u8.z" for number in range(cfg["scenes"])]
    for number, path in enumerate(paths):
        rng = np.random.default_rng(number)
        side = cfg["side"]
        burned = smooth_field(rng, side, 24) + 0.5 * smooth_field(rng, side, 90) > 1.0
        relief, cover = smooth_field(rng, side, 40), smooth_field(rng, side, 130)
        layers = []
        for band in range(cfg["bands"]):
            light = 110 + 18 * relief * (band + 1) / cfg["bands"] + 14 * cover * (-1) ** band
            light -= burned * (26 - 8 * band)
            grain = rng.integers(-3, 4, (side, side), dtype=np.int8)
            layers.append(np.clip(light + grain, 0, 255).astype(np.uint8))
        layers.append(burned.astype(np.uint8))
        path.write_bytes(zlib.compress(np.stack(layers).tobytes(), level=1))
    return paths


@lru_cache(maxsize=4)
def open_scene(path: Path, side: int) -> np.ndarray:
    return np.frombuffer(zlib.decompress(path.read_bytes()), dtype=np.uint8).reshape(-1, side, side)


class ScenePatches(Dataset):
    def __init__(self, paths: list[Path], side: int, patch: int, per_scene: int):
        self.paths, self.side, self.patch, self.per_scene = paths, side, patch, per_scene

    def __len__(self) -> int:
        return len(self.paths) * self.per_scene

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        scene = open_scene(self.paths[index // self.per_scene], self.side)
        top, left, turns = torch.randint(self.side - self.patch, (3,)).tolist()
        window = scene[:, top : top + self.patch, left : left + self.patch]
        window = torch.from_numpy(np.rot90(window, turns % 4, axes=(1, 2)).copy())
        return window[:-1], window[-1]


class NeighbouringScenes(Sampler[int]):
    """Goes through the scenes a few at a time in random order and shuffles the patches among those."""

    def __init__(self, scenes: int, per_scene: int, at_once: int):
        self.scenes, self.per_scene, self.at_once = scenes, per_scene, at_once

    def __len__(self) -> int:
        return self.scenes * self.per_scene

    def __iter__(self) -> Iterator[int]:
        for group in torch.randperm(self.scenes).split(self.at_once):
            members = (group[:, None] * self.per_scene + torch.arange(self.per_scene)).flatten()
            yield from members[torch.randperm(len(members))].tolist()


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    layers = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True)]
    return nn.Sequential(*layers)


class SmallUNet(nn.Module):
    def __init__(self, bands: int, width: int):
        super().__init__()
        self.stem = nn.Conv2d(bands, width, 4, stride=2, padding=1)
        self.down1, self.down2 = double_conv(width, width), double_conv(width, 2 * width)
        self.bottom = double_conv(2 * width, 4 * width)
        self.up2, self.up1 = double_conv(6 * width, 2 * width), double_conv(3 * width, width)
        self.head = nn.Conv2d(width, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.down1(F.relu(self.stem(x)))
        coarse = self.down2(F.max_pool2d(fine, 2))
        x = self.bottom(F.max_pool2d(coarse, 2))
        x = self.up2(torch.cat([F.interpolate(x, scale_factor=2.0), coarse], dim=1))
        x = self.up1(torch.cat([F.interpolate(x, scale_factor=2.0), fine], dim=1))
        return F.pixel_shuffle(self.head(x), 2).squeeze(1)


def main(cfg: dict) -> None:
    accelerator = Accelerator(cpu=True)
    patches = ScenePatches(write_scenes(cfg), cfg["side"], cfg["patch"], cfg["patches_per_scene"])
    order = NeighbouringScenes(cfg["scenes"], cfg["patches_per_scene"], cfg["scenes_at_once"])
    loader = DataLoader(patches, sampler=order, **cfg["loader"])
    model = SmallUNet(cfg["bands"], cfg["width"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(cfg["epochs"]):
        losses = []
        for pixels, burned in loader:
            logits = model(pixels.float() / 64 - 1.7)
            loss = F.binary_cross_entropy_with_logits(logits, burned.float())
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(loss.detach())
        accelerator.print(f"epoch {epoch}: loss {torch.stack(losses).mean():.4f}", flush=True)


if __name__ == "__main__":
    set_seed(21)
    main(CONFIG)
