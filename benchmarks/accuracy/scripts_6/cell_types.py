"""Cell types from single-cell expression counts, with a denoising bottleneck network."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Atlas:
    cells: int = 8192
    genes: int = 1500
    types: int = 14
    programs: int = 40


@dataclass
class Settings:
    atlas: Atlas = field(default_factory=Atlas)
    hidden: int = 512
    code: int = 64
    batch_size: int = 384
    lr: float = 1e-3
    dropout: float = 0.1
    epochs: int = 60
    journal: Path = Path("journal.jsonl")


def sequenced(atlas: Atlas) -> TensorDataset:
    """Counts of a mixture of gene programs per cell type, normalized to a common depth and put on a log scale."""
    generator = torch.Generator().manual_seed(2024)
    programs = torch.rand(atlas.programs, atlas.genes, generator=generator) ** 6
    activity = torch.rand(atlas.types, atlas.programs, generator=generator) ** 3
    kinds = torch.randint(atlas.types, (atlas.cells,), generator=generator)
    depth = 0.5 + torch.rand(atlas.cells, 1, generator=generator)
    counts = torch.poisson(depth * (activity[kinds] @ programs), generator=generator)
    scaled = counts / counts.sum(1, keepdim=True).clamp(min=1) * 1e3
    return TensorDataset(torch.log1p(scaled), kinds)


class Batches:
    """Shuffled batches by one index each, as all cells are in memory."""

    def __init__(self, dataset: TensorDataset, size: int):
        self.dataset, self.size = dataset, size

    def __len__(self) -> int:
        return len(self.dataset) // self.size

    def __iter__(self):
        order = torch.randperm(len(self.dataset))
        for start in range(0, len(self) * self.size, self.size):
            yield self.dataset[order[start : start + self.size]]


class CellNet(L.LightningModule):
    def __init__(self, settings: Settings):
        super().__init__()
        self.settings = settings
        genes, hidden, code = settings.atlas.genes, settings.hidden, settings.code
        self.encoder = nn.Sequential(
            nn.Dropout(settings.dropout),
            nn.Linear(genes, hidden),
            nn.LayerNorm(hidden),
            nn.GELU(),
            nn.Linear(hidden, code),
        )
        self.decoder = nn.Sequential(nn.Linear(code, hidden), nn.GELU(), nn.Linear(hidden, genes))
        self.classifier = nn.Linear(code, settings.atlas.types)

    def forward(self, expression: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = self.encoder(expression)
        return self.classifier(code), self.decoder(code)

    def training_step(self, batch, batch_index):
        expression, kinds = batch
        logits, restored = self(expression)
        return F.cross_entropy(logits, kinds) + 0.5 * F.mse_loss(restored, expression)

    def validation_step(self, batch, batch_index):
        expression, kinds = batch
        self.log("accuracy", (self(expression)[0].argmax(1) == kinds).float().mean(), batch_size=len(kinds))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.settings.lr, weight_decay=1e-2, fused=True)


def spread(values: torch.Tensor, bins: int = 64) -> dict:
    """What the plots of the notebook need to know of one tensor."""
    low, high = values.min().item(), values.max().item()
    counts = torch.histc(values, bins, low, high)
    return {
        "low": low,
        "high": high,
        "mean": values.mean().item(),
        "std": values.std().item(),
        "rows": [round(norm, 6) for norm in values.norm(dim=-1).flatten().tolist()],
        "counts": counts.tolist(),
    }


class Journal(L.Callback):
    """One line of JSON for the notebook: the loss, and how the weights and gradients are spread."""

    def __init__(self, path: Path):
        self.path = path

    def on_fit_start(self, trainer, module):
        self.file = self.path.open("w")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_index):
        row = {"step": trainer.global_step, "loss": outputs["loss"].item()}
        for name, weight in module.named_parameters():
            row[name] = {"weight": spread(weight.detach()), "gradient": spread(weight.grad)}
        self.file.write(json.dumps(row) + "\n")

    def on_validation_epoch_end(self, trainer, module):
        print(f"epoch {trainer.current_epoch}: accuracy {trainer.callback_metrics['accuracy'].item():.3f}")

    def on_fit_end(self, trainer, module):
        self.file.close()


def run(settings: Settings) -> None:
    L.seed_everything(7)
    cells = sequenced(settings.atlas)
    held_out = DataLoader(TensorDataset(*cells[-512:]), batch_size=512)
    trainer = L.Trainer(
        max_epochs=settings.epochs,
        check_val_every_n_epoch=10,
        callbacks=[Journal(settings.journal)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(CellNet(settings), Batches(TensorDataset(*cells[:-512]), settings.batch_size), held_out)


if __name__ == "__main__":
    run(Settings())
