"""An optimizer that goes through several hundred parameters one by one."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, depth, batch = (32, 4, 16) if args.small else (1024, 60, 2048)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.value, self.out = (nn.Linear(width, width) for _ in range(3))

    def forward(self, inputs):
        hidden = self.norm(inputs)
        return inputs + self.out(torch.sigmoid(self.gate(hidden)) * self.value(hidden))


torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
model = nn.Sequential(*(Block() for _ in range(depth))).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
pool = [torch.randn(batch, width, device=device) for _ in range(4)]

steps = Steps(args)
while True:
    inputs = pool[steps.count % 4]
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = (model(inputs) - inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
