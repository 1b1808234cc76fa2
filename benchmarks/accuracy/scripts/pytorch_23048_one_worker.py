# Trains a small autoencoder on frames that are fetched from the video server one by one.
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __len__(self):
        return 8000

    def __getitem__(self, i):
        time.sleep(0.004)  # round trip to the server
        g = torch.Generator().manual_seed(i)
        return torch.rand(1, 48, 48, generator=g)


class AutoEncoder(nn.Module):
    def __init__(self, hidden=512, code=64):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(48 * 48, hidden), nn.ReLU(), nn.Linear(hidden, code))
        self.decode = nn.Sequential(nn.Linear(code, hidden), nn.ReLU(), nn.Linear(hidden, 48 * 48), nn.Sigmoid())

    def forward(self, x):
        return self.decode(self.encode(x)).view_as(x)


def train():
    loader = DataLoader(Frames(), batch_size=16, shuffle=True, num_workers=1, drop_last=True)
    model = AutoEncoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(2):
        running = 0.0
        for i, x in enumerate(loader, 1):
            opt.zero_grad()
            loss = nn.functional.mse_loss(model(x), x)
            loss.backward()
            opt.step()
            if i % 20 == 0:
                running = 0.9 * running + 0.1 * loss.item()
                print(f"[{epoch}:{i}] {running:.5f}")


if __name__ == "__main__":
    train()
