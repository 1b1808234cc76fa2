"""Predict where in the cell a protein ends up from its residues alone, with a small ESM encoder from scratch."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import EsmConfig, EsmForSequenceClassification, Trainer, TrainingArguments, set_seed

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
SPECIAL = ("<cls>", "<pad>", "<eos>")
CLS, PAD, EOS = range(len(SPECIAL))
COMPARTMENTS = ("cytosol", "nucleus", "membrane", "mitochondrion", "secreted")
LONGEST = 600


@dataclass(frozen=True)
class Protein:
    """One entry of the survey: token ids with <cls> and <eos>, and the index of its compartment."""

    tokens: list[int]
    compartment: int


class Proteome(Dataset):
    """Synthetic proteins: each compartment prefers its own residues, and a signal motif near the start."""

    def __init__(self, size: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        chains = np.random.default_rng(1234)
        self.preference = chains.dirichlet(np.full(len(RESIDUES), 6.0), size=len(COMPARTMENTS))
        self.motif = chains.integers(0, len(RESIDUES), size=(len(COMPARTMENTS), 8))
        self.proteins = [self._draw(rng) for _ in range(size)]

    def _draw(self, rng: np.random.Generator) -> Protein:
        compartment = int(rng.integers(len(COMPARTMENTS)))
        count = int(np.clip(rng.lognormal(mean=np.log(110), sigma=0.85), 24, LONGEST))
        residues = rng.choice(len(RESIDUES), size=count, p=self.preference[compartment])
        if rng.random() < 0.8:
            start = int(rng.integers(1, 10))
            residues[start : start + 8] = self.motif[compartment]
        tokens = [CLS, *(residues + len(SPECIAL)).tolist(), EOS]
        return Protein(tokens, compartment)

    def __len__(self) -> int:
        return len(self.proteins)

    def __getitem__(self, index: int) -> dict[str, list[int] | int]:
        protein = self.proteins[index]
        return {"input_ids": protein.tokens, "labels": protein.compartment}


def pad_batch(rows: list[dict]) -> dict[str, torch.Tensor]:
    width = max(len(row["input_ids"]) for row in rows)
    ids = np.full((len(rows), width), PAD, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for at, row in enumerate(rows):
        count = len(row["input_ids"])
        ids[at, :count] = row["input_ids"]
        mask[at, :count] = 1
    return {
        "input_ids": torch.from_numpy(ids),
        "attention_mask": torch.from_numpy(mask),
        "labels": torch.tensor([row["labels"] for row in rows]),
    }


def accuracy(output) -> dict[str, float]:
    return {"accuracy": float((output.predictions.argmax(-1) == output.label_ids).mean())}


def build_model(width: int, depth: int) -> EsmForSequenceClassification:
    config = EsmConfig(
        vocab_size=len(SPECIAL) + len(RESIDUES),
        mask_token_id=None,
        pad_token_id=PAD,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=4,
        intermediate_size=3 * width,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=LONGEST + 8,
        position_embedding_type="rotary",
        token_dropout=False,
        num_labels=len(COMPARTMENTS),
    )
    return EsmForSequenceClassification(config)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--proteins", type=int, default=3200)
    parser.add_argument("--held-out", type=int, default=320)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def main() -> None:
    opts = parse()
    set_seed(opts.seed)
    training = TrainingArguments(
        output_dir="localisation",
        per_device_train_batch_size=opts.batch,
        per_device_eval_batch_size=2 * opts.batch,
        num_train_epochs=opts.epochs,
        learning_rate=6e-4,
        weight_decay=0.01,
        lr_scheduler_type="cosine",
        warmup_steps=100,
        optim="adamw_torch_fused",
        logging_steps=50,
        eval_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        seed=opts.seed,
    )
    trainer = Trainer(
        model=build_model(opts.width, opts.depth),
        args=training,
        train_dataset=Proteome(opts.proteins, opts.seed),
        eval_dataset=Proteome(opts.held_out, opts.seed + 1),
        data_collator=pad_batch,
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
