"""Forecasts traffic with a GRU. The validation curve should look smooth in the paper."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HISTORY, SENSORS = 48, 32
EVAL_EVERY = 5


class Forecaster(nn.Module):
    def __init__(self, hidden=96):
        super().__init__()
        self.gru = nn.GRU(SENSORS, hidden, batch_first=True)
        self.out = nn.Linear(hidden, SENSORS)

    def forward(self, history):
        return self.out(self.gru(history)[0][:, -1])


def series(count, seed):
    draw = torch.Generator().manual_seed(seed)
    flow = torch.randn(count, HISTORY + 1, SENSORS, generator=draw).cumsum(1) / 7
    return TensorDataset(flow[:, :-1], flow[:, -1])


@torch.no_grad()
def validate(model, loader):
    model.eval()
    losses = [nn.functional.mse_loss(model(history), following) for history, following in loader]
    model.train()
    return torch.stack(losses).mean().item()


def main():
    train_loader = DataLoader(series(12_000, 0), batch_size=128, shuffle=True)
    val_loader = DataLoader(series(1500, 1), batch_size=250)
    model = Forecaster()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    curve, step = [], 0
    for _ in range(20):
        for history, following in train_loader:
            loss = nn.functional.mse_loss(model(history), following)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % EVAL_EVERY == 0:
                curve.append(validate(model, val_loader))
                print(f"step {step}: validation {curve[-1]:.4f}")


if __name__ == "__main__":
    main()
