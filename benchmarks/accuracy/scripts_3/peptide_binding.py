"""Does a peptide bind? Mean-pooled transformer over amino acids, trained with transformers.Trainer."""

import numpy as np
import torch
from torch import nn
from transformers import Trainer, TrainingArguments, set_seed

AMINO = "ACDEFGHIKLMNPQRSTVWY"
PAD = 0


class PeptideSet(torch.utils.data.Dataset):
    """Peptides are integers in memory; 0 is kept for padding."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.seqs = [rng.integers(1, len(AMINO) + 1, size=int(rng.integers(43, 49))).tolist() for _ in range(n)]
        motif = {AMINO.index(a) + 1 for a in "RKH"}
        self.binds = [int(sum(a in motif for a in seq) > 0.15 * len(seq)) for seq in self.seqs]

    def __len__(self):
        return len(self.seqs)

    def __getitem__(self, i):
        return {"residues": self.seqs[i], "labels": self.binds[i]}


def stack_peptides(items, width=128):
    residues = torch.full((len(items), width), PAD)
    for row, item in enumerate(items):
        residues[row, : len(item["residues"])] = torch.tensor(item["residues"])
    return {"residues": residues, "labels": torch.tensor([item["labels"] for item in items])}


class Binder(nn.Module):
    def __init__(self, dim=128, layers=3, heads=4):
        super().__init__()
        self.tokens = nn.Embedding(len(AMINO) + 1, dim, padding_idx=PAD)
        self.places = nn.Embedding(256, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.classify = nn.Linear(dim, 2)

    def forward(self, residues, labels=None):
        empty = residues == PAD
        hidden = self.tokens(residues) + self.places(torch.arange(residues.shape[1], device=residues.device))
        hidden = self.encoder(hidden, src_key_padding_mask=empty)
        filled = (~empty).unsqueeze(-1).float()
        logits = self.classify((hidden * filled).sum(1) / filled.sum(1))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


def train():
    set_seed(23)
    args = TrainingArguments(
        output_dir="peptides",
        num_train_epochs=3,
        per_device_train_batch_size=24,
        learning_rate=3e-4,
        lr_scheduler_type="cosine",
        logging_steps=100,
        save_strategy="no",
        report_to=[],
        remove_unused_columns=False,
        seed=23,
    )
    trainer = Trainer(model=Binder(), args=args, train_dataset=PeptideSet(9600, seed=5), data_collator=stack_peptides)
    result = trainer.train()
    print(f"final loss {result.training_loss:.4f}")


if __name__ == "__main__":
    train()
