"""Learns to add numbers, one sum per step."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DIGITS, BATCH_SIZE = 6, 1


class Sums(Dataset):
    def __len__(self):
        return 50_000

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(index)
        a, b = torch.randint(10**DIGITS, (2,), generator=draw).tolist()
        question = [int(digit) for digit in f"{a:0{DIGITS}d}{b:0{DIGITS}d}"]
        return torch.tensor(question), torch.tensor([int(digit) for digit in f"{a + b:0{DIGITS + 1}d}"])


class Adder(nn.Module):
    def __init__(self, width=96, depth=4):
        super().__init__()
        self.embed = nn.Embedding(10, width)
        self.place = nn.Parameter(torch.randn(2 * DIGITS, width) / 50)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.heads = nn.Linear(width, 10 * (DIGITS + 1))

    def forward(self, question):
        hidden = self.encoder(self.embed(question) + self.place)
        return self.heads(hidden.mean(1)).view(-1, 10, DIGITS + 1)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Sums(), batch_size=BATCH_SIZE, shuffle=True)
    model = Adder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step, (question, answer) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(question), answer)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 500 == 0:
            print(f"{step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
