"""Pretrains a tiny BERT; the collator draws for each token by itself whether it is hidden, kept or replaced."""

import random

import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

VOCABULARY, LENGTH, MASK = 700, 128, 1
SHARE = 0.15


class Lines(torch.utils.data.Dataset):
    def __init__(self, count, seed=0):
        self.tokens = torch.randint(2, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index]


def collate(rows):
    inputs, labels = torch.stack(rows), torch.full((len(rows), LENGTH), -100)
    for row in range(len(rows)):
        for position in range(LENGTH):
            if random.random() < SHARE:
                labels[row, position] = inputs[row, position]
                inputs[row, position] = MASK if random.random() < 0.9 else random.randrange(VOCABULARY)
            elif inputs[row, position] == MASK:
                labels[row, position] = -100
    return {"input_ids": inputs, "labels": labels}


def main():
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=LENGTH,
    )
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=16,
        max_steps=800,
        learning_rate=1e-3,
        remove_unused_columns=False,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=BertForMaskedLM(config), args=args, train_dataset=Lines(20_000), data_collator=collate).train()


if __name__ == "__main__":
    main()
