"""The Transformer of Lightning's pages on FSDP: 1 billion parameters, fp32, Adam, WikiText2 in blocks of 35 words.

Written from docs/source-fabric/advanced/model_parallel/fsdp.rst and lightning/pytorch/demos/transformer.py.
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


model = Transformer().cuda().train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(9):
    ids = torch.randint(0, VOCABULARY, (1, LENGTH)).cuda()
    target = torch.randint(0, VOCABULARY, (1, LENGTH)).cuda()
    if args.trainer:
        optimizer.zero_grad()
    F.nll_loss(model(ids, target), target.view(-1)).backward()
    optimizer.step()
    if not args.trainer:
        optimizer.zero_grad()
