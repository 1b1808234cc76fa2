"""The training runs of cuda_recordings.py: random weights, made-up data, nothing downloaded. `--case` names one.

`starving`: a raw loop whose loader takes longer for a batch than the device. The others: a small Llama under the HF
Trainer, in fp32 and in bf16, with and without activation checkpointing. Without a GPU they train on the CPU, for tests.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CASES = (
    "starving",
    "trainer_fp32",
    "trainer_fp32_checkpointing",
    "trainer_bf16",
    "trainer_bf16_checkpointing",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SAMPLE_S = 0.002
VOCABULARY = 8192


class Slow(Dataset):
    """Vectors that take 2 ms each to make."""

    def __init__(self, length: int, width: int) -> None:
        self.length, self.width = length, width

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(SAMPLE_S)
        return torch.full((self.width,), float(index % 7))


class Texts(Dataset):
    """Random token ids of 64 to 512 tokens, padded to 512."""

    def __init__(self, length: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(1, VOCABULARY, (length, 512), generator=generator)
        self.lengths = torch.randint(64, 513, (length,), generator=generator)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        mask = (torch.arange(512) < self.lengths[index]).long()
        ids = self.ids[index] * mask
        return {"input_ids": ids, "attention_mask": mask, "labels": torch.where(mask.bool(), ids, -100)}


def make_layers(width: int) -> nn.Module:
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(8))).to(DEVICE)


def train_starving(steps: int, width: int) -> None:
    model = make_layers(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in DataLoader(Slow(32 * steps, width), batch_size=32):
        inputs = batch.to(DEVICE)
        loss = (model(inputs) - inputs).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss.item()


def train_with_trainer(case: str, steps: int, width: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    sizes = {"hidden_size": width, "intermediate_size": 3 * width, "num_hidden_layers": 8}
    config = LlamaConfig(vocab_size=VOCABULARY, num_attention_heads=8, num_key_value_heads=8, **sizes)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8,
            bf16="bf16" in case,
            gradient_checkpointing=case.endswith("checkpointing"),
            use_cpu=DEVICE == "cpu",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        Trainer(LlamaForCausalLM(config), arguments, train_dataset=Texts(8 * min(steps, 64))).train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--width", type=int, default=1024)
    args = parser.parse_args()
    torch.manual_seed(0)
    if args.case == "starving":
        train_starving(args.steps, args.width)
    else:
        train_with_trainer(args.case, args.steps, args.width)


if __name__ == "__main__":
    main()
