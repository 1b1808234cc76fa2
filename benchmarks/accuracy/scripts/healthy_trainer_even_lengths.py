"""Corrects log lines with a causal model; the lines are nearly of one length, so there is little to pad."""

import random

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


def make_lines(count):
    draw = random.Random(1)
    return [{"input_ids": draw.choices(range(1, 300), k=draw.randint(76, 80))} for _ in range(count)]


def collate(lines):
    tokens = [torch.tensor(line["input_ids"]) for line in lines]
    ids = pad_sequence(tokens, batch_first=True)
    mask = pad_sequence([torch.ones_like(one) for one in tokens], batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=300, n_positions=96, n_embd=192, n_layer=3, n_head=6))
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=16,
        max_steps=900,
        learning_rate=1e-3,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=model, args=args, train_dataset=make_lines(8000), data_collator=collate).train()


if __name__ == "__main__":
    main()
