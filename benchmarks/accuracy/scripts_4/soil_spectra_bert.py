"""Pretrains a BERT on quantised infrared spectra of soil samples (masked bands), before the carbon regression."""

import argparse

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments, set_seed

LEVELS = 256
MASK = LEVELS
BANDS = 96

PROFILES = {
    "node": {"per_device_train_batch_size": 16, "gradient_checkpointing": True},
    "smoke": {"per_device_train_batch_size": 4, "max_steps": 3},
}


def simulate(samples: int, seed: int) -> torch.Tensor:
    """Smooth absorbance curves: a few broad peaks and a slope, cut into LEVELS levels."""
    generator = torch.Generator().manual_seed(seed)
    axis = torch.linspace(0, 1, BANDS)
    centre = torch.rand(samples, 6, 1, generator=generator)
    spread = 0.03 + 0.1 * torch.rand(samples, 6, 1, generator=generator)
    height = torch.rand(samples, 6, 1, generator=generator)
    curve = (height * torch.exp(-(((axis - centre) / spread) ** 2))).sum(1)
    curve = curve + axis * torch.rand(samples, 1, generator=generator)
    return (curve / curve.amax() * (LEVELS - 1)).long()


class MaskedSpectra(Dataset):
    def __init__(self, spectra: torch.Tensor, share: float) -> None:
        hidden = torch.rand(spectra.shape) < share
        self.inputs = spectra.masked_fill(hidden, MASK)
        self.labels = spectra.masked_fill(~hidden, -100)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.inputs[index], "labels": self.labels[index]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=6400)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--profile", choices=sorted(PROFILES), default="node")
    parser.add_argument("--seed", type=int, default=23)
    return parser.parse_args()


def main() -> None:
    args = parse()
    set_seed(args.seed)
    config = BertConfig(
        vocab_size=LEVELS + 1,
        hidden_size=args.width,
        num_hidden_layers=args.depth,
        num_attention_heads=args.width // 32,
        intermediate_size=4 * args.width,
        max_position_embeddings=BANDS,
    )
    training = TrainingArguments(
        output_dir="soil_spectra",
        num_train_epochs=3,
        learning_rate=4e-4,
        warmup_steps=50,
        optim="adamw_torch_fused",
        logging_steps=100,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=args.seed,
        dataloader_pin_memory=False,
        **PROFILES[args.profile],
    )
    spectra = MaskedSpectra(simulate(args.samples, args.seed), args.share)
    trainer = Trainer(model=BertForMaskedLM(config), args=training, train_dataset=spectra)
    result = trainer.train()
    print(f"loss {result.training_loss:.3f} after {trainer.state.global_step} steps")


if __name__ == "__main__":
    main()
