"""Continues the pretraining of a Qwen model on notes of the help desk."""

from datasets import load_from_disk
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments, default_data_collator

NAME = "Qwen/Qwen3-0.6B"


def main():
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    model = AutoModelForCausalLM.from_pretrained(NAME, attn_implementation="eager")
    blocks = load_from_disk("notes-tokenised-2048")
    args = TrainingArguments(
        output_dir="qwen-notes",
        per_device_train_batch_size=8,
        num_train_epochs=1,
        learning_rate=1e-5,
        bf16=True,
        dataloader_num_workers=4,
        save_total_limit=2,
        logging_steps=20,
    )
    trainer = Trainer(
        model, args, train_dataset=blocks, data_collator=default_data_collator, processing_class=tokenizer
    )
    trainer.train()


if __name__ == "__main__":
    main()
