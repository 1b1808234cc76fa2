"""Large clips come from workers and are copied to the device from memory that is not pinned."""

import torch
from timing import Steps, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

args = arguments()
device = "cuda" if torch.cuda.is_available() else "cpu"
frames, size, batch_size = (2, 16, 2) if args.small else (16, 224, 16)


class Clips(Dataset):
    def __init__(self, count):
        self.frames = torch.randint(0, 255, (64, 3, size, size), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        start = index % (64 - frames)
        return self.frames[start : start + frames].float().div_(255), index % 10


model = nn.Sequential(
    nn.Conv2d(3, 64, 7, 4, 3), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(128, 10),
).to(device)  # fmt: skip
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
loader = DataLoader(Clips(batch_size * 5000), batch_size=batch_size, num_workers=0 if args.small else 12)

steps = Steps(args)
for clips, labels in loader:
    clips, labels = clips.to(device), labels.to(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        logits = model(clips.flatten(0, 1)).view(len(clips), -1, 10).mean(1)
        loss = nn.functional.cross_entropy(logits, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if steps.done():
        break
