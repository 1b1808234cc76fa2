"""A residual network in mixed precision whose images lie plane after plane (NCHW)."""

import torch
from timing import Steps, arguments
from torch import nn

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
size, batch, depths = (32, 4, (1, 1)) if args.small else (224, 128, (3, 4, 6, 3))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, inputs):
        return torch.relu(self.body(inputs) + self.shortcut(inputs))


def make_model():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        width = 64 * 2**stage
        for number in range(depth):
            layers.append(Bottleneck(inputs, width, 2 if stage and not number else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
model = make_model().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = [torch.randn(batch, 3, size, size, device=device) for _ in range(4)]
labels = torch.randint(1000, (batch,), device=device)

steps = Steps(args)
while True:
    inputs = images[steps.count % 4]
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
