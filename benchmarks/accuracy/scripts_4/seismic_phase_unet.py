"""Pick P and S arrivals on three-component seismograms with a one-dimensional U-Net."""

import lightning as L
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

SETTINGS = {
    "data": {"traces": 12000, "length": 256},
    "loader": {"batch_size": 2, "shuffle": True, "drop_last": True},
    "trainer": {"max_epochs": 3, "accumulate_grad_batches": 16, "accelerator": "cpu", "devices": 1},
}


class Seismograms(Dataset):
    def __init__(self, traces, length):
        onset = torch.randint(20, length // 2, (traces, 1))
        second = onset + torch.randint(20, length // 3, (traces, 1))
        time = torch.arange(length).view(1, -1)
        envelope = (time >= onset).float() + 2 * (time >= second).float()
        self.waves = torch.randn(traces, 3, length) * (0.2 + envelope[:, None])
        self.phase = (time >= onset).long() + (time >= second).long()

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, index):
        return {"wave": self.waves[index], "phase": self.phase[index]}


def double(inside, outside):
    return nn.Sequential(
        nn.Conv1d(inside, outside, 7, padding=3), nn.GroupNorm(4, outside), nn.ReLU(),
        nn.Conv1d(outside, outside, 7, padding=3), nn.GroupNorm(4, outside), nn.ReLU(),
    )


class PhasePicker(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.enter = double(3, width)
        self.down = double(width, 2 * width)
        self.bottom = double(2 * width, 4 * width)
        self.up = double(6 * width, 2 * width)
        self.leave = double(3 * width, width)
        self.classify = nn.Conv1d(width, 3, 1)

    def forward(self, wave):
        fine = self.enter(wave)
        middle = self.down(F.max_pool1d(fine, 2))
        coarse = self.bottom(F.max_pool1d(middle, 2))
        middle = self.up(torch.cat([F.interpolate(coarse, scale_factor=2), middle], 1))
        fine = self.leave(torch.cat([F.interpolate(middle, scale_factor=2), fine], 1))
        return self.classify(fine)

    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch["wave"]), batch["phase"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, fused=True)


if __name__ == "__main__":
    L.seed_everything(5)
    picks = DataLoader(Seismograms(**SETTINGS["data"]), **SETTINGS["loader"])
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
    L.Trainer(**SETTINGS["trainer"], **quiet).fit(PhasePicker(), picks)
