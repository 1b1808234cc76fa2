"""Pre-train a small GPT-2 on games written as move tokens, in blocks of equal length."""

import argparse
import sys

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

BLOCK = 96
SQUARES = 64
PIECES = 6
START = SQUARES * PIECES
END = START + 1
VOCABULARY = END + 1


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=12000)
    parser.add_argument("--effective-batch", type=int, default=64)
    parser.add_argument("--micro-batch", type=int, default=16)
    parser.add_argument("--max-steps", type=int, default=3000)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--embed", type=int, default=128)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=8)
    return parser.parse_args(argv)


def play(games: int, rng: np.random.Generator) -> np.ndarray:
    """All games end to end as one stream of tokens: each piece wanders from the square of the move before."""
    plies = rng.integers(30, 110, size=games)
    pieces = rng.choice(PIECES, size=int(plies.sum()), p=[0.36, 0.17, 0.16, 0.14, 0.11, 0.06])
    reach = np.array([8, 17, 9, 16, 18, 1])[pieces]
    turns = rng.choice([-1, 1], size=len(pieces))
    squares = np.cumsum(reach * turns + rng.integers(0, 2, size=len(pieces))) % SQUARES
    moves = pieces * SQUARES + squares
    ends = np.cumsum(plies)
    breaks = np.repeat(ends[:-1], 2)
    return np.insert(moves, breaks, np.tile([END, START], games - 1))


class Blocks(torch.utils.data.Dataset):
    """The stream cut into blocks without padding."""

    def __init__(self, stream: np.ndarray) -> None:
        whole = len(stream) // BLOCK * BLOCK
        self.blocks = torch.from_numpy(stream[:whole].reshape(-1, BLOCK).astype(np.int64))

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.blocks[index]


def stack(blocks: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    moves = torch.stack(blocks)
    return {"input_ids": moves, "labels": moves}


class Perplexity(TrainerCallback):
    """Prints the perplexity of a move with each logged loss."""

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        if logs and "loss" in logs:
            print(f"step {state.global_step}: perplexity {np.exp(float(logs['loss'])):.1f}", flush=True)


def build(options: argparse.Namespace) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=BLOCK,
        n_embd=options.embed,
        n_layer=options.layers,
        n_head=4,
        bos_token_id=START,
        eos_token_id=END,
        use_cache=False,
    )
    return GPT2LMHeadModel(config)


def training_arguments(options: argparse.Namespace) -> TrainingArguments:
    accumulate = options.effective_batch // options.micro_batch
    return TrainingArguments(
        output_dir="chess-lm",
        max_steps=options.max_steps,
        per_device_train_batch_size=options.micro_batch,
        gradient_accumulation_steps=accumulate,
        learning_rate=options.lr,
        lr_scheduler_type="cosine",
        warmup_steps=150,
        weight_decay=0.1,
        optim="adamw_torch_fused",
        logging_steps=25,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        dataloader_drop_last=True,
        seed=options.seed,
    )


def main() -> None:
    options = parse(sys.argv[1:])
    torch.manual_seed(options.seed)
    stream = play(options.games, np.random.default_rng(options.seed))
    trainer = Trainer(
        model=build(options),
        args=training_arguments(options),
        train_dataset=Blocks(stream),
        data_collator=stack,
        callbacks=[Perplexity()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
