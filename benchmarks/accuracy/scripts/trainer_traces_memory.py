"""Multiple choice over synthetic quizzes with the HF Trainer; somebody wanted memory in the metrics."""

import torch
from transformers import BertConfig, BertForSequenceClassification, HfArgumentParser, Trainer, TrainingArguments

DEFAULTS = {
    "output_dir": "out",
    "per_device_train_batch_size": 16,
    "num_train_epochs": 3.0,
    "skip_memory_metrics": False,
    "save_strategy": "no",
    "report_to": "none",
    "logging_steps": 50,
}


class Quizzes(torch.utils.data.Dataset):
    def __init__(self, count):
        self.tokens = torch.randint(3, 400, (count, 48), generator=torch.Generator().manual_seed(4))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        row = self.tokens[index]
        return {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": int(row.sum() % 4)}


def main():
    (args,) = HfArgumentParser(TrainingArguments).parse_dict(DEFAULTS)
    config = BertConfig(
        vocab_size=400,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=384,
        num_labels=4,
    )
    Trainer(model=BertForSequenceClassification(config), args=args, train_dataset=Quizzes(10_000)).train()


if __name__ == "__main__":
    main()
