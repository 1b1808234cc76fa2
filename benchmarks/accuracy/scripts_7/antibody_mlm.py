"""Masked-residue pretraining on variable domains of antibody heavy chains."""

import random
from dataclasses import dataclass
from functools import partial

import torch
from datasets import Dataset
from transformers import (
    BertConfig,
    BertForMaskedLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)

RESIDUES = "ACDEFGHIKLMNPQRSTVWY"
PAD, CLS, SEP, MASK = range(4)
VOCABULARY = {letter: number for number, letter in enumerate(RESIDUES, start=4)}

FRAMEWORK = (
    "EVQLVESGGGLVQPGGSLRLSCAASGFTFS",
    "WVRQAPGKGLEWVS",
    "RFTISRDNSKNTLYLQMNSLRAEDTAVYYCAR",
    "WGQGTLVTVSS",
)


@dataclass
class Domains:
    """What is drawn and how it is hidden."""

    sequences: int = 12000
    mutation_rate: float = 0.08
    mask_rate: float = 0.15
    seed: int = 41


@dataclass
class Shape:
    hidden: int = 288
    layers: int = 2
    heads: int = 4
    longest: int = 144


def draw_domain(rng: random.Random, mutation_rate: float) -> str:
    """Framework regions with mutations, and three loops, of which the third differs most in length."""
    loops = (rng.choice((5, 5, 5, 5, 6)), rng.choice((16, 17, 17, 17)), round(rng.triangular(9, 13, 12)))
    parts = []
    for number, region in enumerate(FRAMEWORK):
        mutated = (rng.choice(RESIDUES) if rng.random() < mutation_rate else letter for letter in region)
        parts.extend(mutated)
        if number < len(loops):
            parts.extend(rng.choices("GSYDTNAWFR", weights=(5, 5, 5, 4, 3, 3, 2, 1, 2, 2), k=loops[number]))
    return "".join(parts)


def repertoire(domains: Domains) -> Dataset:
    rng = random.Random(domains.seed)
    rows = []
    for _ in range(domains.sequences):
        sequence = draw_domain(rng, domains.mutation_rate)
        rows.append([CLS, *(VOCABULARY[letter] for letter in sequence), SEP])
    return Dataset.from_dict({"input_ids": rows}).with_format("numpy")


def hide(rows: list[dict], rate: float) -> dict[str, torch.Tensor]:
    """Pad to the longest row of the batch and hide residues: most as the mask, some as another residue."""
    tokens = [torch.from_numpy(row["input_ids"]) for row in rows]
    tokens = torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True, padding_value=PAD)
    chance = torch.rand(tokens.shape)
    chosen = (chance < rate) & (tokens > MASK)
    labels = tokens.masked_fill(~chosen, -100)
    hidden = tokens.masked_fill(chosen & (chance < 0.8 * rate), MASK)
    swapped = chosen & (chance > 0.9 * rate)
    others = torch.randint(MASK + 1, MASK + 1 + len(RESIDUES), tokens.shape)
    return {
        "input_ids": torch.where(swapped, others, hidden),
        "attention_mask": (tokens != PAD).long(),
        "labels": labels,
    }


def build(shape: Shape) -> BertForMaskedLM:
    config = BertConfig(
        vocab_size=len(VOCABULARY) + 4,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        max_position_embeddings=shape.longest,
        type_vocab_size=1,
        pad_token_id=PAD,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


def main() -> None:
    domains, shape = HfArgumentParser((Domains, Shape)).parse_args_into_dataclasses()
    set_seed(domains.seed)
    arguments = TrainingArguments(
        output_dir="antibodies",
        num_train_epochs=12,
        per_device_train_batch_size=32,
        learning_rate=4e-4,
        lr_scheduler_type="linear",
        warmup_steps=200,
        weight_decay=0.01,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model=build(shape),
        args=arguments,
        train_dataset=repertoire(domains),
        data_collator=partial(hide, rate=domains.mask_rate),
    )
    outcome = trainer.train()
    trainer.save_model()
    print(f"final loss {outcome.training_loss:.4f}")


if __name__ == "__main__":
    main()
