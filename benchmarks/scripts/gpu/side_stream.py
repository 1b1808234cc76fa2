"""The next batch is copied on a stream of its own while the present one is trained on."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
width, batch = (64, 16) if args.small else (8192, 6144)


class Prefetcher:
    """Batches on the device, one ahead."""

    def __init__(self, batches):
        self.batches = batches
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.position = 0
        self.load()

    def load(self):
        batch = self.batches[self.position % len(self.batches)]
        self.position += 1
        if self.stream is None:
            self.next = batch
            return
        with torch.cuda.stream(self.stream):
            self.next = batch.to(device, non_blocking=True)

    def take(self):
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)
            self.next.record_stream(torch.cuda.current_stream())
        batch = self.next
        self.load()
        return batch


torch.manual_seed(0)
host = [torch.randn(batch, width, dtype=torch.bfloat16) for _ in range(4)]
if device == "cuda":
    host = [each.pin_memory() for each in host]
layers = [part for _ in range(5) for part in (nn.Linear(width, width, bias=False), nn.ReLU())]
model = nn.Sequential(*layers).to(device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
batches = Prefetcher(host)

steps = Steps(args)
while True:
    inputs = batches.take()
    loss = (model(inputs) - inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
print("loss", loss.item())
