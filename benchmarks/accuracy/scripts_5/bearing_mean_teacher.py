"""Mean-teacher training of a bearing fault detector: few annotated windows, hours of vibration without annotation."""

import copy
import logging
from typing import Any

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

log = logging.getLogger("bearing")

CONFIG: dict[str, Any] = {
    "seed": 29,
    "window": 512,
    "faults": 4,
    "annotated": 768,
    "signal_length": 1_500_000,
    "batch": {"annotated": 16, "raw": 48},
    "optimizer": {"lr": 1e-3, "weight_decay": 1e-2},
    "steps": 1500,
    "teacher_decay": 0.99,
    "consistency": {"weight": 2.0, "ramp": 400},
    "channels": (48, 96, 192),
    "report_every": 50,
}


def vibration(length: int, fault: int, generator: torch.Generator) -> Tensor:
    """Shaft rotation with noise; a faulty bearing adds an impact at its own period."""
    time = torch.arange(length) / 512
    signal = torch.sin(2 * torch.pi * 7 * time) + 0.6 * torch.randn(length, generator=generator)
    if fault:
        phase = torch.arange(length) % (23 + 14 * fault)
        signal += 2.5 * torch.exp(-phase / 5) * torch.sin(phase * 1.3)
    return signal


class RawWindows(Dataset):
    """Every start in a long signal is a window of its own."""

    def __init__(self, signal: Tensor, window: int):
        self.windows = signal.unfold(0, window, 1)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, start: int) -> Tensor:
        return self.windows[start]


def make_loaders(config: dict[str, Any]) -> tuple[DataLoader, DataLoader]:
    generator = torch.Generator().manual_seed(config["seed"])
    window, faults = config["window"], config["faults"]
    per_fault = config["annotated"] // faults
    rows = [vibration(per_fault * window, fault, generator).view(per_fault, window) for fault in range(faults)]
    annotated = TensorDataset(torch.cat(rows), torch.arange(faults).repeat_interleave(per_fault))
    part = config["signal_length"] // faults
    raw = torch.cat([vibration(part, fault, generator) for fault in range(faults)])
    return (
        DataLoader(annotated, batch_size=config["batch"]["annotated"], shuffle=True, drop_last=True),
        DataLoader(RawWindows(raw, window), batch_size=config["batch"]["raw"], shuffle=True, drop_last=True),
    )


class Detector(nn.Module):
    def __init__(self, channels: tuple[int, ...], faults: int):
        super().__init__()
        layers: list[nn.Module] = []
        before = 1
        for after in channels:
            layers += [nn.Conv1d(before, after, 7, stride=2, padding=3), nn.GroupNorm(4, after), nn.SiLU()]
            before = after
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(before, faults)

    def forward(self, windows: Tensor) -> Tensor:
        return self.head(self.body(windows.unsqueeze(1)).mean(dim=-1))


@torch.no_grad()
def follow(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    torch._foreach_lerp_(list(teacher.parameters()), list(student.parameters()), 1 - decay)


def disturbed(windows: Tensor) -> Tensor:
    return windows * (1 + 0.1 * torch.randn(len(windows), 1)) + 0.1 * torch.randn_like(windows)


def train(config: dict[str, Any]) -> None:
    set_seed(config["seed"])
    accelerator = Accelerator(cpu=True)
    annotated, raw = make_loaders(config)
    student = Detector(config["channels"], config["faults"])
    teacher = copy.deepcopy(student).requires_grad_(False)
    student, optimizer = accelerator.prepare(
        student, torch.optim.AdamW(student.parameters(), fused=True, **config["optimizer"])
    )

    step, consistency = 0, config["consistency"]
    while step < config["steps"]:
        for windows, faults in annotated:
            unlabelled = next(iter(raw))
            supervised = F.cross_entropy(student(disturbed(windows)), faults)
            with torch.no_grad():
                target = teacher(disturbed(unlabelled)).softmax(dim=-1)
            agreement = F.mse_loss(student(disturbed(unlabelled)).softmax(dim=-1), target)
            loss = supervised + consistency["weight"] * min(1.0, step / consistency["ramp"]) * agreement

            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            follow(teacher, accelerator.unwrap_model(student), config["teacher_decay"])

            step += 1
            if step % config["report_every"] == 0:
                log.info("step %d: supervised %.3f, agreement %.4f", step, supervised.item(), agreement.item())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    train(CONFIG)
