"""Continues dialogues of very different length: a small Llama, from scratch, with the HF Trainer."""

import random

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

VOCABULARY, SHORTEST, LONGEST = 800, 6, 128


def make_dialogues(count):
    draw = random.Random(5)
    # Most turns are short, some are essays.
    lengths = [min(LONGEST, int(draw.lognormvariate(3.3, 0.9)) + SHORTEST) for _ in range(count)]
    return [{"input_ids": [draw.randrange(2, VOCABULARY) for _ in range(length)]} for length in lengths]


def collate(rows):
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    tokens = pad_sequence(ids, batch_first=True)
    mask = pad_sequence([torch.ones_like(row) for row in ids], batch_first=True)
    return {"input_ids": tokens, "attention_mask": mask, "labels": tokens.masked_fill(mask == 0, -100)}


def main():
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LONGEST,
    )
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=16,
        learning_rate=5e-4,
        num_train_epochs=4,
        logging_steps=25,
        save_strategy="no",
        report_to=[],
    )
    trainer = Trainer(
        model=LlamaForCausalLM(config), args=args, train_dataset=make_dialogues(6000), data_collator=collate
    )
    trainer.train()


if __name__ == "__main__":
    main()
