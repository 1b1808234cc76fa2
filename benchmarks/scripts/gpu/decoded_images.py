"""A convolutional network on images that are decoded and resized in the training process."""

import zlib

import numpy as np
import torch
from timing import Steps, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
size, batch_size = (32, 4) if args.small else (224, 64)


class Images(Dataset):
    def __init__(self, count):
        draw = np.random.default_rng(0)
        self.files = [
            zlib.compress(draw.integers(0, 64, (size + 32, size + 32, 3), dtype=np.uint8).tobytes()) for _ in range(64)
        ]
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        pixels = np.frombuffer(zlib.decompress(self.files[index % 64]), dtype=np.uint8)
        image = pixels.reshape(size + 32, size + 32, 3)[16:-16, 16:-16].astype(np.float32) / 255
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), index % 10


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)
    )


model = nn.Sequential(
    block(3, 32),
    block(32, 64),
    block(64, 128),
    block(128, 256),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(256, 10),
).to(device, memory_format=torch.channels_last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
loader = DataLoader(Images(batch_size * 5000), batch_size=batch_size, shuffle=True)

steps = Steps(args)
for images, labels in loader:
    images = images.to(device, memory_format=torch.channels_last)
    labels = labels.to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
