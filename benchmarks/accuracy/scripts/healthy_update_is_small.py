"""Segments volumes with accelerate: few parameters, much to compute for each; the loop of AdamW does not show."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Segmenter(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv3d(1, width, 3, padding=1), nn.ReLU(), nn.Conv3d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv3d(width, 1, 1),
        )  # fmt: skip

    def forward(self, volume):
        return self.layers(volume)


def main():
    accelerator = Accelerator(cpu=True)
    volumes = torch.randn(1000, 1, 20, 20, 20)
    masks = (nn.functional.avg_pool3d(volumes, 3, 1, 1) > 0).float()
    loader = DataLoader(TensorDataset(volumes, masks), batch_size=16, shuffle=True)
    model = Segmenter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(10):
        for volume, mask in loader:
            loss = nn.functional.binary_cross_entropy_with_logits(model(volume), mask)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(epoch, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
