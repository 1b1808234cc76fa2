"""Trains a masked language model with the HF Trainer on blocks that were tokenised beforehand."""

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

VOCABULARY, BLOCK, MASK = 1000, 96, 1


class Blocks(Dataset):
    def __init__(self, tokens):
        self.tokens = tokens

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        hidden = torch.rand(BLOCK) < 0.15
        return {"input_ids": tokens.masked_fill(hidden, MASK), "labels": tokens.masked_fill(~hidden, -100)}


def main():
    tokens = torch.randint(2, VOCABULARY, (20_000, BLOCK), generator=torch.Generator().manual_seed(0))
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=192,
        num_hidden_layers=3,
        num_attention_heads=6,
        intermediate_size=768,
        max_position_embeddings=BLOCK,
    )
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=16,
        learning_rate=5e-4,
        max_steps=800,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=BertForMaskedLM(config), args=args, train_dataset=Blocks(tokens)).train()


if __name__ == "__main__":
    main()
