"""torchtitan's Llama 3.1 8B of December 2024 in one process: fp32 weights, bf16 by autocast, selective checkpointing.

Written from torchtitan/models/llama/model.py and parallelisms/parallelize_llama.py: of every layer the results of
attention and of every second product are kept, all else is computed again.
"""

from __future__ import annotations

import argparse
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.data import DataLoader

LAYERS, WIDTH, HEADS, KV_HEADS, INNER, VOCABULARY = 32, 4096, 32, 8, 14336, 128256
HEAD = WIDTH // HEADS
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--tokens", type=int, default=8192)
args = parser.parse_args()
aten = torch.ops.aten
KEPT = {
    aten.mm.default,
    aten._scaled_dot_product_efficient_attention.default,
    aten._scaled_dot_product_flash_attention.default,
    aten._scaled_dot_product_flash_attention_for_cpu.default,
}


def contexts() -> tuple[object, object]:
    products = {False: 0, True: 0}

    def policy(context: object, function: object, *rest: object, **named: object) -> CheckpointPolicy:
        again = bool(getattr(context, "is_recompute", False))
        if function is aten.mm.default:
            products[again] += 1
        is_kept = function in KEPT and not (function is aten.mm.default and products[again] % 2 == 0)
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * angles[None, :, None, :]).flatten(3).type_as(x)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.ffn_norm = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)
        self.wq, self.wo = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.wk, self.wv = (nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False) for _ in range(2))
        self.w1, self.w3 = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.w2 = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        hidden = x + self.attention(self.attention_norm(x), angles)
        inner = self.ffn_norm(hidden)
        return hidden + self.w2(F.silu(self.w1(inner)) * self.w3(inner))

    def attention(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        size, length, _ = x.shape
        query = rotated(self.wq(x).view(size, length, HEADS, HEAD), angles)
        key = rotated(self.wk(x).view(size, length, KV_HEADS, HEAD), angles)
        value = self.wv(x).view(size, length, KV_HEADS, HEAD)
        times = HEADS // KV_HEADS
        key, value = (each[:, :, :, None].expand(-1, -1, -1, times, -1).flatten(2, 3) for each in (key, value))
        query, key, value = (each.transpose(1, 2) for each in (query, key, value))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.wo(out.transpose(1, 2).contiguous().view(size, length, -1))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.RMSNorm(WIDTH, 1e-5)
        self.output = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("angles", torch.zeros(args.tokens, HEAD // 2, dtype=torch.complex64), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tok_embeddings(ids)
        for layer in self.layers:
            x = checkpoint(partial(layer, angles=self.angles), x, use_reentrant=False, context_fn=contexts)
        return self.output(self.norm(x))


model = Model().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
for ids in DataLoader(torch.randint(0, VOCABULARY, (64, args.tokens)), batch_size=args.batch):
    ids = ids.cuda()
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
        del logits
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
