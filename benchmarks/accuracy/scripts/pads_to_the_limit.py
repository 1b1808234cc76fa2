"""Rates product reviews with a tiny BERT and the HF Trainer."""

import random

import datasets
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

MAX_LENGTH = 192
WORDS = [first + last for first in ("good", "bad", "slow", "neat", "odd") for last in ("", "ly", "ish", "er", "est")]


def load_reviews(count):
    draw = random.Random(11)
    rows = [(" ".join(draw.choices(WORDS, k=draw.randint(20, 60))), draw.randrange(5)) for _ in range(count)]
    return datasets.Dataset.from_list([{"review": text, "label": stars} for text, stars in rows])


def load_tokenizer():
    ids = {token: n for n, token in enumerate(["[PAD]", "[UNK]", *WORDS])}
    core = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")


def main():
    set_seed(0)
    tokenizer = load_tokenizer()

    def preprocess(batch):
        return tokenizer(batch["review"], padding="max_length", truncation=True, max_length=MAX_LENGTH)

    reviews = load_reviews(4000).map(preprocess, batched=True, remove_columns=["review"])
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=len(tokenizer), hidden_size=128, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=512, num_labels=5,
        )
    )  # fmt: skip
    trainer = Trainer(
        model=model,
        args=TrainingArguments("out", per_device_train_batch_size=16, save_strategy="no", report_to="none"),
        train_dataset=reviews,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()


if __name__ == "__main__":
    main()
