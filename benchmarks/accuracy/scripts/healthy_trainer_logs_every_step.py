"""Logs every step of a run whose steps are long: what the log costs does not show."""

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Contracts(torch.utils.data.Dataset):
    def __init__(self, count, length=160):
        self.tokens = torch.randint(1, 900, (count, length), generator=torch.Generator().manual_seed(2))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": int(self.tokens[index].sum() % 3)}


def main():
    config = BertConfig(
        vocab_size=900,
        hidden_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=1024,
        num_labels=3,
    )
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=8,
        num_train_epochs=1,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=Contracts(4000)).train()


if __name__ == "__main__":
    main()
