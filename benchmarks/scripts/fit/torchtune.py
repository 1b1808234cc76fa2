"""torchtune's full_finetune_single_device of Llama 3.2 3B, as its README's table of optimization flags has it.

Written from torchtune/modules (attention, position embeddings, RMSNorm, feed forward), the recipe and
CEWithChunkedOutputLoss: bf16, AdamW (fused, or one for each parameter in backward), packed samples of equal length.
The rows with --chunked compile the layers and the loss; they run in eager mode here.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, VOCABULARY = 28, 3072, 24, 8, 8192, 128256
HEAD, CHUNKS = WIDTH // HEADS, 8
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--tokens", type=int, default=4096)
parser.add_argument("--chunked", action="store_true", help="the loss in chunks of the output")
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--in-backward", action="store_true", help="the optimizer steps in backward")
args = parser.parse_args()


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.scale


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = x.float().reshape(*x.shape[:-1], -1, 2)
    cos, sin = angles[None, :, None, :, 0], angles[None, :, None, :, 1]
    first, second = pairs[..., 0], pairs[..., 1]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(3).type_as(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.sa_norm, self.mlp_norm = RMSNorm(), RMSNorm()
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False) for _ in range(2))
        self.output_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.w1, self.w3 = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        hidden = self.attention(self.sa_norm(x), angles) + x
        inner = self.mlp_norm(hidden)
        return hidden + self.w2(F.silu(self.w1(inner)) * self.w3(inner))

    def attention(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        size, length, _ = x.shape
        query = rotated(self.q_proj(x).view(size, length, HEADS, HEAD), angles).transpose(1, 2)
        key = rotated(self.k_proj(x).view(size, length, KV_HEADS, HEAD), angles).transpose(1, 2)
        value = self.v_proj(x).view(size, length, KV_HEADS, HEAD).transpose(1, 2)
        times = HEADS // KV_HEADS
        key, value = (each.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2) for each in (key, value))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output_proj(out.transpose(1, 2).contiguous().view(size, length, -1))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = RMSNorm()
        self.register_buffer("angles", torch.zeros(args.tokens, HEAD // 2, 2, dtype=torch.float32), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        x = self.embeddings(ids)
        for layer in self.layers:
            inputs = (x, self.angles)
            x = checkpoint(layer, *inputs, use_reentrant=False) if args.checkpointing else layer(*inputs)
        x = self.norm(x)
        if args.chunked:
            return [F.linear(each, self.embeddings.weight) for each in x.chunk(CHUNKS, dim=1)]
        return F.linear(x, self.embeddings.weight).float()


def loss_of(logits: torch.Tensor | list[torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
    if isinstance(logits, torch.Tensor):
        return F.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))
    losses = [
        F.cross_entropy(each.reshape(-1, VOCABULARY).float(), wanted.reshape(-1), reduction="sum")
        for each, wanted in zip(logits, labels.chunk(CHUNKS, dim=1), strict=True)
    ]
    return torch.stack(losses).sum() / labels.numel()


torch.set_default_dtype(torch.bfloat16)
model = Model().cuda()
if args.chunked:
    loss_of = torch.compile(loss_of)
    for layer in model.layers:
        layer.compile()
if args.in_backward:
    optimizers = {each: torch.optim.AdamW([each], lr=2e-5, fused=True) for each in model.parameters()}

    def update(parameter: nn.Parameter) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(update)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
for ids in DataLoader(torch.randint(0, VOCABULARY, (64, args.tokens)), batch_size=args.batch):
    ids = ids.cuda()
    labels = torch.hstack((ids[:, 1:], ids[:, :1]))
    logits = model(ids)
    loss = loss_of(logits, labels)
    del logits
    loss.backward()
    if not args.in_backward:
        optimizer.step()
        optimizer.zero_grad()
