"""LitGPT's finetune/lora.py, adapter.py and adapter_v2.py of October 2023: a frozen base, losses in chunks.

Written from its lit_gpt/model.py, lora.py, adapter.py and adapter_v2.py, for the models of its resource tables.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

# layers, width, heads, intermediate, vocabulary, share of a head that rotates, is of Llama's kind, parallel, biases
MODELS = {
    "phi-1.5": (24, 2048, 32, 8192, 51200, 0.5, False, True, True),
    "stablelm-3b": (16, 4096, 32, 16384, 50688, 0.25, False, True, True),
    "llama-2-7b": (32, 4096, 32, 11008, 32000, 1.0, True, False, False),
    "llama-2-13b": (40, 5120, 40, 13824, 32000, 1.0, True, False, False),
}
parser = argparse.ArgumentParser()
parser.add_argument("--model", choices=MODELS, required=True)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--tokens", type=int, required=True)
parser.add_argument("--kind", choices=("lora", "adapter", "adapter-v2"), default="lora")
parser.add_argument("--mixed", action="store_true", help="bf16-mixed instead of bf16-true")
parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step; LitGPT takes 128 samples")
parser.add_argument("--checkpointing", action="store_true", help="of each block, as its FSDP strategy asks for")
args = parser.parse_args()
LAYERS, WIDTH, HEADS, INNER, VOCABULARY, ROTATES, IS_LLAMA, IS_PARALLEL, HAS_BIAS = MODELS[args.model]
HEAD = WIDTH // HEADS
RANK, PROMPT, FIRST_WITH_PROMPT = 8, 10, 2


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = torch.mean(x * x, dim=-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean + 1e-5))


class Linear(nn.Linear):
    """With a scale and a bias of its own in the second adapter."""

    def __init__(self, before: int, after: int, bias: bool) -> None:
        super().__init__(before, after, bias)
        self.adapter = args.kind == "adapter-v2"
        if self.adapter:
            self.adapter_bias, self.adapter_scale = nn.Parameter(torch.zeros(after)), nn.Parameter(torch.ones(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = super().forward(x)
        return self.adapter_scale * (out + self.adapter_bias) if self.adapter else out


class Qkv(nn.Module):
    """The projection of queries, keys and values, with low-rank additions to the first and the last."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = Linear(WIDTH, 3 * WIDTH, bias=HAS_BIAS)
        if args.kind != "lora":
            return
        self.lora_a = nn.Parameter(torch.zeros(2 * RANK, WIDTH))
        self.lora_b = nn.Parameter(torch.zeros(2 * WIDTH, RANK))
        places = torch.arange(3 * WIDTH).view(HEADS, 3, HEAD)[:, (0, 2)].reshape(-1)
        self.register_buffer("places", places, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if args.kind != "lora":
            return self.linear(x)
        after = F.linear(F.dropout(x, 0.05), self.lora_a)
        after = F.conv1d(after.transpose(-2, -1), self.lora_b.unsqueeze(-1), groups=2).transpose(-2, -1)
        padded = x.new_zeros((x.shape[0] * x.shape[1], 3 * WIDTH))
        padded = padded.index_copy(1, self.places, after.reshape(-1, 2 * WIDTH))
        return self.linear(x) + padded.view(*x.shape[:-1], 3 * WIDTH) * 2.0


class Attention(nn.Module):
    def __init__(self, place: int) -> None:
        super().__init__()
        self.attn, self.proj = Qkv(), Linear(WIDTH, WIDTH, bias=HAS_BIAS)
        self.has_prompt = args.kind != "lora" and place >= FIRST_WITH_PROMPT
        if self.has_prompt:
            self.adapter_wte = nn.Embedding(PROMPT, WIDTH)
            self.gating_factor = nn.Parameter(torch.zeros(1, 1, HEADS, 1))

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        size, length, _ = x.shape
        qkv = self.attn(x).view(size, length, HEADS, 3, HEAD).permute(0, 2, 3, 1, 4)
        query, key, value = (each.reshape(size, -1, length, HEAD) for each in qkv.split((1, 1, 1), dim=2))
        part = cos.shape[-1]
        query = torch.cat((rotated(query[..., :part], cos, sin), query[..., part:]), dim=-1)
        key = torch.cat((rotated(key[..., :part], cos, sin), key[..., part:]), dim=-1)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2)
        if self.has_prompt:
            out = out + self.gating_factor * self.prompted(query)
        return self.proj(out.reshape(size, length, WIDTH))

    def prompted(self, query: torch.Tensor) -> torch.Tensor:
        qkv = self.attn(self.adapter_wte.weight.reshape(1, PROMPT, WIDTH))
        qkv = qkv.view(1, PROMPT, HEADS, 3, HEAD).permute(0, 2, 3, 1, 4)
        _, key, value = (each.reshape(1, -1, PROMPT, HEAD) for each in qkv.split((1, 1, 1), dim=2))
        key, value = (each.expand(len(query), -1, -1, -1) for each in (key, value))
        mask = torch.ones(query.shape[2], PROMPT, dtype=torch.bool, device=query.device)
        return F.scaled_dot_product_attention(query, key, value, mask).transpose(1, 2)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return ((x * cos) + (torch.cat((-second, first), dim=-1) * sin)).type_as(x)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc_1 = Linear(WIDTH, INNER, bias=HAS_BIAS)
        self.fc_2 = Linear(WIDTH, INNER, bias=HAS_BIAS) if IS_LLAMA else None
        self.proj = Linear(INNER, WIDTH, bias=HAS_BIAS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.proj(F.silu(self.fc_1(x)) * self.fc_2(x) if self.fc_2 is not None else F.gelu(self.fc_1(x)))


class Block(nn.Module):
    def __init__(self, place: int) -> None:
        super().__init__()
        norm = RMSNorm if IS_LLAMA else lambda: nn.LayerNorm(WIDTH)
        # phi has one norm for both branches.
        self.norm_1, self.norm_2 = norm(), None if args.model == "phi-1.5" else norm()
        self.attn, self.mlp = Attention(place), Mlp()

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        before = self.norm_1(x)
        inner = self.attn(before, cos, sin)
        if IS_PARALLEL:
            return self.mlp(before if self.norm_2 is None else self.norm_2(x)) + inner + x
        x = inner + x
        return self.mlp(self.norm_2(x)) + x


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Block(place) for place in range(LAYERS)])
        self.last = RMSNorm() if IS_LLAMA else nn.LayerNorm(WIDTH)
        self.lm_head = Linear(WIDTH, VOCABULARY, bias=args.model == "phi-1.5")
        angles = torch.outer(torch.arange(args.tokens).float(), torch.ones(int(ROTATES * HEAD) // 2)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        x = self.wte(ids)
        for layer in self.layers:
            inputs = (x, self.cos, self.sin)
            x = checkpoint(layer, *inputs, use_reentrant=False) if args.checkpointing else layer(*inputs)
        return [self.lm_head(each) for each in self.last(x).split(128, dim=1)]


def loss_in_chunks(logits: list[torch.Tensor], targets: torch.Tensor) -> torch.Tensor:
    parts = [each.reshape(-1, each.size(-1)) for each in logits]
    wanted = [each.reshape(-1) for each in targets.split(128, dim=1)]
    losses = [
        F.cross_entropy(one, each, ignore_index=-1, reduction="none") for one, each in zip(parts, wanted, strict=True)
    ]
    return torch.cat(losses).mean()


TRAINED = {
    "lora": ("lora",),
    "adapter": ("adapter_wte", "gating_factor"),
    "adapter-v2": ("adapter", "gating_factor", "norm_1", "norm_2", "last"),
}
torch.set_default_dtype(torch.float32 if args.mixed else torch.bfloat16)
model = Model().cuda()
for name, parameter in model.named_parameters():
    parameter.requires_grad_(any(word in name for word in TRAINED[args.kind]))
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=3e-4, weight_decay=0.01)
batches = DataLoader(torch.randint(0, VOCABULARY, (64, args.tokens + 1)), batch_size=args.batch)
for number, ids in enumerate(batches, 1):
    ids = ids.cuda()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=args.mixed):
        logits = model(ids[:, :-1])
        logits[-1] = logits[-1][..., :-1, :]
        loss = loss_in_chunks(logits, ids[:, 1:-1])
    loss.backward()
    if number % args.accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
