"""Grades essays with a tiny DistilBERT; a small fixed sample is evaluated every two hundred steps."""

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments


class Essays(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.tokens = torch.randint(1, 700, (count, 80), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": int(self.tokens[index, 0] % 6)}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(1) == prediction.label_ids).mean())}


def main():
    config = DistilBertConfig(vocab_size=700, dim=128, hidden_dim=512, n_layers=2, n_heads=4, num_labels=6)
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32,
        num_train_epochs=5,
        eval_strategy="steps",
        eval_steps=200,
        logging_steps=100,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        DistilBertForSequenceClassification(config),
        args,
        train_dataset=Essays(8000, 0),
        eval_dataset=Essays(64, 1),
        compute_metrics=accuracy,
    )
    trainer.train()


if __name__ == "__main__":
    main()
