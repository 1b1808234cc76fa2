"""Tell frog species apart by their calls with a small audio spectrogram transformer."""

import argparse
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import ASTConfig, ASTForAudioClassification, Trainer, TrainingArguments, set_seed


@dataclass(frozen=True)
class Recording:
    rate: int = 16_000
    seconds: float = 2.0
    species: int = 8

    @property
    def samples(self) -> int:
        return int(self.rate * self.seconds)


@dataclass(frozen=True)
class Spectrum:
    window: int = 1024
    hop: int = 250
    bands: int = 64
    frames: int = 128
    floor_db: float = -80.0


def record_calls(recording: Recording, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pulsed calls: carrier, pulse rate and sweep belong to the species, the rest differs from call to call."""
    rng = np.random.default_rng(seed)
    species = rng.integers(0, recording.species, count)
    time = np.arange(recording.samples, dtype=np.float32) / recording.rate
    calls = np.empty((count, recording.samples), dtype=np.float32)
    for row, kind in enumerate(species):
        carrier = 600 + 350 * kind + rng.normal(0, 60)
        sweep = (-1) ** kind * rng.uniform(50, 200)
        pulses = 0.5 + 0.5 * np.sin(2 * np.pi * (6 + 3 * (kind % 4)) * time + rng.uniform(0, 6))
        tone = np.sin(2 * np.pi * (carrier + sweep * time) * time)
        calls[row] = pulses**3 * tone + rng.uniform(0.05, 0.3) * rng.standard_normal(len(time), dtype=np.float32)
    return calls, species


def mel_filters(recording: Recording, spectrum: Spectrum) -> np.ndarray:
    top = 2595 * math.log10(1 + recording.rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, spectrum.bands + 2) / 2595) - 1)
    bins = np.linspace(0, recording.rate / 2, spectrum.window // 2 + 1)
    rising = (bins[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - bins[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.maximum(0, np.minimum(rising, falling)).astype(np.float32)


class CallDataset(Dataset):
    def __init__(self, recording: Recording, spectrum: Spectrum, count: int, seed: int):
        self.spectrum = spectrum
        self.calls, self.species = record_calls(recording, count, seed)
        self.filters = mel_filters(recording, spectrum)
        self.taper = np.hanning(spectrum.window)

    def __len__(self) -> int:
        return len(self.calls)

    def log_mel(self, call: np.ndarray) -> torch.Tensor:
        """Log-mel frames of one call, from which the median of each band is taken off."""
        padded = np.pad(call, self.spectrum.window // 2, mode="reflect")
        windows = np.lib.stride_tricks.sliding_window_view(padded, self.spectrum.window)[:: self.spectrum.hop]
        power = np.abs(np.fft.rfft(windows[: self.spectrum.frames] * self.taper)) ** 2
        decibels = 10 * np.log10(power.astype(np.float32) @ self.filters.T + 1e-10)
        decibels = np.maximum(decibels - decibels.max(), self.spectrum.floor_db)
        decibels -= np.median(decibels, axis=0)
        return torch.from_numpy((decibels / (2 * decibels.std())).astype(np.float32))

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        return {"input_values": self.log_mel(self.calls[index]), "labels": int(self.species[index])}


def build_model(spectrum: Spectrum, species: int) -> ASTForAudioClassification:
    config = ASTConfig(
        hidden_size=256,
        num_hidden_layers=5,
        num_attention_heads=4,
        intermediate_size=768,
        patch_size=16,
        frequency_stride=16,
        time_stride=16,
        num_mel_bins=spectrum.bands,
        max_length=spectrum.frames,
        num_labels=species,
    )
    return ASTForAudioClassification(config)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=640)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=float, default=25)
    parser.add_argument("--rate", type=float, default=2e-4)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    set_seed(17)
    recording, spectrum = Recording(), Spectrum()
    calls = CallDataset(recording, spectrum, arguments.calls, seed=17)
    training = TrainingArguments(
        output_dir="frog_calls",
        num_train_epochs=arguments.epochs,
        per_device_train_batch_size=arguments.batch_size,
        learning_rate=arguments.rate,
        warmup_steps=40,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=True,
    )
    model = build_model(spectrum, recording.species)
    Trainer(model=model, args=training, train_dataset=calls).train()


if __name__ == "__main__":
    main()
