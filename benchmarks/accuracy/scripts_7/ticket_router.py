"""Fine-tune a small encoder from scratch to route support tickets to the team that answers them."""

import random

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    set_seed,
)

TEAMS = {
    "billing": "invoice refund charge card receipt discount renewal price currency statement overdue duplicate",
    "network": "router latency packet dropout modem cable signal outage roaming tower bandwidth firmware",
    "account": "password login profile email verification locked username recovery token session identity consent",
    "delivery": "parcel courier tracking address delayed damaged depot pickup signature warehouse label customs",
    "devices": "screen battery charger keyboard camera speaker overheating button warranty replacement hinge adapter",
}
GENERAL = (
    "hello please since yesterday the my again still customer asked about problem with number after before update "
    "called twice support nobody answered could you look into this because it has been going on for weeks and now "
    "we need an answer soon thank kind regards order app website message error shows when trying to open page"
).split()
MAX_TOKENS = 96


def write_tickets(count, seed):
    rng = random.Random(seed)
    names = list(TEAMS)
    words = {name: text.split() for name, text in TEAMS.items()}
    rows = []
    for _ in range(count):
        label = rng.randrange(len(names))
        length = rng.randint(96, 120)
        body = [rng.choice(words[names[label]] if rng.random() < 0.12 else GENERAL) for _ in range(length)]
        for _ in range(6):
            body[rng.randrange(length)] = rng.choice(words[rng.choice(names)])
        rows.append({"text": " ".join(body), "label": label})
    return rows


def build_tokenizer(texts):
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    core.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=800, special_tokens=special, show_progress=False)
    )
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(word, core.token_to_id(word)) for word in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=MAX_TOKENS,
    )


class Tickets(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class TicketCollator:
    """Turns a list of tickets into a batch for the model."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def encode(self, texts):
        return self.tokenizer(texts, truncation=True, padding=True, return_token_type_ids=False)

    def __call__(self, rows):
        encoded = self.encode([row["text"] for row in rows])
        return {
            "input_ids": torch.tensor(encoded["input_ids"]),
            "attention_mask": torch.tensor(encoded["attention_mask"]),
            "labels": torch.tensor([row["label"] for row in rows]),
        }


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main():
    set_seed(5)
    train_rows, test_rows = write_tickets(6400, seed=1), write_tickets(320, seed=2)
    tokenizer = build_tokenizer(row["text"] for row in train_rows[:1500])
    collator = TicketCollator(tokenizer)
    train_set, test_set = Tickets(train_rows), Tickets(test_rows)

    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=640,
        max_position_embeddings=MAX_TOKENS,
        num_labels=len(TEAMS),
        pad_token_id=tokenizer.pad_token_id,
    )
    arguments = TrainingArguments(
        output_dir="router",
        per_device_train_batch_size=32,
        per_device_eval_batch_size=64,
        num_train_epochs=6,
        learning_rate=4e-4,
        warmup_steps=60,
        lr_scheduler_type="cosine",
        optim="adamw_torch_fused",
        eval_strategy="no",
        save_strategy="no",
        logging_steps=50,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=train_set,
        eval_dataset=test_set,
        data_collator=collator,
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
