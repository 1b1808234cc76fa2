"""Tell bat species from a handful of labelled echolocation calls, each heard anew in every epoch."""

import math
from pathlib import Path
from tempfile import mkdtemp

import torch
from torch.utils.data import Dataset
from transformers import ASTConfig, ASTForAudioClassification, Trainer, TrainingArguments, set_seed

# Start and end of the sweep in kHz, after time expansion, and its length in milliseconds.
SPECIES = {
    "noctule": (3.4, 1.9, 220),
    "serotine": (5.2, 2.5, 150),
    "pipistrelle": (6.4, 4.4, 90),
    "soprano pipistrelle": (7.2, 5.4, 90),
    "brown long-eared": (5.0, 2.4, 40),
    "daubenton": (7.6, 2.6, 50),
}
AUDIO = {"rate": 16_000, "frames": 96, "hop": 160, "fft": 512, "bins": 64}
LOADING = {
    "dataloader_num_workers": 2,
    "dataloader_prefetch_factor": 2,
    "dataloader_pin_memory": False,
    "dataloader_drop_last": True,
}
QUIET = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "logging_steps": 60}


def sweep(start_khz: float, end_khz: float, milliseconds: float) -> torch.Tensor:
    count = int(AUDIO["rate"] * milliseconds / 1000)
    t = torch.linspace(0.0, 1.0, count)
    frequency = 1000 * (end_khz + (start_khz - end_khz) * torch.exp(-4.0 * t))
    phase = 2 * math.pi * torch.cumsum(frequency, 0) / AUDIO["rate"]
    return torch.sin(phase) * torch.hann_window(count)


def passage(species: str, seconds: float, generator: torch.Generator) -> torch.Tensor:
    """A bat flies by: calls at a steady pace that swell and fade, above a quiet night."""
    start, end, length = SPECIES[species]
    samples = int(seconds * AUDIO["rate"])
    sound = 0.02 * torch.randn(samples, generator=generator)
    at = int(torch.randint(0, 2000, (1,), generator=generator))
    while at < samples:
        shift = 1.0 + 0.06 * float(torch.randn(1, generator=generator))
        call = sweep(start * shift, end * shift, length)[: samples - at]
        sound[at : at + len(call)] += call * math.sin(math.pi * (at + 1) / samples)
        at += int(AUDIO["rate"] * (0.18 + length / 1000))
    return sound


def mel_bank() -> torch.Tensor:
    """Triangular filters, (frequencies, bins)."""
    top = 2595 * math.log10(1 + AUDIO["rate"] / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, AUDIO["bins"] + 2) / 2595) - 1)
    frequencies = torch.linspace(0, AUDIO["rate"] / 2, AUDIO["fft"] // 2 + 1).unsqueeze(1)
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class Passages(Dataset):
    """A random second of a recording, at a random speed, over the night of another place, as a log-mel picture."""

    def __init__(self, per_species: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.labels = [number for number in range(len(SPECIES)) for _ in range(per_species)]
        names = list(SPECIES)
        self.sounds = [passage(names[label], 3.0, generator) for label in self.labels]
        self.nights = 0.05 * torch.randn(8, 4 * AUDIO["rate"], generator=generator)
        self.window = torch.hann_window(AUDIO["fft"])
        self.bank = mel_bank()
        self.samples = (AUDIO["frames"] - 1) * AUDIO["hop"]

    def __len__(self) -> int:
        return len(self.labels)

    def cut(self, sound: torch.Tensor, count: int) -> torch.Tensor:
        first = int(torch.randint(len(sound) - count, (1,)))
        return sound[first : first + count]

    def stretched(self, sound: torch.Tensor) -> torch.Tensor:
        speed = 0.95 + 0.1 * float(torch.rand(1))
        piece = self.cut(sound, int(self.samples * speed)).view(1, 1, -1)
        return torch.nn.functional.interpolate(piece, size=self.samples, mode="linear").flatten()

    def __getitem__(self, index: int) -> dict[str, torch.Tensor | int]:
        night = self.nights[int(torch.randint(len(self.nights), (1,)))]
        sound = self.stretched(self.sounds[index]) + self.cut(night, self.samples)
        spectrum = torch.stft(sound, AUDIO["fft"], AUDIO["hop"], window=self.window, return_complex=True)
        picture = torch.log(spectrum.abs().square().T @ self.bank + 1e-4)
        return {"input_values": (picture - picture.mean()) / (2 * picture.std()), "labels": self.labels[index]}


def classifier() -> ASTForAudioClassification:
    config = ASTConfig(
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=768,
        patch_size=16,
        frequency_stride=16,
        time_stride=16,
        max_length=AUDIO["frames"],
        num_mel_bins=AUDIO["bins"],
        num_labels=len(SPECIES),
    )
    return ASTForAudioClassification(config)


def main() -> None:
    set_seed(8)
    options = TrainingArguments(
        output_dir=str(Path(mkdtemp(prefix="bats-"))),
        per_device_train_batch_size=16,
        num_train_epochs=160,
        learning_rate=5e-4,
        lr_scheduler_type="cosine",
        weight_decay=0.02,
        optim="adamw_torch_fused",
        seed=8,
        **LOADING,
        **QUIET,
    )
    trainer = Trainer(model=classifier(), args=options, train_dataset=Passages(per_species=16, seed=8))
    outcome = trainer.train()
    print(f"mean loss {outcome.training_loss:.3f} after {outcome.global_step} steps")


if __name__ == "__main__":
    main()
