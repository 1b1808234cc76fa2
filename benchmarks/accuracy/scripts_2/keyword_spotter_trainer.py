"""Keyword spotting with a plain nn.Module under the Hugging Face Trainer."""
import torch
import torch.nn.functional as F
from torch import nn
from transformers import Trainer, TrainingArguments

KEYWORDS = 12
SAMPLES = 8000


class Snippets(torch.utils.data.Dataset):
    """One second of 8 kHz audio per item, held as one tensor."""

    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        t = torch.arange(SAMPLES) / SAMPLES
        self.labels = torch.randint(KEYWORDS, (count,), generator=g)
        pitch = 200 + 90 * self.labels[:, None] + 40 * torch.rand(count, 1, generator=g)
        self.audio = torch.sin(2 * torch.pi * pitch * t) + 0.7 * torch.randn(count, SAMPLES, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"audio": self.audio[index], "labels": self.labels[index]}


class M5(nn.Module):
    """After Dai et al. 2016, wider than the original."""

    def __init__(self, width=64):
        super().__init__()

        def block(cin, cout, kernel, stride=1):
            return nn.Sequential(
                nn.Conv1d(cin, cout, kernel, stride), nn.BatchNorm1d(cout), nn.ReLU(), nn.MaxPool1d(4)
            )

        self.features = nn.Sequential(
            block(1, width, 80, 4), block(width, width, 3), block(width, 2 * width, 3), block(2 * width, 4 * width, 3)
        )
        self.classifier = nn.Linear(4 * width, KEYWORDS)

    def forward(self, audio, labels=None):
        logits = self.classifier(self.features(audio[:, None]).mean(-1))
        loss = F.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


training_args = TrainingArguments(
    output_dir="kws",
    per_device_train_batch_size=64,
    per_device_eval_batch_size=128,
    num_train_epochs=12,
    learning_rate=1e-3,
    optim="adamw_torch_fused",
    logging_strategy="steps",
    logging_steps=1,
    eval_strategy="steps",
    eval_steps=300,
    save_strategy="steps",
    save_steps=300,
    save_total_limit=2,
    report_to="none",
    seed=5,
)

if __name__ == "__main__":
    torch.manual_seed(5)
    trainer = Trainer(
        model=M5(),
        args=training_args,
        train_dataset=Snippets(4096, seed=0),
        eval_dataset=Snippets(384, seed=1),
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())
