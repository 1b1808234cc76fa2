"""A fine-tune of Llama by transformers, to plan with fit: bf16, AdamW, checkpointing; of all weights or of adapters."""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

# layers, width, heads, heads of keys and values, intermediate, vocabulary
SIZES = {
    "7b": (32, 4096, 32, 32, 11008, 32000),
    "8b": (32, 4096, 32, 8, 14336, 128256),
    "70b": (80, 8192, 64, 8, 28672, 32000),
}
parser = argparse.ArgumentParser()
parser.add_argument("--size", choices=SIZES, required=True)
parser.add_argument("--tokens", type=int, default=2048)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--accumulate", type=int, default=1)
parser.add_argument("--rank", type=int, default=0, help="of adapters on all products; 0 trains everything")
args = parser.parse_args()
LAYERS, WIDTH, HEADS, KV_HEADS, INNER, VOCABULARY = SIZES[args.size]


class Adapted(nn.Module):
    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(inner.in_features, args.rank, bias=False)
        self.up = nn.Linear(args.rank, inner.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + self.up(self.down(x))


config = LlamaConfig(
    vocab_size=VOCABULARY,
    hidden_size=WIDTH,
    intermediate_size=INNER,
    num_hidden_layers=LAYERS,
    num_attention_heads=HEADS,
    num_key_value_heads=KV_HEADS,
    max_position_embeddings=args.tokens,
    use_cache=False,
)
torch.set_default_dtype(torch.bfloat16)
model = LlamaForCausalLM(config)
if args.rank:
    model.requires_grad_(False)
    for layer in model.model.layers:
        for part in (layer.self_attn, layer.mlp):
            for name, module in list(part.named_children()):
                if isinstance(module, nn.Linear):
                    setattr(part, name, Adapted(module))
model = model.cuda().train()
model.gradient_checkpointing_enable({"use_reentrant": False})
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-5)
data = torch.randint(0, VOCABULARY, (64, args.tokens))
for number, ids in enumerate(DataLoader(data, batch_size=args.batch), 1):
    ids = ids.cuda()
    (model(input_ids=ids, labels=ids).loss / args.accumulate).backward()
    if number % args.accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
