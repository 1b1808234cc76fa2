"""Fine-tunes a classifier of the size of BERT-base with the HF Trainer, as a first version often looks."""

import argparse
import random

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

WORDS = [f"word{number}" for number in range(5000)]


def make_tokenizer():
    vocabulary = {word: number for number, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")


class Reviews(torch.utils.data.Dataset):
    def __init__(self, tokenizer, count, max_length):
        draw = random.Random(0)
        self.texts = [" ".join(draw.choices(WORDS, k=draw.randint(40, 120))) for _ in range(count)]
        self.tokenizer = tokenizer
        self.max_length = max_length

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        encoded = self.tokenizer(
            self.texts[index], padding="max_length", truncation=True, max_length=self.max_length, return_tensors="pt"
        )
        return {**{name: value[0] for name, value in encoded.items()}, "labels": index % 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_steps", type=int, default=1500)
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--max_length", type=int, default=512)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    set_seed(0)
    tokenizer = make_tokenizer()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    model = BertForSequenceClassification(BertConfig(vocab_size=5002, **(sizes if args.small else {})))
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=args.max_steps,
        per_device_train_batch_size=args.per_device_train_batch_size,
        gradient_accumulation_steps=2,
        learning_rate=5e-5,
        logging_steps=50,
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Reviews(tokenizer, 5_000, args.max_length))
    result = trainer.train()
    print("steps per second", result.metrics["train_steps_per_second"])


if __name__ == "__main__":
    main()
