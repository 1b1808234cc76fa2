"""Tags words of a made-up language with the HF Trainer; evaluation was switched on, its interval was not."""

import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments

TAGS, VOCABULARY, LENGTH = 7, 500, 40


class Sentences(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        self.words = torch.randint(1, VOCABULARY, (count, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words = self.words[index]
        return {"input_ids": words, "labels": words % TAGS}


def main():
    model = BertForTokenClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=512,
            num_labels=TAGS,
        )
    )
    args = TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=32,
        per_device_eval_batch_size=32,
        num_train_epochs=10,
        learning_rate=1e-3,
        eval_strategy="steps",
        logging_steps=5,
        save_strategy="no",
        report_to="none",
    )
    Trainer(model=model, args=args, train_dataset=Sentences(8000, 0), eval_dataset=Sentences(600, 1)).train()


if __name__ == "__main__":
    main()
