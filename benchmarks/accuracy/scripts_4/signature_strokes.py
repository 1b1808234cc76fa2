"""Contrastive embedding of signature strokes, with Accelerate."""

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "loader": {"batch_size": 24, "shuffle": True, "num_workers": 2, "drop_last": True},
    "pairs": 144,
    "points": 256,
    "epochs": 400,
    "temperature": 0.2,
}


class SignaturePairs(Dataset):
    """Two distorted views of one signature, drawn anew at each visit."""

    def __init__(self, count, points):
        self.strokes = np.random.default_rng(8).normal(size=(count, points, 2)).cumsum(1)

    def __len__(self):
        return len(self.strokes)

    def view(self, stroke):
        rng = np.random.default_rng(int(torch.randint(2**31, ())))
        angle = rng.normal(0, 0.2)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        moved = stroke @ turn * rng.uniform(0.8, 1.2) + rng.normal(0, 0.3, stroke.shape)
        image, _, _ = np.histogram2d(moved[:, 0], moved[:, 1], bins=40)
        return torch.from_numpy(np.log1p(image).astype(np.float32))

    def __getitem__(self, index):
        return self.view(self.strokes[index]), self.view(self.strokes[index])


def main():
    torch.manual_seed(8)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(SignaturePairs(CONFIG["pairs"], CONFIG["points"]), **CONFIG["loader"])
    model = nn.Sequential(nn.Flatten(), nn.Linear(1600, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(CONFIG["epochs"]):
        for left, right in loader:
            a, b = F.normalize(model(left), dim=-1), F.normalize(model(right), dim=-1)
            loss = F.cross_entropy(a @ b.T / CONFIG["temperature"], torch.arange(len(a)))
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        if epoch % 20 == 0:
            accelerator.print(f"epoch {epoch} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
