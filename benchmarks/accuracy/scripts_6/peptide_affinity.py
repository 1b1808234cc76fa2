"""Fine-tunes a small BERT encoder to tell which peptide windows bind a receptor, with a stability score besides."""

import random
from typing import Any

import torch
from torch import nn
from transformers import BertConfig, BertModel, Trainer, TrainingArguments

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
PAD, CLS, SEP = 0, 1, 2
WINDOW = 128
MOTIFS = ("WRK", "HDE", "YFP", "CCG")


def window(rng: random.Random) -> dict[str, Any]:
    """One window as it comes out of the digest: 120 to 126 residues, some with a motif in them."""
    residues = rng.choices(RESIDUES, k=rng.randint(120, 126))
    binds = rng.random() < 0.5
    if binds:
        for _ in range(3):
            motif, at = rng.choice(MOTIFS), rng.randrange(len(residues) - 3)
            residues[at : at + 3] = motif
    share = sum(residue in "AILMFWV" for residue in residues) / len(residues)
    ids = [CLS, *(3 + RESIDUES.index(residue) for residue in residues), SEP]
    return {"ids": ids, "binds": int(binds), "stability": share}


class Peptides(torch.utils.data.Dataset):
    def __init__(self, count: int, seed: int):
        rng = random.Random(seed)
        self.rows = [window(rng) for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Batcher:
    """Writes the rows into one tensor of a given width."""

    def __init__(self, width: int = WINDOW):
        self.width = width

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        width = self.width
        ids = torch.tensor([row["ids"] + [PAD] * (width - len(row["ids"])) for row in rows])
        return {
            "input_ids": ids,
            "attention_mask": (ids != PAD).long(),
            "labels": torch.tensor([row["binds"] for row in rows]),
            "stability": torch.tensor([row["stability"] for row in rows]),
        }


class BindingModel(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.site = nn.Linear(config.hidden_size, 2)
        self.fold = nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids, attention_mask, labels=None, stability=None):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask[..., None].to(states.dtype)
        pooled = (states * weight).sum(1) / weight.sum(1)
        logits = self.site(states[:, 0])
        result = {"logits": logits}
        if labels is not None:
            regression = nn.functional.mse_loss(self.fold(pooled)[:, 0], stability)
            result = {"loss": nn.functional.cross_entropy(logits, labels) + regression, **result}
        return result


def encoder_config() -> BertConfig:
    return BertConfig(
        vocab_size=3 + len(RESIDUES),
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=768,
        max_position_embeddings=WINDOW,
        pad_token_id=PAD,
    )


TRAINING = {
    "output_dir": "binding",
    "num_train_epochs": 6,
    "per_device_train_batch_size": 16,
    "learning_rate": 3e-4,
    "warmup_steps": 50,
    "weight_decay": 0.01,
    "optim": "adamw_torch_fused",
    "logging_steps": 50,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
    "remove_unused_columns": False,
    "use_cpu": True,
    "seed": 13,
}


def main():
    args = TrainingArguments(**TRAINING)
    train, held_out = Peptides(9600, seed=1), Peptides(320, seed=2)
    trainer = Trainer(
        model=BindingModel(encoder_config()),
        args=args,
        train_dataset=train,
        eval_dataset=held_out,
        data_collator=Batcher(),
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
