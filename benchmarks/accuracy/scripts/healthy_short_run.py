"""A smoke test of the training code: forty steps, as the pull request check runs it."""

import torch
from torch import nn

STEPS, BATCH, LENGTH, WIDTH = 40, 16, 64, 128


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.feed = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, hidden):
        normal = self.norm(hidden)
        hidden = hidden + self.attend(normal, normal, normal, need_weights=False)[0]
        return hidden + self.feed(hidden)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(256, WIDTH), Block(), Block(), Block(), nn.Linear(WIDTH, 256))
    train = model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    first = None
    for _ in range(STEPS):
        tokens = torch.randint(256, (BATCH, LENGTH))
        loss = nn.functional.cross_entropy(train(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        first = loss.detach() if first is None else first
    print(f"loss {first.item():.3f} -> {loss.item():.3f}")
    assert loss < first


if __name__ == "__main__":
    main()
