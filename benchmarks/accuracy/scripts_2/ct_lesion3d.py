"""Lesion segmentation in CT sub-volumes. A sample is a 40^3 block; two fill a step."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PATCH = 40
VOLUMES_PER_STEP = 2
EPOCHS = 8


class LesionBlocks(Dataset):
    """Blocks around annotated lesions, cut beforehand; jittered in intensity and mirrored on access."""

    def __init__(self, count):
        g = torch.Generator().manual_seed(21)
        axis = torch.linspace(-1, 1, PATCH)
        z, y, x = torch.meshgrid(axis, axis, axis, indexing="ij")
        blocks, labels = [], []
        for _ in range(count):
            cz, cy, cx = (torch.rand(3, generator=g) - 0.5).tolist()
            radius = 0.15 + 0.3 * torch.rand(1, generator=g).item()
            inside = (z - cz) ** 2 + (y - cy) ** 2 + (x - cx) ** 2 < radius**2
            blocks.append((inside * 0.5 + 0.4 * torch.randn(inside.shape, generator=g)).half())
            labels.append(inside)
        self.blocks, self.labels = blocks, labels

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        block, label = self.blocks[i].float(), self.labels[i].float()
        block = block * (0.9 + 0.2 * torch.rand(1)) + 0.1 * torch.randn(1)
        axes = [a for a in range(3) if torch.rand(1) < 0.5]
        return block.flip(axes)[None], label.flip(axes)[None]


class ResUnit(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.a = nn.Conv3d(cin, cout, 3, stride, 1)
        self.b = nn.Conv3d(cout, cout, 3, 1, 1)
        self.na, self.nb = nn.GroupNorm(4, cout), nn.GroupNorm(4, cout)
        self.skip = nn.Conv3d(cin, cout, 1, stride)

    def forward(self, x):
        h = F.relu(self.na(self.a(x)))
        return F.relu(self.nb(self.b(h)) + self.skip(x))


class Net(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.enc1, self.enc2 = ResUnit(1, c), ResUnit(c, 2 * c, stride=2)
        self.bottom = ResUnit(2 * c, 4 * c, stride=2)
        self.up2 = nn.ConvTranspose3d(4 * c, 2 * c, 2, 2)
        self.up1 = nn.ConvTranspose3d(2 * c, c, 2, 2)
        self.final = nn.Conv3d(c, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(e1)
        d2 = F.relu(self.up2(self.bottom(e2)) + e2)
        return self.final(F.relu(self.up1(d2) + e1))


def soft_dice(logits, target):
    p = logits.sigmoid().flatten(1)
    t = target.flatten(1)
    return 1 - ((2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()


def main():
    torch.manual_seed(21)
    train = DataLoader(LesionBlocks(240), batch_size=VOLUMES_PER_STEP, shuffle=True, drop_last=True)
    net = Net()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-5, fused=True)
    for epoch in range(EPOCHS):
        for n, (block, label) in enumerate(train):
            logits = net(block)
            loss = soft_dice(logits, label) + F.binary_cross_entropy_with_logits(logits, label)
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(f"epoch {epoch} [{n + 1}/{len(train)}] loss {loss.item():.4f}", flush=True)
        torch.save({"net": net.state_dict(), "epoch": epoch}, "lesion3d.pt")


if __name__ == "__main__":
    main()
