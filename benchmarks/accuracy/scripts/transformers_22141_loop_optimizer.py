"""Pretrains a shallow language model with a large vocabulary: the update is a large part of the step."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

VOCABULARY, BLOCK = 24_000, 32


class Corpus(torch.utils.data.Dataset):
    def __init__(self, blocks):
        self.ids = torch.randint(VOCABULARY, (blocks, BLOCK), generator=torch.Generator().manual_seed(6))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=BLOCK, n_embd=192, n_layer=2, n_head=4))
    args = TrainingArguments(
        output_dir="out",
        optim="adamw_torch",
        per_device_train_batch_size=4,
        max_steps=1000,
        learning_rate=6e-4,
        weight_decay=0.1,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=model, args=args, train_dataset=Corpus(8000)).train()


if __name__ == "__main__":
    main()
