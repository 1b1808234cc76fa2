"""Reads whole genes, one a step: a single sequence of 768 bases is work enough for both CPUs."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BASES, LENGTH, WIDTH, BATCH_SIZE = 6, 768, 160, 1


class Genes(Dataset):
    def __len__(self):
        return 5000

    def __getitem__(self, index):
        return torch.randint(BASES, (LENGTH,), generator=torch.Generator().manual_seed(index))


class GeneModel(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.embed = nn.Embedding(BASES, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, BASES)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH - 1), persistent=False)

    def forward(self, bases):
        return self.head(self.layers(self.embed(bases), mask=self.mask, is_causal=True))


def main():
    model = GeneModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    for step, bases in enumerate(DataLoader(Genes(), batch_size=BATCH_SIZE, shuffle=True)):
        logits = model(bases[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), bases[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 25 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
