"""Say which of 12 organisms a sequencing read comes from: a DistilBERT on the bases of trimmed 150 bp reads."""

import numpy as np
from datasets import Dataset
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from transformers import (
    DataCollatorWithPadding,
    DistilBertConfig,
    DistilBertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

BASES = "ACGT"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

config = {
    "organisms": 12,
    "genome": 40_000,
    "reads": 9600,
    "cycles": 150,
    "trimmed_share": 0.15,
    "longest_trim": 24,
    "batch": 24,
    "lr": 5e-4,
    "epochs": 10,
    "seed": 41,
}


def genomes(rng: np.random.Generator) -> list[str]:
    """Genomes that differ in base composition and in the motifs that they repeat."""
    made = []
    for _ in range(config["organisms"]):
        composition = rng.dirichlet([12, 12, 12, 12])
        bases = rng.choice(list(BASES), size=config["genome"], p=composition)
        motif = rng.choice(list(BASES), size=9)
        for start in rng.integers(0, config["genome"] - 9, size=900):
            bases[start : start + 9] = motif
        made.append("".join(bases))
    return made


def sequence_reads(rng: np.random.Generator) -> Dataset:
    """Reads of `cycles` bases; the adapter is trimmed off the end of some of them."""
    organisms = genomes(rng)
    origins = rng.integers(0, len(organisms), size=config["reads"])
    starts = rng.integers(0, config["genome"] - config["cycles"], size=config["reads"])
    is_trimmed = rng.random(config["reads"]) < config["trimmed_share"]
    trims = np.where(is_trimmed, rng.integers(1, config["longest_trim"] + 1, size=config["reads"]), 0)
    reads = [
        organisms[origin][start : start + config["cycles"] - trim]
        for origin, start, trim in zip(origins, starts, trims, strict=True)
    ]
    return Dataset.from_dict({"read": reads, "label": origins.tolist()})


def base_tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *BASES, "N"])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "attention_mask"],
    )


def encoded(reads: Dataset, tokenizer: PreTrainedTokenizerFast) -> Dataset:
    width = config["cycles"] + 2

    def encode(rows: dict) -> dict:
        return tokenizer(rows["read"], padding="max_length", truncation=True, max_length=width)

    return reads.map(encode, batched=True, remove_columns=["read"])


def classifier(tokenizer: PreTrainedTokenizerFast) -> DistilBertForSequenceClassification:
    return DistilBertForSequenceClassification(
        DistilBertConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=160,
            dim=128,
            hidden_dim=384,
            n_layers=3,
            n_heads=4,
            pad_token_id=tokenizer.pad_token_id,
            num_labels=config["organisms"],
        )
    )


def main() -> None:
    set_seed(config["seed"])
    tokenizer = base_tokenizer()
    reads = encoded(sequence_reads(np.random.default_rng(config["seed"])), tokenizer)
    arguments = TrainingArguments(
        output_dir="read-origin",
        per_device_train_batch_size=config["batch"],
        num_train_epochs=config["epochs"],
        learning_rate=config["lr"],
        warmup_steps=100,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=classifier(tokenizer),
        args=arguments,
        train_dataset=reads,
        data_collator=DataCollatorWithPadding(tokenizer),
        processing_class=tokenizer,
    )
    trainer.train()


if __name__ == "__main__":
    main()
