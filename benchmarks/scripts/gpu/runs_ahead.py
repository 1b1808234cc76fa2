"""Few and large matrix products in bfloat16, and no read of the device: the host runs far ahead."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, batch = (64, 16) if args.small else (8192, 8192)
torch.manual_seed(0)
layers = [part for _ in range(6) for part in (nn.Linear(width, width, bias=False), nn.ReLU())]
model = nn.Sequential(*layers).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
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
print("loss", loss.item())
