"""Hand gestures from sequences of accelerometer readings: a small transformer encoder under the HF Trainer."""

import argparse
import json
import sys

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import BertConfig, BertModel, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

CONFIG = json.loads("""
{
  "data": {"recordings": 6000, "readings": 48, "axes": 6, "gestures": 12, "noise": 0.7, "seed": 41},
  "model": {"width": 96, "layers": 3, "heads": 4, "dropout": 0.1},
  "arguments": {
    "per_device_train_batch_size": 24,
    "learning_rate": 4e-4,
    "weight_decay": 0.02,
    "warmup_steps": 60,
    "lr_scheduler_type": "cosine",
    "num_train_epochs": 16,
    "logging_steps": 50,
    "optim": "adamw_torch_fused",
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": true,
    "dataloader_pin_memory": false,
    "use_cpu": true
  },
  "measurements": {"skip_memory_metrics": false, "include_num_input_tokens_seen": "no"}
}
""")


class Recordings(Dataset):
    """Synthetic movements: each gesture is a mix of two oscillations with its own axes and phases."""

    def __init__(self, recordings: int, readings: int, axes: int, gestures: int, noise: float, seed: int):
        draw = np.random.default_rng(seed)
        labels = draw.integers(gestures, size=recordings)
        rates = draw.uniform(0.1, 0.9, size=(gestures, 2))
        gains = draw.normal(size=(gestures, 2, axes))
        when = np.arange(readings)[None, :] + draw.uniform(0, 3, size=(recordings, 1))
        waves = np.sin(when[:, :, None] * rates[labels][:, None, :])
        movement = np.einsum("ntk,nka->nta", waves, gains[labels])
        movement += draw.normal(scale=noise, size=movement.shape)
        self.movement = torch.from_numpy(movement.astype(np.float32))
        self.labels = torch.from_numpy(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.movement[at], self.labels[at]


def stacked(rows: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    movement, labels = zip(*rows, strict=True)
    return {"movement": torch.stack(movement), "labels": torch.stack(labels)}


class GestureModel(nn.Module):
    def __init__(self, axes: int, readings: int, gestures: int, width: int, layers: int, heads: int, dropout: float):
        super().__init__()
        config = BertConfig(
            vocab_size=2,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=2 * width,
            max_position_embeddings=readings,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=0.0,
        )
        self.lift = nn.Linear(axes, width)
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(width, gestures)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, movement: torch.Tensor, labels: torch.Tensor) -> SequenceClassifierOutput:
        hidden = self.encoder(inputs_embeds=self.lift(movement)).last_hidden_state
        logits = self.head(hidden.mean(dim=1))
        return SequenceClassifierOutput(loss=self.loss(logits, labels), logits=logits)


def trainer_arguments(config: dict, output: str, epochs: int | None) -> TrainingArguments:
    values = {**config["arguments"], **config["measurements"]}
    if epochs is not None:
        values["num_train_epochs"] = epochs
    return TrainingArguments(output_dir=output, seed=config["data"]["seed"], **values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", help="JSON file in place of the built-in one")
    parser.add_argument("--output", default="gestures")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    config = CONFIG
    if options.config:
        with open(options.config, encoding="utf-8") as file:
            config = json.load(file)

    data = config["data"]
    arguments = trainer_arguments(config, options.output, options.epochs)
    model = GestureModel(data["axes"], data["readings"], data["gestures"], **config["model"])
    trainer = Trainer(model=model, args=arguments, train_dataset=Recordings(**data), data_collator=stacked)
    result = trainer.train()
    trainer.log_metrics("train", result.metrics)
    return 0


if __name__ == "__main__":
    sys.exit(main())
