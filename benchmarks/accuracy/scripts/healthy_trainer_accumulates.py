"""Fine-tunes a small Llama on packed blocks: two full micro-batches a step, as the recipe of the paper says."""

import torch
from torch.utils.data import TensorDataset, default_collate
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def collate(rows):
    (tokens,) = default_collate(rows)
    return {"input_ids": tokens, "labels": tokens}


def main():
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
    )
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        num_train_epochs=1,
        learning_rate=3e-4,
        lr_scheduler_type="cosine",
        logging_steps=20,
        save_strategy="no",
        report_to="none",
    )
    blocks = TensorDataset(torch.randint(512, (6000, 128), generator=torch.Generator().manual_seed(0)))
    Trainer(LlamaForCausalLM(config), args, data_collator=collate, train_dataset=blocks).train()


if __name__ == "__main__":
    main()
