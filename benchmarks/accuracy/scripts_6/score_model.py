"""Trains a small causal transformer on symbolic music (note tokens of simple counterpoint), with Accelerate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SCALE = torch.tensor([0, 2, 4, 5, 7, 9, 11])


@dataclass
class Plan:
    vocabulary: int = 96
    context: int = 128
    width: int = 192
    heads: int = 6
    layers: int = 3
    micro_batch: int = 16
    accumulate: int = 2
    updates: int = 3000
    warmup: int = 100
    peak: float = 1e-3
    clip: float = 1.0


def scores(count: int, length: int, seed: int) -> torch.Tensor:
    """Two voices in turn, each a walk over a scale in a key; the lower one follows the upper one."""
    generator = torch.Generator().manual_seed(seed)
    half = length // 2
    moves = torch.randint(-2, 3, (count, half), generator=generator)
    upper = (moves.cumsum(1) + 14).clamp(7, 27)
    lower = (upper - 2 - 2 * torch.randint(0, 2, (count, half), generator=generator)).clamp(0, 27)
    key = torch.randint(0, 12, (count, 1, 1), generator=generator)
    degree = torch.stack([upper, lower], dim=2)
    notes = key + 12 * (degree // 7) + SCALE[degree % 7]
    return notes.flatten(1)


class Layer(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.heads = plan.heads
        self.before = nn.LayerNorm(plan.width)
        self.mix = nn.Linear(plan.width, 3 * plan.width)
        self.out = nn.Linear(plan.width, plan.width)
        self.middle = nn.LayerNorm(plan.width)
        self.wide = nn.Linear(plan.width, 4 * plan.width)
        self.narrow = nn.Linear(4 * plan.width, plan.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.mix(self.before(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.middle(x))))


class Composer(nn.Module):
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self.notes = nn.Embedding(plan.vocabulary, plan.width)
        self.places = nn.Parameter(torch.zeros(plan.context, plan.width))
        self.layers = nn.Sequential(*(Layer(plan) for _ in range(plan.layers)))
        self.last = nn.LayerNorm(plan.width)
        self.head = nn.Linear(plan.width, plan.vocabulary, bias=False)

    def forward(self, notes: torch.Tensor) -> torch.Tensor:
        hidden = self.notes(notes) + self.places[: notes.shape[1]]
        return self.head(self.last(self.layers(hidden)))


def rate(plan: Plan):
    def factor(update: int) -> float:
        if update < plan.warmup:
            return (update + 1) / plan.warmup
        return 0.5 + 0.5 * math.cos(math.pi * min(1.0, update / plan.updates))

    return factor


def main() -> None:
    plan = Plan()
    set_seed(29)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=plan.accumulate)
    pieces = TensorDataset(scores(16_000, plan.context + 1, seed=1))
    loader = DataLoader(pieces, batch_size=plan.micro_batch, shuffle=True, drop_last=True)
    model = Composer(plan)
    optimizer = torch.optim.AdamW(model.parameters(), lr=plan.peak, betas=(0.9, 0.95), fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate(plan))
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    update, kept = 0, []
    while update < plan.updates:
        for (piece,) in loader:
            with accelerator.accumulate(model):
                logits = model(piece[:, :-1])
                loss = F.cross_entropy(logits.flatten(0, 1), piece[:, 1:].flatten())
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), plan.clip)
                optimizer.step()
                optimizer.zero_grad()
            kept.append(loss.detach())
            if accelerator.sync_gradients:
                scheduler.step()
                update += 1
                if update % 50 == 0:
                    accelerator.print(f"update {update}: {torch.stack(kept).mean().item():.4f} nats a note", flush=True)
                    kept.clear()
                if update == plan.updates:
                    break


if __name__ == "__main__":
    main()
