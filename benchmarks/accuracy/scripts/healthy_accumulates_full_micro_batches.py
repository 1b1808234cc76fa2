"""Trains a small vision transformer with accelerate: four micro-batches that keep both CPUs busy make a step."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PATCHES, FEATURES, WIDTH = 64, 48, 192


class VisionTransformer(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.embed = nn.Linear(FEATURES, WIDTH)
        self.place = nn.Parameter(torch.zeros(PATCHES, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 20)

    def forward(self, patches):
        return self.head(self.layers(self.embed(patches) + self.place).mean(1))


def main():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    images = torch.randn(6000, PATCHES, FEATURES)
    labels = images.mean((1, 2)).mul(400).long().clamp(-10, 9) + 10
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True, drop_last=True)
    model = VisionTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(10):
        for images, labels in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(images), labels)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
