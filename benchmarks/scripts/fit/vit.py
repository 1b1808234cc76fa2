"""torchvision's vit_l_16 with Adam, as in PyTorch's tutorial on fusing the optimizer step into the backward pass."""

from __future__ import annotations

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--no-foreach", action="store_true")
parser.add_argument("--in-backward", action="store_true")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(1024, eps=1e-6), nn.LayerNorm(1024, eps=1e-6)
        self.attention = nn.MultiheadAttention(1024, 16, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Dropout(0.0), nn.Linear(4096, 1024))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.ln_1(x)
        x = self.attention(inner, inner, inner, need_weights=False)[0] + x
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 1024, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, 1024))
        self.places = nn.Parameter(torch.zeros(1, 197, 1024))
        self.layers = nn.Sequential(*(Block() for _ in range(24)))
        self.norm, self.head = nn.LayerNorm(1024, eps=1e-6), nn.Linear(1024, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


model = VisionTransformer().cuda().train()
foreach = False if args.no_foreach or args.in_backward else None
if args.in_backward:
    optimizers = {each: torch.optim.Adam([each], foreach=False) for each in model.parameters()}

    def update(parameter: nn.Parameter) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for each in model.parameters():
        each.register_post_accumulate_grad_hook(update)
else:
    optimizer = torch.optim.Adam(model.parameters(), foreach=foreach)
for _ in range(9):
    model(torch.rand(1, 3, 224, 224).cuda()).sum().backward()
    if not args.in_backward:
        optimizer.step()
        optimizer.zero_grad()
