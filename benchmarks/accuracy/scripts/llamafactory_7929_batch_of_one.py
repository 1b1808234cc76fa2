"""Instruction tuning of a small GPT-2 with one sample at a time, although nearly all memory is free."""

from dataclasses import dataclass

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


@dataclass
class Settings:
    block: int = 48
    global_batch: int = 16
    micro_batch: int = 1
    steps: int = 400
    rate: float = 3e-4


class Blocks(torch.utils.data.Dataset):
    def __init__(self, settings):
        draw = torch.Generator().manual_seed(9)
        self.ids = torch.randint(0, 600, (8000, settings.block), generator=draw)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def main(settings):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=600, n_positions=settings.block, n_embd=128, n_layer=3, n_head=4))
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=settings.micro_batch,
        gradient_accumulation_steps=settings.global_batch // settings.micro_batch,
        max_steps=settings.steps,
        learning_rate=settings.rate,
        logging_steps=20,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
    )
    Trainer(model=model, args=args, train_dataset=Blocks(settings)).train()


if __name__ == "__main__":
    main(Settings())
