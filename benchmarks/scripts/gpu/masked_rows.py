"""A mixture of experts that picks each expert's rows with a mask."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, experts, depth, batch = (32, 4, 2, 64) if args.small else (1024, 8, 6, 8192)


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(experts)
        )

    def forward(self, inputs):
        weights = self.router(inputs).softmax(-1)
        top, choice = weights.max(-1)
        output = torch.zeros_like(inputs)
        for number, expert in enumerate(self.experts):
            mask = choice == number
            if mask.any():
                output[mask] = expert(inputs[mask]) * top[mask].unsqueeze(-1)
        return inputs + output


torch.manual_seed(0)
model = nn.Sequential(*(Experts() for _ in range(depth))).to(device, torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
pool = [torch.randn(batch, width, device=device, dtype=torch.bfloat16) for _ in range(4)]

steps = Steps(args)
while True:
    inputs = pool[steps.count % 4]
    loss = (model(inputs) - inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
