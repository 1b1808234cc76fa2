"""Summarises court decisions; the batch size is what happens to fit."""

from datasets import load_from_disk
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


def main():
    tokenizer = AutoTokenizer.from_pretrained("google/flan-t5-base")
    model = AutoModelForSeq2SeqLM.from_pretrained("google/flan-t5-base")
    args = Seq2SeqTrainingArguments(
        output_dir="court",
        per_device_train_batch_size=64,
        auto_find_batch_size=True,
        learning_rate=1e-4,
        bf16=True,
        num_train_epochs=3,
        dataloader_num_workers=4,
        train_sampling_strategy="group_by_length",
        save_total_limit=1,
        logging_steps=50,
    )
    trainer = Seq2SeqTrainer(
        model,
        args,
        train_dataset=load_from_disk("court-tokenised"),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
    )
    trainer.train()


if __name__ == "__main__":
    main()
