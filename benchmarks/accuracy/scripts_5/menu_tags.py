"""Tags for lines of restaurant menus (dish, price, allergen ...): a small ELECTRA for tokens with the HF Trainer."""

import os
import random
from collections.abc import Callable

import torch
from torch.utils.data import Dataset
from transformers import (
    ElectraConfig,
    ElectraForTokenClassification,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
    set_seed,
)

TAGS = ["other", "dish", "ingredient", "method", "price", "allergen", "portion"]
VOCABULARY = 4000
LENGTH = 40
PAD, FIRST = 0, 10


class MenuLines(Dataset):
    """Lines of a fixed number of tokens, put together from phrases of a tag each."""

    def __init__(self, count: int, seed: int):
        draw = random.Random(seed)
        share = (VOCABULARY - FIRST) // len(TAGS)
        self.rows = [self._line(draw, share) for _ in range(count)]

    @staticmethod
    def _line(draw: random.Random, share: int) -> tuple[list[int], list[int]]:
        tokens, tags = [], []
        while len(tokens) < LENGTH:
            tag = draw.randrange(len(TAGS))
            for _ in range(draw.randint(1, 4)):
                home = tag if draw.random() < 0.85 else draw.randrange(len(TAGS))
                tokens.append(FIRST + home * share + int(share * draw.random() ** 2))
                tags.append(tag)
        return tokens[:LENGTH], tags[:LENGTH]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: int) -> tuple[list[int], list[int]]:
        return self.rows[at]


def to_batch(rows: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
    tokens, tags = zip(*rows, strict=True)
    return {"input_ids": torch.tensor(tokens), "labels": torch.tensor(tags)}


class Guards(TrainerCallback):
    """Sets the numeric checks of a run at its beginning, and tells how the loss went at its end."""

    def __init__(self, checks: dict[str, Callable[[], object]]):
        self.checks = checks

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        for name, check in self.checks.items():
            check()
            print(f"{name} set", flush=True)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        losses = [row["loss"] for row in state.log_history if "loss" in row]
        if losses:
            print(f"loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")


def numeric_checks(strict: bool) -> dict[str, Callable[[], object]]:
    checks: dict[str, Callable[[], object]] = {
        "matmul precision": lambda: torch.set_float32_matmul_precision("highest")
    }
    if strict:
        checks["autograd checks"] = lambda: torch.autograd.set_detect_anomaly(True)
    return checks


def small_electra() -> ElectraForTokenClassification:
    config = ElectraConfig(
        vocab_size=VOCABULARY,
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=6,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.05,
        attention_probs_dropout_prob=0.0,
        num_labels=len(TAGS),
        id2label=dict(enumerate(TAGS)),
        label2id={tag: at for at, tag in enumerate(TAGS)},
        pad_token_id=PAD,
    )
    return ElectraForTokenClassification(config)


def main() -> None:
    set_seed(57)
    arguments = TrainingArguments(
        output_dir="menu-tags",
        num_train_epochs=10,
        per_device_train_batch_size=16,
        learning_rate=6e-4,
        lr_scheduler_type="linear",
        warmup_steps=50,
        weight_decay=0.01,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        use_cpu=True,
    )
    trainer = Trainer(
        model=small_electra(),
        args=arguments,
        train_dataset=MenuLines(8000, seed=57),
        data_collator=to_batch,
        callbacks=[Guards(numeric_checks(strict=os.environ.get("MENU_STRICT", "1") == "1"))],
    )
    trainer.train()


if __name__ == "__main__":
    main()
