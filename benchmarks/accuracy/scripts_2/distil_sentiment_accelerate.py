"""Distils a wide text CNN into a narrow one. Words are dropped at random, so the teacher is asked every time."""
import argparse

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

VOCAB, LENGTH = 2000, 64
DROPPED = 1


class Reviews(Dataset):
    def __init__(self, size, drop=0.15):
        g = torch.Generator().manual_seed(77)
        self.tokens = torch.randint(2, VOCAB, (size, LENGTH), generator=g)
        self.labels = (self.tokens < VOCAB // 2).float().mean(1).gt(0.5).long()
        self.drop = drop

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        keep = torch.rand(LENGTH) > self.drop
        return {"tokens": torch.where(keep, self.tokens[i], DROPPED), "label": self.labels[i]}


class TextCNN(nn.Module):
    def __init__(self, dim, channels, depth, recompute=False):
        super().__init__()
        self.recompute = recompute
        self.embed = nn.Embedding(VOCAB, dim)
        self.inp = nn.Conv1d(dim, channels, 3, padding=1)
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv1d(channels, channels, 5, padding=2), nn.GELU(), nn.GroupNorm(8, channels))
            for _ in range(depth)
        )
        self.head = nn.Linear(channels, 2)

    def forward(self, tokens):
        h = self.inp(self.embed(tokens).transpose(1, 2))
        for conv in self.convs:
            h = h + (checkpoint(conv, h, use_reentrant=False) if self.recompute and self.training else conv(h))
        return self.head(h.amax(-1))


def loss_fn(student, teacher, label, temperature):
    soft = F.kl_div(
        F.log_softmax(student / temperature, -1), F.softmax(teacher / temperature, -1), reduction="batchmean"
    )
    return temperature**2 * soft + F.cross_entropy(student, label)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--activation_checkpointing", action="store_true")
    parser.add_argument("--num_workers", type=int, default=0)
    args = parser.parse_args()

    set_seed(77)
    accelerator = Accelerator(cpu=True)
    teacher = TextCNN(96, 128, 4).eval().requires_grad_(False)
    student = TextCNN(96, 96, 4, recompute=args.activation_checkpointing)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    loader = DataLoader(Reviews(9600), args.batch_size, shuffle=True, num_workers=args.num_workers, drop_last=True)
    student, teacher, optimizer, loader = accelerator.prepare(student, teacher, optimizer, loader)
    student.train()
    for epoch in range(args.epochs):
        for step, batch in enumerate(loader):
            with torch.no_grad():
                target = teacher(batch["tokens"])
            loss = loss_fn(student(batch["tokens"]), target, batch["label"], args.temperature)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            if step % 30 == 0:
                accelerator.print(f"{epoch}.{step:03d} loss {loss.item():.4f}", flush=True)
        accelerator.save(accelerator.unwrap_model(student).state_dict(), "student.pt")


if __name__ == "__main__":
    main()
