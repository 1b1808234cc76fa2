# seq2seq sanity task: T5 learns to sort digits. Effective batch of 64 as in the sweep.
import argparse

import numpy as np
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration

SRC, TGT = 64, 32
PAD, EOS, OFFSET = 0, 1, 2


class SortTask(torch.utils.data.Dataset):
    """64 numbers in, the 31 smallest in order (and an end) out. All rows are made when the run starts."""

    def __init__(self, rows, seed):
        rng = np.random.default_rng(seed)
        numbers = rng.integers(0, 200, size=(rows, SRC))
        answer = np.sort(numbers, axis=1)[:, : TGT - 1]
        self.source = torch.from_numpy(numbers + OFFSET)
        self.target = torch.from_numpy(np.concatenate([answer + OFFSET, np.full((rows, 1), EOS)], axis=1))

    def __len__(self):
        return len(self.source)

    def __getitem__(self, k):
        return {"input_ids": self.source[k], "labels": self.target[k]}


def build_model():
    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=200 + OFFSET + 6,
            d_model=256,
            d_kv=64,
            d_ff=1024,
            num_layers=3,
            num_decoder_layers=2,
            num_heads=4,
            pad_token_id=PAD,
            eos_token_id=EOS,
            decoder_start_token_id=PAD,
        )
    )


def main():
    cli = argparse.ArgumentParser()
    cli.add_argument("--effective-batch", type=int, default=64)
    cli.add_argument("--per-device", type=int, default=32)
    cli.add_argument("--rows", type=int, default=40_000)
    cli.add_argument("--lr", type=float, default=5e-4)
    opts = cli.parse_args()

    torch.manual_seed(9)
    args = Seq2SeqTrainingArguments(
        output_dir="t5-sort",
        per_device_train_batch_size=opts.per_device,
        gradient_accumulation_steps=opts.effective_batch // opts.per_device,
        num_train_epochs=2,
        learning_rate=opts.lr,
        warmup_steps=20,
        optim="adamw_torch_fused",
        logging_steps=10,
        save_strategy="epoch",
        report_to=[],
        seed=9,
    )
    Seq2SeqTrainer(model=build_model(), args=args, train_dataset=SortTask(opts.rows, 9)).train()


if __name__ == "__main__":
    main()
