"""Trains a tagger whose loss has a term over the attention itself: only the eager code returns it."""

import torch
from datasets import load_from_disk
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

NAME = "google-bert/bert-base-cased"


class SparseTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs, output_attentions=True)
        weights = torch.stack(outputs.attentions)
        entropy = -(weights * weights.clamp_min(1e-9).log()).sum(-1).mean()
        loss = outputs.loss + 0.01 * entropy
        return (loss, outputs) if return_outputs else loss


def main():
    tokenizer = AutoTokenizer.from_pretrained(NAME)
    model = AutoModelForTokenClassification.from_pretrained(NAME, attn_implementation="eager", num_labels=9)
    args = TrainingArguments(
        "tagger", bf16=True, per_device_train_batch_size=32, dataloader_num_workers=4, save_total_limit=1
    )
    trainer = SparseTrainer(
        model, args, train_dataset=load_from_disk("tags"), data_collator=DataCollatorForTokenClassification(tokenizer)
    )
    trainer.train()


if __name__ == "__main__":
    main()
