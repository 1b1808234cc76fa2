"""The Transformer of Lightning's pages on FSDP: 1 billion parameters, fp32, Adam, WikiText2 in blocks of 35 words.

Written from docs/source-fabric/advanced/model_parallel/fsdp.rst and lightning/pytorch/demos/transformer.py. Fabric's
page has peaks of July 2023, the Trainer's of August; in between torch's Adam lost one of its two temporary results
(pytorch/pytorch pull requests 104898 and 104991).
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

VOCABULARY, WIDTH, LENGTH = 33278, 1024, 35
parser = argparse.ArgumentParser()
parser.add_argument(
    "--trainer", action="store_true", help="as the Trainer's page runs it: gradients go before the step"
)
args = parser.parse_args()


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.dropout = nn.Dropout(0.2)
        self.transformer = nn.Transformer(
            d_model=WIDTH, nhead=64, num_encoder_layers=32, num_decoder_layers=32, dim_feedforward=4096,
            dropout=0.2, batch_first=True,
        )  # fmt: skip
        self.decoder = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("places", torch.zeros(1, 5000, WIDTH), persistent=False)
        self.register_buffer("mask", torch.full((LENGTH, LENGTH), -math.inf).triu(1), persistent=False)

    def placed(self, ids: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(WIDTH) + self.places[:, ids.shape[1]])

    def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        out = self.decoder(self.transformer(self.placed(ids), self.placed(target), tgt_mask=self.mask))
        return F.log_softmax(out, dim=-1).view(-1, VOCABULARY)


class Adam(torch.optim.Adam):
    """Torch's update until July 2023: with a second temporary result of the parameters' size (optim/adam.py: denom)."""

    @torch.no_grad()
    def step(self) -> None:
        parameters = [each for each in self.param_groups[0]["params"] if each.grad is not None]
        gradients = [each.grad for each in parameters]
        for each in parameters:
            if not self.state[each]:
                self.state[each] = {"exp_avg": torch.zeros_like(each), "exp_avg_sq": torch.zeros_like(each)}
        averages, squares = ([self.state[each][key] for each in parameters] for key in ("exp_avg", "exp_avg_sq"))
        torch._foreach_lerp_(averages, gradients, 0.1)
        torch._foreach_mul_(squares, 0.999)
        torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
        roots = torch._foreach_sqrt(squares)
        divisors = torch._foreach_add(roots, 1e-8)
        torch._foreach_addcdiv_(parameters, averages, divisors, -0.1)


model = Transformer().cuda().train()
optimizer = (torch.optim.Adam if args.trainer else Adam)(model.parameters(), lr=0.1)
for _ in range(9):
    ids = torch.randint(0, VOCABULARY, (1, LENGTH)).cuda()
    target = torch.randint(0, VOCABULARY, (1, LENGTH)).cuda()
    if args.trainer:
        optimizer.zero_grad()
    F.nll_loss(model(ids, target), target.view(-1)).backward()
    optimizer.step()
    if not args.trainer:
        optimizer.zero_grad()
