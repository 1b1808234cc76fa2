"""Character LM, trained on windows that get longer as training goes on (Shortformer-style staging).

Every step leaves one line of JSON in log.jsonl; plot it with `python plot.py log.jsonl`.
"""
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(42)

SYLLABLES = "ka to mi re sa lu ven dor ash el un qui bra ost".split()
gen = torch.Generator().manual_seed(0)
text = "".join(
    SYLLABLES[i] + (" " if i % 3 == 0 else "") for i in torch.randint(len(SYLLABLES), (300_000,), generator=gen).tolist()
)
alphabet = sorted(set(text))
lookup = {c: i for i, c in enumerate(alphabet)}
corpus = torch.tensor([lookup[c] for c in text])

D, HEADS, LAYERS, MAX_LEN, BATCH = 192, 6, 4, 320, 16
TOTAL_STEPS = 900


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)
        self.proj = nn.Linear(D, D)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, D // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, D))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attn = SelfAttention()
        self.mlp = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(len(alphabet), D)
        self.pos = nn.Embedding(MAX_LEN, D)
        self.layers = nn.Sequential(*[Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, len(alphabet))

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight[: ids.shape[1]]
        return self.head(self.norm(self.layers(x)))


def window_length(step):
    """128 characters at first, 8 more after every 25 steps."""
    return min(MAX_LEN, 128 + 8 * (step // 25))


def draw(length):
    starts = torch.randint(len(corpus) - length - 1, (BATCH, 1))
    rows = corpus[starts + torch.arange(length + 1)]
    return rows[:, :-1], rows[:, 1:]


model = CharLM()
opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1, (s + 1) / 50) * 0.5 * (1 + math.cos(math.pi * s / TOTAL_STEPS)))

with open("log.jsonl", "w", buffering=1) as log:
    began = time.time()
    for step in range(TOTAL_STEPS):
        length = window_length(step)
        x, y = draw(length)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        log.write(json.dumps({"step": step, "len": length, "loss": loss.item(), "t": time.time() - began}) + "\n")
        if step % 50 == 0:
            print(step, length, f"{loss.item() / math.log(2):.3f} bits/char", flush=True)
