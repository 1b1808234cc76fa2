"""Benchmarks its own steps, in production too."""

import time

import torch
from data import make_loader
from torch import nn
from torchvision.models import convnext_small


def main():
    model = convnext_small(num_classes=120).cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    loader = make_loader("dogs", batch_size=128, num_workers=10, pin_memory=True)
    times = []
    for image, breed in loader:
        torch.cuda.synchronize()
        start = time.perf_counter()
        image = image.cuda(non_blocking=True).to(memory_format=torch.channels_last)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(image), breed.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        if len(times) % 100 == 0:
            print(f"{1000 * sum(times[-100:]) / 100:.1f} ms")


if __name__ == "__main__":
    main()
