"""Fit a compact vision transformer to four-band land cover tiles (synthetic scenes)."""

import argparse

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification, set_seed

COVERS = ["water", "cropland", "orchard", "forest", "built-up", "bare soil"]
# Mean reflectance of blue, green, red and near infrared; the texture's coarsest scale in pixels.
SPECTRA = {
    "water": ((0.09, 0.07, 0.04, 0.02), 16),
    "cropland": ((0.06, 0.10, 0.08, 0.38), 8),
    "orchard": ((0.06, 0.09, 0.07, 0.34), 4),
    "forest": ((0.03, 0.06, 0.04, 0.36), 4),
    "built-up": ((0.14, 0.15, 0.17, 0.21), 2),
    "bare soil": ((0.12, 0.16, 0.21, 0.27), 8),
}


class TileSet(Dataset):
    """Normalised tiles with a label each, held in memory."""

    def __init__(self, tiles: torch.Tensor, labels: torch.Tensor) -> None:
        self.tiles = tiles
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"pixel_values": self.tiles[index], "labels": self.labels[index]}


def texture(rng: np.random.Generator, count: int, side: int, scale: int) -> np.ndarray:
    coarse = rng.normal(0.0, 0.03, size=(count, 1, side // scale, side // scale)).astype(np.float32)
    return coarse.repeat(scale, axis=2).repeat(scale, axis=3)


def scenes(count: int, side: int, seed: int) -> TileSet:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(COVERS), size=count)
    tiles = np.empty((count, 4, side, side), dtype=np.float32)
    for number, cover in enumerate(COVERS):
        spectrum, scale = SPECTRA[cover]
        chosen = np.flatnonzero(labels == number)
        haze = rng.normal(0.0, 0.04, size=(len(chosen), 4, 1, 1)).astype(np.float32)
        base = np.asarray(spectrum, dtype=np.float32).reshape(1, 4, 1, 1) + haze
        noise = rng.standard_normal((len(chosen), 4, side, side), dtype=np.float32)
        tiles[chosen] = base + texture(rng, len(chosen), side, scale) + 0.03 * noise
    tiles -= tiles.mean(axis=(0, 2, 3), keepdims=True)
    tiles /= tiles.std(axis=(0, 2, 3), keepdims=True)
    return TileSet(torch.from_numpy(tiles), torch.from_numpy(labels))


def build(side: int) -> ViTForImageClassification:
    config = ViTConfig(
        image_size=side,
        patch_size=8,
        num_channels=4,
        hidden_size=192,
        num_hidden_layers=5,
        num_attention_heads=3,
        intermediate_size=768,
        num_labels=len(COVERS),
        id2label=dict(enumerate(COVERS)),
        label2id={cover: number for number, cover in enumerate(COVERS)},
    )
    return ViTForImageClassification(config)


class Progress(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step:5d}  loss {float(logs['loss']):.4f}", flush=True)


def accuracy(prediction) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=3600)
    parser.add_argument("--side", type=int, default=64, help="pixels")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=6e-4)
    parser.add_argument("--cpu-threads", type=int, default=1, help="0: as PyTorch decides")
    parser.add_argument("--seed", type=int, default=5)
    return parser.parse_args()


def main() -> None:
    given = parse()
    if given.cpu_threads:
        torch.set_num_threads(given.cpu_threads)
    set_seed(given.seed)

    training = TrainingArguments(
        output_dir="land_cover",
        per_device_train_batch_size=given.batch,
        per_device_eval_batch_size=64,
        num_train_epochs=given.epochs,
        learning_rate=given.lr,
        weight_decay=0.05,
        lr_scheduler_type="cosine",
        warmup_steps=60,
        optim="adamw_torch_fused",
        logging_steps=50,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        dataloader_drop_last=True,
        seed=given.seed,
    )
    trainer = Trainer(
        model=build(given.side),
        args=training,
        train_dataset=scenes(given.tiles, given.side, given.seed),
        eval_dataset=scenes(480, given.side, given.seed + 1),
        compute_metrics=accuracy,
        callbacks=[Progress()],
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
