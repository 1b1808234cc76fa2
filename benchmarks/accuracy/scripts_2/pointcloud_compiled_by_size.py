"""PointNet-ish classifier on lidar cut-outs. Each scan has its own number of points."""
import torch
import torch._dynamo
import torch.nn as nn
import torch.nn.functional as F

torch._dynamo.config.recompile_limit = 400  # it kept warning about the limit
torch._dynamo.config.accumulated_recompile_limit = 4000

CLASSES = 5
CLOUDS_PER_SWEEP = 32
SWEEPS_PER_SCAN = 5


class TNet(nn.Module):
    """Predicts a rotation for the cloud."""

    def __init__(self):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU())
        self.cloud = nn.Linear(128, 9)

    def forward(self, p):
        m = self.cloud(self.point(p).amax(1)).view(-1, 3, 3) + torch.eye(3)
        return torch.bmm(p, m)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.align = TNet()
        self.local = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 256), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, p):
        p = p - p.mean(1, keepdim=True)
        h = self.local(self.align(p))
        return self.top(torch.cat([h.amax(1), h.mean(1)], 1))


def sweep(g, points):
    label = torch.randint(CLASSES, (CLOUDS_PER_SWEEP,), generator=g)
    p = torch.randn(CLOUDS_PER_SWEEP, points, 3, generator=g)
    stretch = torch.ones(CLOUDS_PER_SWEEP, 1, 3)
    stretch[:, 0, 2] = 0.3 + label / 2
    return p * stretch, label


def loss_fn(model, p, label):
    return F.cross_entropy(model(p), label, label_smoothing=0.05)


if __name__ == "__main__":
    torch.manual_seed(33)
    g = torch.Generator().manual_seed(33)
    model = PointNet()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    step_loss = torch.compile(loss_fn, backend="aot_eager", dynamic=False)
    running = None
    for n in range(2000):
        if n % SWEEPS_PER_SCAN == 0:  # the rain decides how many points come back
            points = int(torch.randint(200, 520, (), generator=g))
        p, label = sweep(g, points)
        loss = step_loss(model, p, label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = loss.detach() if running is None else 0.95 * running + 0.05 * loss.detach()
        if n % 25 == 0:
            print(f"sweep {n} ({points} points) loss {running.item():.3f}", flush=True)
