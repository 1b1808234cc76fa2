"""Curriculum learning: the loss of each step decides how hard the next batch is, so it has to be read."""

import torch
from torch import nn

BATCH, WIDTH = 64, 256


def make_batch(difficulty):
    length = 16 + int(48 * difficulty)
    symbols = torch.randint(1, 32, (BATCH, length))
    return symbols, symbols.cumsum(1) % 32


class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(32, WIDTH)
        self.memory = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 32)

    def forward(self, symbols):
        return self.head(self.memory(self.embed(symbols))[0])


def main():
    torch.manual_seed(0)
    model = Adder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    difficulty, average = 0.5, None
    for step in range(800):
        symbols, sums = make_batch(difficulty)
        loss = nn.functional.cross_entropy(model(symbols).flatten(0, 1), sums.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        value = loss.item()
        average = value if average is None else 0.95 * average + 0.05 * value
        difficulty = min(1.0, max(0.4, difficulty + (0.001 if value < average else -0.001)))
        if step % 50 == 0:
            print(f"step {step}: loss {average:.3f}, difficulty {difficulty:.2f}")


if __name__ == "__main__":
    main()
