"""The runs of Hugging Face's page "Methods and tools for efficient training on a single GPU": bert-large, 512 tokens.

As of its time: eager attention, an optimizer that goes from parameter to parameter, and gradients that are zeroed, not
freed.
"""

from __future__ import annotations

import argparse
import functools

import torch
from torch.utils.data import Dataset
from transformers import AutoModelForSequenceClassification, BertConfig, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--fp16", action="store_true")
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--adafactor", action="store_true")
args = parser.parse_args()


class Random(Dataset):
    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.randint(100, 30000, (512,)), "labels": torch.tensor(0)}


config = BertConfig(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, num_labels=2
)
model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
torch.optim.AdamW.__init__ = functools.partialmethod(torch.optim.AdamW.__init__, foreach=False)
torch.nn.Module.zero_grad = functools.partialmethod(torch.nn.Module.zero_grad, set_to_none=False)
arguments = TrainingArguments(
    output_dir="tmp",
    per_device_train_batch_size=args.batch,
    gradient_accumulation_steps=args.accumulate,
    gradient_checkpointing=args.checkpointing,
    fp16=args.fp16,
    report_to="none",
    optim="adafactor" if args.adafactor else "adamw_torch",
)
Trainer(model=model, args=arguments, train_dataset=Random()).train()
