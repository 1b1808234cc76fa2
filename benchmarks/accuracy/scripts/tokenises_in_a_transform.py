"""Sorts support tickets into queues: tiny BERT, tokenised on the fly by the dataset's transform."""

import random

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

WORDS = [a + b + c for a in ("pay", "log", "net", "mail", "disk") for b in ("er", "in", "on", "al") for c in "aeiou"]
QUEUES = 4


def make_tickets(count):
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1800, 2200))) for _ in range(count)]
    return Dataset.from_dict({"text": texts, "label": [n % QUEUES for n in range(count)]})


def make_tokenizer():
    vocabulary = {word: n for n, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")


def main():
    tokenizer = make_tokenizer()

    def tokenise(rows):
        return {**tokenizer(rows["text"], truncation=True, max_length=64), "label": rows["label"]}

    tickets = make_tickets(1500)
    tickets.set_transform(tokenise)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        num_labels=QUEUES,
    )  # fmt: skip
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=16,
        num_train_epochs=5,
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
    )
    model = BertForSequenceClassification(config)
    Trainer(model, args, train_dataset=tickets, data_collator=DataCollatorWithPadding(tokenizer)).train()


if __name__ == "__main__":
    main()
