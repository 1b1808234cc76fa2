"""Trains a sentence encoder by contrast; the settings come from a colleague's 8 GB laptop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MICRO_BATCH = 2
ACCUMULATE = 16
LENGTH, VOCABULARY, WIDTH = 24, 2000, 128


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 3)
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, tokens):
        return self.score(self.layers(self.embed(tokens)).mean(1)).squeeze(1)


def main():
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, (20_000, LENGTH))
    targets = (tokens < 50).any(1).float()
    loader = DataLoader(TensorDataset(tokens, targets), batch_size=MICRO_BATCH, shuffle=True, drop_last=True)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    for micro, (x, y) in enumerate(loader, 1):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y) / ACCUMULATE
        loss.backward()
        if micro % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
            if micro // ACCUMULATE % 25 == 0:
                print(f"step {micro // ACCUMULATE}: {ACCUMULATE * loss.item():.4f}")


if __name__ == "__main__":
    main()
