"""
Predict promoter strength from k-mer spectra.

usage: python accelerate_counts_kmers.py [--k 5] [--hidden 512]
"""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

COMPLEMENT = str.maketrans("ACGT", "TGCA")


def make_promoters(n, length, seed):
    """Random sequence with TATA boxes and GC-rich islands sprinkled in; strength follows from both."""
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        boxes, islands = rng.randrange(5), rng.randrange(4)
        bases = rng.choices("ACGT", k=length)
        for motif, count in (("TATAAA", boxes), ("GGGCGG", islands)):
            for _ in range(count):
                at = rng.randrange(length - 6)
                bases[at:at + 6] = motif
        out.append(("".join(bases), 0.6 * boxes + 0.3 * islands + rng.gauss(0, 0.1)))
    return out


class PromoterDataset(Dataset):
    def __init__(self, promoters, k):
        self.promoters = promoters
        self.k = k
        self.column = {}
        for code in range(4 ** k):
            word = "".join("ACGT"[(code >> (2 * j)) & 3] for j in range(k))
            # strand-neutral: a word and its reverse complement share a column
            mate = word.translate(COMPLEMENT)[::-1]
            self.column[word] = self.column.get(mate, code)

    def __len__(self):
        return len(self.promoters)

    def spectrum(self, sequence):
        counts = [0] * 4 ** self.k
        for start in range(len(sequence) - self.k + 1):
            counts[self.column[sequence[start:start + self.k]]] += 1
        counts = torch.tensor(counts, dtype=torch.float32)
        return torch.log1p(counts) / len(sequence) ** 0.5

    def __getitem__(self, idx):
        sequence, strength = self.promoters[idx]
        return {"x": self.spectrum(sequence), "y": torch.tensor(strength)}


class StrengthNet(nn.Module):
    def __init__(self, n_in, hidden):
        super().__init__()
        self.fc1 = nn.Linear(n_in, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        x = F.gelu(self.fc1(x))
        x = F.dropout(x, 0.1, self.training)
        x = F.gelu(self.fc2(x))
        return self.out(x).squeeze(-1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--k", type=int, default=5)
    p.add_argument("--hidden", type=int, default=512)
    p.add_argument("--batch_size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--lr", type=float, default=3e-4)
    args = p.parse_args()

    set_seed(8)
    accelerator = Accelerator(cpu=True)
    train_set = PromoterDataset(make_promoters(4096, 900, seed=1), args.k)
    loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = StrengthNet(4 ** args.k, args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for batch in loader:
            loss = F.mse_loss(model(batch["x"]), batch["y"])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        accelerator.print(f"epoch {epoch} mse {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
