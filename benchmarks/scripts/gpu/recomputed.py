"""Recomputes the activations of every block though most of the device's memory is free."""

import torch
from timing import Steps, arguments
from torch import nn
from torch.utils.checkpoint import checkpoint

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, depth, batch, length = (64, 2, 2, 16) if args.small else (1024, 12, 8, 512)
VOCABULARY = 8192


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = checkpoint(layer, hidden, use_reentrant=False)
        return self.head(hidden)


torch.manual_seed(0)
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(VOCABULARY, (64 * batch, length)).to(device)

steps = Steps(args)
while True:
    start = steps.count % 64 * batch
    batch_tokens = tokens[start : start + batch]
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = model(batch_tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch_tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
