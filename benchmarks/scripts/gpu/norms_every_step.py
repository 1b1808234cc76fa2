"""Logs the norm of each parameter's gradient in every step."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, depth, batch, length = (64, 2, 2, 16) if args.small else (768, 12, 16, 256)
VOCABULARY = 8192


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 12 if not args.small else 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


torch.manual_seed(0)
model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
tokens = torch.randint(VOCABULARY, (64 * batch, length)).to(device)
norms = {}

steps = Steps(args)
while True:
    start = steps.count % 64 * batch
    batch_tokens = tokens[start : start + batch]
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = model(batch_tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch_tokens.flatten())
    loss.backward()
    for name, parameter in model.named_parameters():
        norms[name] = parameter.grad.norm().item()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
