"""Tell in which compartment of the cell a protein ends up from its amino acids."""

from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
COMPARTMENTS = ("cytosol", "nucleus", "mitochondrion", "membrane", "secreted", "peroxisome")
PAD = 0


def draw_proteins(count: int, shortest: int, longest: int, seed: int) -> list[tuple[torch.Tensor, int]]:
    """Sequences whose length is log-normal as in a proteome, with the signal of the compartment in them."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.exp(4.75 + 0.75 * torch.randn(count, generator=g)).long().clamp(shortest, longest)
    usual = torch.rand(len(COMPARTMENTS), len(AMINO_ACIDS), generator=g) + 1.0
    signals = torch.randint(1, len(AMINO_ACIDS) + 1, (len(COMPARTMENTS), 6), generator=g)
    proteins = []
    for length in lengths.tolist():
        place = int(torch.randint(len(COMPARTMENTS), (1,), generator=g))
        residues = 1 + torch.multinomial(usual[place], length, replacement=True, generator=g)
        start = 0 if place in (2, 4) else int(torch.randint(length - 6, (1,), generator=g))
        residues[start : start + 6] = signals[place]
        proteins.append((residues, place))
    return proteins


def pad_batch(proteins: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
    residues = pad_sequence([sequence for sequence, _ in proteins], batch_first=True, padding_value=PAD)
    return {"residues": residues, "place": torch.tensor([place for _, place in proteins])}


class ProteinLayer(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        x = x + self.join(seen.transpose(1, 2).flatten(2))
        return x + self.feed(self.norm2(x))


class CompartmentClassifier(L.LightningModule):
    def __init__(self, width: int, heads: int, depth: int, longest: int, lr: float):
        super().__init__()
        self.save_hyperparameters()
        self.residue = nn.Embedding(len(AMINO_ACIDS) + 1, width, padding_idx=PAD)
        self.position = nn.Embedding(longest, width)
        self.layers = nn.ModuleList(ProteinLayer(width, heads) for _ in range(depth))
        self.pool = nn.Linear(width, 1)
        self.head = nn.Linear(width, len(COMPARTMENTS))

    def forward(self, residues: torch.Tensor) -> torch.Tensor:
        mask = residues != PAD
        x = self.residue(residues) + self.position.weight[: residues.shape[1]]
        for layer in self.layers:
            x = layer(x, mask)
        weight = self.pool(x).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(dim=1)
        return self.head((weight.unsqueeze(-1) * x).sum(dim=1))

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        logits = self(batch["residues"])
        loss = F.cross_entropy(logits, batch["place"])
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(logits))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)


class EpochLine(L.Callback):
    def on_train_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        print(f"epoch {trainer.current_epoch}: loss {trainer.callback_metrics['loss']:.4f}", flush=True)


def build_loader(proteins: list[tuple[torch.Tensor, int]], batch_size: int) -> DataLoader:
    return DataLoader(proteins, batch_size=batch_size, shuffle=True, drop_last=True, collate_fn=pad_batch)


EXPERIMENT: dict[str, Any] = {
    "data": {"count": 1600, "shortest": 24, "longest": 640, "seed": 8},
    "model": {"width": 64, "heads": 4, "depth": 3, "longest": 640, "lr": 1e-3},
    "batch_size": 16,
    "epochs": 30,
}


def main() -> None:
    L.seed_everything(8)
    loader = build_loader(draw_proteins(**EXPERIMENT["data"]), EXPERIMENT["batch_size"])
    trainer = L.Trainer(
        max_epochs=EXPERIMENT["epochs"],
        accelerator="cpu",
        gradient_clip_val=1.0,
        callbacks=[EpochLine()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(CompartmentClassifier(**EXPERIMENT["model"]), loader)


if __name__ == "__main__":
    main()
