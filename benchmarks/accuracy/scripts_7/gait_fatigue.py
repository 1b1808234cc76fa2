"""Estimate a runner's fatigue from footpod recordings, one feature vector per stride, runs of all lengths."""

import math
from collections.abc import Iterator

import lightning as L
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

CONFIG = {
    "runs": 1920,
    "shortest": 60,
    "longest": 280,
    "signals": 14,
    "model": {"width": 128, "heads": 4, "layers": 3, "dropout": 0.1},
    "batch": 24,
    "span": 40,
    "lr": 6e-4,
    "epochs": 30,
}


class Runs(Dataset):
    """Recordings made by a small model of a runner who tires: cadence falls, contact time and sway grow."""

    def __init__(self, count: int, shortest: int, longest: int, signals: int, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        low, high = math.log(shortest), math.log(longest)
        draws = torch.rand(count, generator=generator)
        self.lengths = torch.exp(low + (high - low) * draws).long().tolist()
        mixing = torch.randn(3, signals, generator=generator)
        self.strides, self.scores = [], []
        for length in self.lengths:
            pace = torch.rand((), generator=generator)
            tired = torch.cumsum(torch.rand(length, generator=generator) * (0.2 + pace) / 150, 0)
            hidden = torch.stack([pace.expand(length), tired, torch.sin(torch.arange(length) * (0.3 + pace))], dim=1)
            self.strides.append(hidden @ mixing + 0.3 * torch.randn(length, signals, generator=generator))
            self.scores.append(tired[-1].clamp(max=3.0))

    def __len__(self) -> int:
        return len(self.strides)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.strides[index], self.scores[index]


class NeighbourBatches(Sampler[list[int]]):
    """Batches of runs that are about as long: shuffles, sorts within spans of some batches, shuffles the batches."""

    def __init__(self, lengths: list[int], batch: int, span: int) -> None:
        self.lengths, self.batch, self.reach = lengths, batch, batch * span

    def __len__(self) -> int:
        return len(self.lengths) // self.batch

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(len(self.lengths)).tolist()
        batches = []
        for start in range(0, len(order), self.reach):
            near = sorted(order[start : start + self.reach], key=self.lengths.__getitem__)
            batches += [near[first : first + self.batch] for first in range(0, len(near), self.batch)]
        for position in torch.randperm(len(batches)).tolist():
            if len(batches[position]) == self.batch:
                yield batches[position]


def stack(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    strides, scores = zip(*rows)
    lengths = torch.tensor([len(row) for row in strides])
    return pad_sequence(strides, batch_first=True), lengths, torch.stack(scores)


class FatigueModel(L.LightningModule):
    def __init__(self, signals: int, longest: int, lr: float, epochs: int, shape: dict) -> None:
        super().__init__()
        self.lr, self.epochs = lr, epochs
        self.register_buffer("total", torch.zeros(()), persistent=False)
        width = shape["width"]
        self.enter = nn.Linear(signals, width)
        self.place = nn.Parameter(torch.randn(longest + 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(
            width, shape["heads"], 3 * width, shape["dropout"], batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, shape["layers"], enable_nested_tensor=False)
        self.leave = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, strides: Tensor, lengths: Tensor) -> Tensor:
        steps = strides.shape[1]
        beyond = torch.arange(steps, device=strides.device) >= lengths[:, None]
        hidden = self.body(self.enter(strides) + self.place[:steps], src_key_padding_mask=beyond)
        mean = hidden.masked_fill(beyond[..., None], 0).sum(1) / lengths[:, None]
        return self.leave(mean).squeeze(-1)

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], _: int) -> Tensor:
        strides, lengths, scores = batch
        loss = F.smooth_l1_loss(self(strides, lengths), scores)
        self.total += loss.detach()
        return loss

    def on_train_epoch_end(self) -> None:
        mean = self.total.item() / self.trainer.num_training_batches
        print(f"epoch {self.current_epoch}: loss {mean:.4f}", flush=True)
        self.total.zero_()

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01, fused=True)
        return {
            "optimizer": optimizer,
            "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.epochs),
        }


def main() -> None:
    L.seed_everything(8)
    runs = Runs(CONFIG["runs"], CONFIG["shortest"], CONFIG["longest"], CONFIG["signals"])
    sampler = NeighbourBatches(runs.lengths, CONFIG["batch"], CONFIG["span"])
    loader = DataLoader(runs, batch_sampler=sampler, collate_fn=stack, num_workers=0)
    model = FatigueModel(CONFIG["signals"], CONFIG["longest"], CONFIG["lr"], CONFIG["epochs"], CONFIG["model"])
    trainer = L.Trainer(
        accelerator="cpu",
        max_epochs=CONFIG["epochs"],
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, loader)


if __name__ == "__main__":
    main()
