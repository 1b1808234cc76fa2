"""Corrects typing errors in part descriptions: a small ELECTRA says for each character what to do with it."""

import random
import string

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import ElectraConfig, ElectraForTokenClassification, Trainer, TrainingArguments, set_seed

ALPHABET = string.ascii_lowercase + string.digits + " -./"
NUMBER = {character: number for number, character in enumerate(ALPHABET, start=1)}
KEEP, DELETE = 0, 1
REPLACE = 2
INSERT = REPLACE + len(ALPHABET)
ACTIONS = INSERT + len(ALPHABET)

KEYBOARD = ["1234567890", "qwertyuiop", "asdfghjkl", "zxcvbnm"]
NEIGHBOURS = {
    key: row[max(column - 1, 0) : column] + row[column + 1 : column + 2]
    for row in KEYBOARD
    for column, key in enumerate(row)
}

PARTS = "bolt washer bearing bracket flange gasket spring rotor clamp sleeve coupling bushing spindle".split()
MATERIALS = "steel brass nylon copper titanium bronze aluminium stainless galvanized hardened".split()
SHAPES = "hex round flat countersunk slotted threaded tapered flanged left-hand right-hand".split()


def description(dice: random.Random) -> str:
    words = []
    while sum(map(len, words)) < 108:
        size = f"m{dice.randint(2, 36)}-{dice.randint(6, 240)}/{dice.choice(['8.8', '10.9', '12.9'])}"
        words += [dice.choice(MATERIALS), dice.choice(SHAPES), dice.choice(PARTS), size]
    return " ".join(words)


def mistyped(text: str, rate: float, dice: random.Random) -> str:
    """The text with slips to neighbouring keys, doubled, missed and swapped characters."""
    typed = []
    for character in text:
        if dice.random() >= rate:
            typed.append(character)
            continue
        error = dice.choice(["near", "double", "miss", "swap"])
        if error == "near":
            typed.append(dice.choice(NEIGHBOURS.get(character, ALPHABET)))
        elif error == "double":
            typed += [character, character]
        elif error == "swap" and typed:
            typed.insert(-1, character)
    return "".join(typed)


def slip(typed: str, meant: str) -> float:
    if typed == meant:
        return 0.0
    return 0.5 if meant in NEIGHBOURS.get(typed, "") else 1.0


def actions(typed: str, meant: str) -> list[int]:
    """What to do with each typed character, from the cheapest alignment of the two texts."""
    width = len(meant) + 1
    rows = [[float(j) for j in range(width)]]
    for i, character in enumerate(typed, start=1):
        above, row = rows[-1], [float(i)]
        for j in range(1, width):
            change = above[j - 1] + slip(character, meant[j - 1])
            row.append(min(change, above[j] + 1, row[j - 1] + 1))
        rows.append(row)
    todo = [KEEP] * len(typed)
    i, j, missing = len(typed), len(meant), None
    while i > 0:
        if j > 0 and rows[i][j] == rows[i - 1][j - 1] + slip(typed[i - 1], meant[j - 1]):
            if typed[i - 1] != meant[j - 1]:
                todo[i - 1] = REPLACE + NUMBER[meant[j - 1]] - 1
            elif missing is not None:
                todo[i - 1] = INSERT + NUMBER[missing] - 1
            i, j, missing = i - 1, j - 1, None
        elif rows[i][j] == rows[i - 1][j] + 1:
            todo[i - 1] = DELETE
            i -= 1
        else:
            j -= 1
            missing = meant[j]
    return todo


class Mistyped(Dataset):
    """Windows of clean descriptions, typed anew with other errors whenever they are asked for."""

    def __init__(self, texts: list[str], length: int, rate: float):
        self.texts, self.length, self.rate = texts, length, rate

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        dice = random.Random(torch.randint(2**62, ()).item())
        typed = ""
        while len(typed) < self.length:
            typed = mistyped(self.texts[index], self.rate, dice)
        todo = actions(typed, self.texts[index])[: self.length]
        numbers = np.array([NUMBER[character] for character in typed[: self.length]])
        return {"input_ids": torch.from_numpy(numbers), "labels": torch.tensor(todo)}


def small_electra(length: int) -> ElectraForTokenClassification:
    config = ElectraConfig(
        vocab_size=len(ALPHABET) + 1,
        embedding_size=48,
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=96,
        max_position_embeddings=length,
        num_labels=ACTIONS,
    )
    return ElectraForTokenClassification(config)


def main() -> None:
    set_seed(31)
    length = 112
    dice = random.Random(8)
    texts = [description(dice) for _ in range(6400)]
    arguments = TrainingArguments(
        output_dir="typo_tagger",
        per_device_train_batch_size=16,
        num_train_epochs=5,
        learning_rate=1e-3,
        warmup_steps=100,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_num_workers=1,
        dataloader_persistent_workers=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model=small_electra(length),
        args=arguments,
        train_dataset=Mistyped(texts, length, rate=0.08),
    )
    trainer.train()


if __name__ == "__main__":
    main()
