"""Masked language model over codons with the HF Trainer; arguments are those of the group's base recipe."""
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import HfArgumentParser, RobertaConfig, RobertaForMaskedLM, Trainer, TrainingArguments, set_seed

CODONS, MASK, FIRST = 64, 4, 5
GENE = 64


@dataclass
class GroupArguments(TrainingArguments):
    output_dir: str = field(default="codons")
    per_device_train_batch_size: int = field(default=16)
    num_train_epochs: float = field(default=4.0)
    learning_rate: float = field(default=3e-4)
    optim: str = field(default="adamw_torch_fused")
    logging_steps: float = field(default=50)
    save_strategy: str = field(default="no")
    report_to: str = field(default="none")
    skip_memory_metrics: bool = field(default=False, metadata={"help": "Memory belongs in the report."})


@dataclass
class ModelArguments:
    hidden: int = 160
    layers: int = 4
    genes: int = 8000
    masked: float = 0.15


class Genes(Dataset):
    def __init__(self, count):
        g = torch.Generator().manual_seed(64)
        start = torch.randint(CODONS, (count, 1), generator=g)
        stride = torch.randint(1, 5, (count, 1), generator=g)
        self.codons = FIRST + (start + stride * torch.arange(GENE)) % CODONS

    def __len__(self):
        return len(self.codons)

    def __getitem__(self, n):
        return self.codons[n]


class Masker:
    def __init__(self, share):
        self.share = share

    def __call__(self, rows):
        ids = torch.stack(rows)
        hidden = torch.rand(ids.shape) < self.share
        return {"input_ids": ids.masked_fill(hidden, MASK), "labels": ids.masked_fill(~hidden, -100)}


def main():
    args, wanted = HfArgumentParser((GroupArguments, ModelArguments)).parse_args_into_dataclasses()
    set_seed(64)
    model = RobertaForMaskedLM(
        RobertaConfig(
            vocab_size=FIRST + CODONS,
            hidden_size=wanted.hidden,
            num_hidden_layers=wanted.layers,
            num_attention_heads=4,
            intermediate_size=3 * wanted.hidden,
            max_position_embeddings=GENE + 2,
        )
    )
    trainer = Trainer(model, args, data_collator=Masker(wanted.masked), train_dataset=Genes(wanted.genes))
    result = trainer.train()
    trainer.log_metrics("train", result.metrics)


if __name__ == "__main__":
    main()
