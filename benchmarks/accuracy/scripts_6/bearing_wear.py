"""How many hours a bearing still has: regression on vibration windows of four accelerometers."""

import math

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

CONFIG = {
    "data": {"windows": 4800, "held_out": 480, "samples": 256, "channels": 4},
    "model": {"width": 64, "depth": 3, "heads": 4, "patch": 8, "dropout": 0.1},
    "training": {
        "output_dir": "bearings",
        "num_train_epochs": 10,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 24,
        "per_device_eval_batch_size": 96,
        "learning_rate": 8e-4,
        "weight_decay": 0.02,
        "warmup_steps": 60,
        "lr_scheduler_type": "linear",
        "max_grad_norm": 1.0,
    },
    "seed": 31,
}

QUIET = {
    "optim": "adamw_torch_fused",
    "logging_steps": 50,
    "save_strategy": "no",
    "eval_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}


class VibrationWindows(Dataset):
    """Windows of a simulated run to failure: the defect's tone and the noise floor rise as the bearing wears."""

    def __init__(self, count: int, samples: int, channels: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        wear = torch.rand(count, 1, 1, generator=draw)
        time = torch.arange(samples) / samples
        shaft = 9 + 3 * torch.rand(count, 1, 1, generator=draw)
        phase = 2 * math.pi * torch.rand(count, channels, 1, generator=draw)
        rotation = torch.sin(2 * math.pi * shaft * time + phase)
        defect = torch.sin(2 * math.pi * 5.43 * shaft * time + phase) * (rotation > 0.4)
        noise = torch.randn(count, channels, samples, generator=draw)
        self.signal = rotation + 1.8 * wear**2 * defect + (0.15 + 0.25 * wear) * noise
        self.hours = (1.0 - wear).reshape(count)

    def __len__(self) -> int:
        return len(self.hours)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"signal": self.signal[index], "labels": self.hours[index]}


class WearRegressor(nn.Module):
    """Patches of the window as tokens of a small transformer; the mean token gives the share of life left."""

    def __init__(self, samples: int, channels: int, width: int, depth: int, heads: int, patch: int, dropout: float):
        super().__init__()
        self.patches = nn.Conv1d(channels, width, kernel_size=patch, stride=patch)
        self.place = nn.Parameter(0.02 * torch.randn(1, samples // patch, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, dim_feedforward=3 * width, dropout=dropout, batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, signal: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        tokens = self.patches(signal).transpose(1, 2) + self.place
        for block in self.blocks:
            tokens = block(tokens)
        left = self.head(self.norm(tokens).mean(dim=1)).squeeze(-1)
        if labels is None:
            return {"logits": left}
        return {"loss": nn.functional.smooth_l1_loss(left, labels, beta=0.1), "logits": left}


class EpochReport(TrainerCallback):
    def on_epoch_end(self, args, state, control, **kwargs):
        print(f"epoch {state.epoch:.0f} done after {state.global_step} updates", flush=True)


def mean_error(output) -> dict[str, float]:
    return {"mean_error": float(abs(output.predictions - output.label_ids).mean())}


def windows(count: int, seed: int) -> VibrationWindows:
    return VibrationWindows(count, CONFIG["data"]["samples"], CONFIG["data"]["channels"], seed)


def make_trainer() -> Trainer:
    data = CONFIG["data"]
    return Trainer(
        model=WearRegressor(data["samples"], data["channels"], **CONFIG["model"]),
        args=TrainingArguments(**CONFIG["training"], **QUIET, seed=CONFIG["seed"]),
        train_dataset=windows(data["windows"], CONFIG["seed"]),
        eval_dataset=windows(data["held_out"], CONFIG["seed"] + 1),
        compute_metrics=mean_error,
        callbacks=[EpochReport()],
    )


if __name__ == "__main__":
    set_seed(CONFIG["seed"])
    trainer = make_trainer()
    trainer.train()
    print(trainer.evaluate())
