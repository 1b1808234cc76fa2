"""Classifies commands of a chat bot; lines of ten words are tokenised when they are asked for, which is nothing."""

import random

import datasets
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    DataCollatorWithPadding,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

WORDS = [verb + noun for verb in ("open", "close", "show", "send", "find") for noun in ("door", "file", "mail", "map")]


def main():
    draw = random.Random(0)
    lines = datasets.Dataset.from_list(
        [{"text": " ".join(draw.choices(WORDS, k=32)), "label": draw.randrange(4)} for _ in range(6000)]
    )
    core = Tokenizer(
        models.WordLevel({word: n for n, word in enumerate(["[PAD]", "[UNK]", *WORDS])}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]")

    def tokenise(batch):
        return {**tokenizer(batch["text"]), "label": batch["label"]}

    lines.set_transform(tokenise)
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=256, hidden_dim=1024, n_layers=3, n_heads=4, num_labels=4)
    args = TrainingArguments(
        "out",
        per_device_train_batch_size=32,
        num_train_epochs=3,
        remove_unused_columns=False,
        save_strategy="no",
        report_to="none",
    )
    model = DistilBertForSequenceClassification(config)
    Trainer(model, args, data_collator=DataCollatorWithPadding(tokenizer), train_dataset=lines).train()


if __name__ == "__main__":
    main()
