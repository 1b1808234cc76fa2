"""A causal transformer whose attention is written out: the whole matrix of scores is made."""

import math

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, heads, depth, batch, length = (64, 4, 2, 2, 32) if args.small else (1024, 16, 6, 4, 2048)
VOCABULARY = 8192


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.full((length, length), -1e9).triu(1), persistent=False)

    def forward(self, inputs):
        rows, count, _ = inputs.shape
        query, key, value = (
            part.view(rows, count, heads, width // heads).transpose(1, 2) for part in self.qkv(inputs).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // heads)
        scores = (scores + self.mask[:count, :count]).softmax(dim=-1)
        mixed = scores.to(value.dtype) @ value
        return self.out(mixed.transpose(1, 2).reshape(rows, count, width))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, inputs):
        inputs = inputs + self.attention(self.first(inputs))
        return inputs + self.mlp(self.second(inputs))


torch.manual_seed(0)
model = nn.Sequential(
    nn.Embedding(VOCABULARY, width), *(Block() for _ in range(depth)), nn.Linear(width, VOCABULARY)
).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(VOCABULARY, (16 * batch, length)).to(device)

steps = Steps(args)
while True:
    start = steps.count % 16 * batch
    batch_tokens = tokens[start : start + batch]
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = model(batch_tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch_tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
