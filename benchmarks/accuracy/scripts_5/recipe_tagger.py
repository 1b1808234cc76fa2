"""Tag the tokens of recipe steps (ingredient, amount, tool, action, ...) with a small BERT."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForTokenClassification,
    EvalPrediction,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

TAGS = ("other", "ingredient", "amount", "unit", "tool", "action", "time", "heat")


@dataclass
class Corpus:
    """How the recipe steps are made."""

    vocabulary: int = 3000
    tokens: int = 48
    training: int = 9600
    held_out: int = 512
    confusion: float = 0.08


@dataclass
class Plan:
    """How the tagger is trained."""

    batch: int = 32
    epochs: int = 12
    evaluate_every: int = 300
    lr: float = 4e-4
    corpus: Corpus = field(default_factory=Corpus)


class Steps(Dataset):
    """Recipe steps with one tag a token; all cut into pieces of the same number of tokens."""

    def __init__(self, tokens: torch.Tensor, tags: torch.Tensor) -> None:
        self.tokens, self.tags = tokens, tags
        self.mask = torch.ones_like(tokens[0])

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index], "attention_mask": self.mask, "labels": self.tags[index]}


def cook(corpus: Corpus, count: int, home: torch.Tensor, generator: torch.Generator) -> Steps:
    """Tokens whose tag depends on the word, and for an ambiguous word on the one before it."""
    shape = (count, corpus.tokens)
    tokens = torch.randint(5, corpus.vocabulary, shape, generator=generator)
    tags = home[tokens]
    ambiguous = tokens % 5 == 0
    before = torch.roll(tags, shifts=1, dims=1)
    tags = torch.where(ambiguous, (tags + before) % len(TAGS), tags)
    wrong = torch.rand(shape, generator=generator) < corpus.confusion
    return Steps(tokens, torch.where(wrong, torch.randint(0, len(TAGS), shape, generator=generator), tags))


def datasets_of(corpus: Corpus) -> tuple[Steps, Steps]:
    generator = torch.Generator().manual_seed(17)
    home = torch.randint(0, len(TAGS), (corpus.vocabulary,), generator=generator)
    return cook(corpus, corpus.training, home, generator), cook(corpus, corpus.held_out, home, generator)


def best_tags(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return logits.argmax(dim=-1)


def scores(prediction: EvalPrediction) -> dict[str, float]:
    """Token accuracy, and the F1 of each tag averaged."""
    found, right = prediction.predictions, prediction.label_ids
    table = np.bincount((right * len(TAGS) + found).ravel(), minlength=len(TAGS) ** 2)
    table = table.reshape(len(TAGS), len(TAGS))
    f1 = 2 * table.diagonal() / np.maximum(1, table.sum(axis=0) + table.sum(axis=1))
    return {"accuracy": table.trace() / table.sum(), "macro_f1": float(f1.mean())}


def tagger(corpus: Corpus) -> BertForTokenClassification:
    config = BertConfig(
        vocab_size=corpus.vocabulary,
        hidden_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=384,
        max_position_embeddings=64,
        num_labels=len(TAGS),
        id2label=dict(enumerate(TAGS)),
        label2id={tag: number for number, tag in enumerate(TAGS)},
    )
    return BertForTokenClassification(config)


def arguments_of(plan: Plan) -> TrainingArguments:
    return TrainingArguments(
        output_dir="recipe-tagger",
        per_device_train_batch_size=plan.batch,
        per_device_eval_batch_size=4 * plan.batch,
        num_train_epochs=plan.epochs,
        learning_rate=plan.lr,
        lr_scheduler_type="cosine",
        warmup_steps=100,
        optim="adamw_torch_fused",
        eval_strategy="steps",
        eval_steps=plan.evaluate_every,
        save_strategy="no",
        logging_steps=50,
        report_to="none",
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )


def main() -> None:
    set_seed(17)
    plan = Plan()
    training, held_out = datasets_of(plan.corpus)
    trainer = Trainer(
        model=tagger(plan.corpus),
        args=arguments_of(plan),
        train_dataset=training,
        eval_dataset=held_out,
        data_collator=default_data_collator,
        compute_metrics=scores,
        preprocess_logits_for_metrics=best_tags,
    )
    trainer.train()


if __name__ == "__main__":
    main()
