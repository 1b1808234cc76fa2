"""Phoneme recogniser: log-mel frames -> BiGRU -> CTC.

Synthetic utterances stand in for the TIMIT dump so that the script runs anywhere.
"""
import argparse
import math
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

N_MELS = 40
N_PHONES = 39  # folded set; blank is 0


class Utterances(Dataset):
    """All utterances are cut to about one second by the VAD, so they are of similar length."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        prototypes = torch.randn(N_PHONES + 1, N_MELS, generator=g)
        self.items = []
        for _ in range(n):
            frames = int(torch.randint(96, 103, (1,), generator=g))
            phones = torch.randint(1, N_PHONES + 1, (12,), generator=g)
            spread = phones.repeat_interleave(math.ceil(frames / 12))[:frames]
            feats = prototypes[spread] + 0.4 * torch.randn(frames, N_MELS, generator=g)
            self.items.append((feats, phones))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    feats, phones = zip(*batch)
    return {
        "feats": pad_sequence(feats, batch_first=True),
        "feat_len": torch.tensor([len(f) for f in feats]),
        "phones": torch.cat(phones),
        "phone_len": torch.tensor([len(p) for p in phones]),
    }


class Recogniser(nn.Module):
    def __init__(self, hidden, layers):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(N_MELS, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.rnn = nn.GRU(hidden, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, N_PHONES + 1)

    def forward(self, x):
        h, _ = self.rnn(self.front(x))
        return F.log_softmax(self.head(h), dim=-1)


@torch.no_grad()
def greedy_blank_rate(model, loader):
    model.eval()
    blanks = [model(b["feats"]).argmax(-1).eq(0).float().mean() for b in loader]
    model.train()
    return torch.stack(blanks).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--hidden", type=int, default=128)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    train_set = Utterances(4800, seed=1)
    train = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, collate_fn=collate)
    dev = DataLoader(Utterances(96, seed=2), args.batch_size, collate_fn=collate)
    model = Recogniser(args.hidden, 2)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    for epoch in range(args.epochs):
        total = 0.0
        for b in train:
            logp = model(b["feats"]).transpose(0, 1)
            loss = F.ctc_loss(logp, b["phones"], b["feat_len"], b["phone_len"], zero_infinity=True)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} ctc {total / len(train):.3f} blank rate {greedy_blank_rate(model, dev):.2f}", flush=True)


if __name__ == "__main__":
    main()
