"""Direction of arrival of a talker, from four microphones in rooms that are simulated at random."""

import argparse
from dataclasses import dataclass

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPEED_OF_SOUND = 343.0


@dataclass(frozen=True)
class Geometry:
    rate: int = 16_000
    seconds: float = 0.5
    microphones: int = 4
    radius: float = 0.045
    sectors: int = 36
    reflections: int = 24

    @property
    def length(self) -> int:
        return int(self.rate * self.seconds)

    def positions(self) -> np.ndarray:
        angles = np.arange(self.microphones) * 2 * np.pi / self.microphones
        return self.radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


class RandomRooms(Dataset):
    """Every item is a new room: a talker, early reflections and sensor noise, seen as cross-power spectra."""

    def __init__(self, geometry: Geometry, size: int, frame: int = 512):
        self.geometry, self.size, self.frame = geometry, size, frame
        self.mics = geometry.positions()
        self.frequencies = np.fft.rfftfreq(geometry.length, 1 / geometry.rate)
        self.window = np.hanning(frame).astype(np.float32)
        self.pairs = [(i, j) for i in range(geometry.microphones) for j in range(i + 1, geometry.microphones)]

    def __len__(self) -> int:
        return self.size

    def talk(self, rng: np.random.Generator) -> np.ndarray:
        times = np.arange(self.geometry.length) / self.geometry.rate
        pitch = rng.uniform(90, 260) * (1 + 0.03 * np.sin(2 * np.pi * rng.uniform(3, 6) * times))
        phase = 2 * np.pi * np.cumsum(pitch) / self.geometry.rate
        voice = sum(rng.uniform(0.2, 1.0) / k * np.sin(k * phase) for k in range(1, 9))
        return voice * (0.6 + 0.4 * np.sin(2 * np.pi * rng.uniform(2, 5) * times)) + 0.05 * rng.normal(size=times.size)

    def steering(self, angle: float) -> np.ndarray:
        delays = -self.mics @ np.array([np.cos(angle), np.sin(angle)]) / SPEED_OF_SOUND
        return np.exp(-2j * np.pi * self.frequencies * delays[:, None])

    def record(self, angle: float, rng: np.random.Generator) -> np.ndarray:
        transfer = self.steering(angle)
        for _ in range(rng.integers(self.geometry.reflections // 2, self.geometry.reflections)):
            late = rng.uniform(0.002, 0.06)
            gain = rng.uniform(0.1, 0.6) * np.exp(-late / 0.03)
            echo = np.exp(-2j * np.pi * self.frequencies * late)
            transfer = transfer + gain * echo * self.steering(rng.uniform(0, 2 * np.pi))
        heard = np.fft.irfft(np.fft.rfft(self.talk(rng)) * transfer, n=self.geometry.length)
        return heard + rng.uniform(0.01, 0.1) * rng.normal(size=heard.shape)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        rng = np.random.default_rng()
        angle = rng.uniform(0, 2 * np.pi)
        frames = np.lib.stride_tricks.sliding_window_view(self.record(angle, rng), self.frame, axis=1)
        spectra = np.fft.rfft(frames[:, :: self.frame] * self.window)
        cross = np.stack([spectra[:, :, :128][i] * spectra[:, :, :128][j].conj() for i, j in self.pairs])
        cross /= np.abs(cross) + 1e-6
        planes = np.concatenate([cross.real, cross.imag]).astype(np.float32)
        return torch.from_numpy(planes), int(angle / (2 * np.pi) * self.geometry.sectors)


class Locator(nn.Module):
    def __init__(self, planes: int, sectors: int, width: int = 24):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(planes, width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d((1, 16)),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Linear(32 * width, 128), nn.ReLU(), nn.Linear(128, sectors))

    def forward(self, planes: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(planes))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", type=int, default=1600, help="rooms in an epoch")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=1e-3)
    return parser.parse_args()


def main() -> None:
    options, geometry = parse(), Geometry()
    set_seed(11)
    accelerator = Accelerator()
    rooms = RandomRooms(geometry, options.rooms)
    loader = DataLoader(rooms, batch_size=options.batch_size, drop_last=True)
    model = Locator(2 * len(rooms.pairs), geometry.sectors)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)

    for epoch in range(options.epochs):
        model.train()
        for number, (planes, sector) in enumerate(loader):
            loss = criterion(model(planes), sector)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            if number % 50 == 0:
                accelerator.print(f"epoch {epoch} step {number}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
