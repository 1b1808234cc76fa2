"""Spam / no spam on fixed windows of a mail corpus, HF Trainer.

Mails are concatenated and cut in windows of exactly WINDOW tokens; the label belongs to the thread.
"""
import random
from dataclasses import dataclass

import datasets
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    DataCollatorWithPadding,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

WINDOW = 96
WORDS = [f"w{i}" for i in range(900)]
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2}


@dataclass
class Recipe:
    threads: int = 220
    words_per_thread: int = 2400
    batch_size: int = 16
    epochs: float = 4.0
    seed: int = 17


def build_tokenizer():
    vocab = SPECIAL | {w: i for i, w in enumerate(WORDS, len(SPECIAL))}
    raw = Tokenizer(WordLevel(vocab, unk_token="[UNK]"))
    raw.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]")


def mail_threads(recipe):
    rng = random.Random(recipe.seed)
    for n in range(recipe.threads):
        spam = n % 2
        weights = [3 if (i % 2 == spam) else 1 for i in range(len(WORDS))]
        yield {"text": " ".join(rng.choices(WORDS, weights, k=recipe.words_per_thread)), "label": spam}


def into_windows(rows, tokenizer):
    ids, labels = [], []
    for text, label in zip(rows["text"], rows["label"]):
        tokens = tokenizer(text, verbose=False)["input_ids"]
        body = WINDOW - 1
        for start in range(0, len(tokens) - body + 1, body):
            ids.append([tokenizer.cls_token_id] + tokens[start : start + body])
            labels.append(label)
    return {"input_ids": ids, "label": labels}


def main(recipe=Recipe()):
    set_seed(recipe.seed)
    tokenizer = build_tokenizer()
    mails = datasets.Dataset.from_list(list(mail_threads(recipe)))
    windows = mails.map(into_windows, batched=True, remove_columns=["text", "label"], fn_kwargs={"tokenizer": tokenizer})
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dim=256, hidden_dim=1024, n_layers=2, n_heads=4, max_position_embeddings=WINDOW
    )
    trainer = Trainer(
        model=DistilBertForSequenceClassification(config),
        args=TrainingArguments(
            output_dir="spam",
            per_device_train_batch_size=recipe.batch_size,
            num_train_epochs=recipe.epochs,
            learning_rate=2e-4,
            optim="adamw_torch_fused",
            logging_steps=25,
            save_steps=400,
            save_total_limit=1,
            report_to="none",
            seed=recipe.seed,
        ),
        train_dataset=windows,
        data_collator=DataCollatorWithPadding(tokenizer, padding="max_length", max_length=WINDOW),
    )
    trainer.train()


if __name__ == "__main__":
    main()
