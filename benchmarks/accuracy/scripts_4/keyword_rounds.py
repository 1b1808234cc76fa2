"""Keyword spotting on noisy tones; every round draws a fresh handful of clips, as the curriculum asks for."""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

RATE = 8000


class Clips(Dataset):
    """A second of a tone under random noise, as a log spectrogram; the noise differs at every visit."""

    def __init__(self, count, classes):
        self.labels = np.random.default_rng(3).integers(0, classes, count)
        self.time = np.arange(RATE) / RATE

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        label = int(self.labels[index])
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        wave = np.sin(2 * np.pi * (200 + 90 * label) * self.time * rng.uniform(0.98, 1.02))
        wave = wave + rng.normal(0, 0.8, RATE)
        frames = np.lib.stride_tricks.sliding_window_view(wave, 256)[::64] * np.hanning(256)
        power = np.abs(np.fft.rfft(frames, axis=-1)) ** 2
        return torch.from_numpy(np.log1p(power[:, :64]).astype(np.float32)), label


class Spotter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.first = nn.Conv1d(64, 96, 5, stride=2)
        self.second = nn.Conv1d(96, 96, 5, stride=2)
        self.head = nn.Linear(96, classes)

    def forward(self, spectrogram):
        x = F.relu(self.first(spectrogram.transpose(1, 2)))
        return self.head(F.relu(self.second(x)).mean(-1))


def clips_of_round(dataset, options):
    sampler = RandomSampler(dataset, num_samples=options.per_round)
    return DataLoader(dataset, options.batch, sampler=sampler, **options.loading)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--per-round", type=int, default=192)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--classes", type=int, default=12)
    options = parser.parse_args()
    options.loading = {"num_workers": 2, "drop_last": True}
    return options


def main():
    options = parse()
    torch.manual_seed(3)
    dataset = Clips(6000, options.classes)
    model = Spotter(options.classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    # rounds are short so that the schedule can react to the accuracy
    for number in range(options.rounds):
        right = seen = 0
        for spectrogram, label in clips_of_round(dataset, options):
            logits = model(spectrogram)
            loss = F.cross_entropy(logits, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (logits.argmax(-1) == label).sum()
            seen += len(label)
        if number % 10 == 0:
            print(f"round {number}: accuracy {float(right) / seen:.3f}")


if __name__ == "__main__":
    main()
