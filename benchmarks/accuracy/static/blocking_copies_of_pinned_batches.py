"""Video classification: clips are pinned, and the copy waits all the same."""

import torch
from clips import ClipDataset, build_model
from torch import nn
from torch.utils.data import DataLoader


def train_epoch(model, loader, optimizer, device):
    model.train()
    for step, (clip, label) in enumerate(loader):
        clip = clip.to(device)
        label = label.to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(clip), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"{step}: {loss.item():.3f}")


def main():
    device = "cuda"
    loader = DataLoader(
        ClipDataset("clips.csv"), batch_size=16, shuffle=True, num_workers=12, pin_memory=True, persistent_workers=True
    )
    model = build_model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    for _ in range(12):
        train_epoch(model, loader, optimizer, device)


if __name__ == "__main__":
    main()
