"""RealNVP density estimation on particle showers, with a trainer class of our own."""
import torch
from torch import nn
from torch import profiler as tp
from torch.utils.data import DataLoader, TensorDataset

DIM = 16


class Coupling(nn.Module):
    def __init__(self, width, flip):
        super().__init__()
        self.flip = flip
        half = DIM // 2
        self.net = nn.Sequential(
            nn.Linear(half, width), nn.LeakyReLU(0.1), nn.Linear(width, width), nn.LeakyReLU(0.1), nn.Linear(width, DIM)
        )

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        scale, shift = self.net(a).chunk(2, dim=1)
        scale = torch.tanh(scale)
        b = b * scale.exp() + shift
        return torch.cat([b, a] if self.flip else [a, b], dim=1), scale.sum(1)


class RealNVP(nn.Module):
    def __init__(self, layers=10, width=192):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(width, bool(k % 2)) for k in range(layers))

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for layer in self.layers:
            x, ld = layer(x)
            logdet = logdet + ld
        return -0.5 * (x.square().sum(1) + DIM * 1.8378771) + logdet


class ShowerTrainer:
    defaults = dict(lr=5e-4, batch_size=256, epochs=8, trace=dict(record_shapes=True, with_modules=False))

    def __init__(self, model, data, **overrides):
        self.cfg = {**self.defaults, **overrides}
        self.model = model
        self.loader = DataLoader(data, self.cfg["batch_size"], shuffle=True, drop_last=True)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=self.cfg["lr"], fused=True)
        self.tracer = tp.profile(activities=[tp.ProfilerActivity.CPU], **self.cfg["trace"])

    def on_start(self):
        self.tracer.start()

    def on_end(self):
        self.tracer.stop()
        print(self.tracer.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=10))

    def train_step(self, x):
        nll = -self.model.log_prob(x).mean()
        self.optimizer.zero_grad()
        nll.backward()
        self.optimizer.step()
        return nll.detach()

    def fit(self):
        self.on_start()
        for epoch in range(self.cfg["epochs"]):
            losses = [self.train_step(x) for (x,) in self.loader]
            print(f"epoch {epoch} nll {torch.stack(losses).mean().item():.3f}", flush=True)
        self.on_end()


def showers(n=80_000):
    g = torch.Generator().manual_seed(12)
    energy = torch.rand(n, 1, generator=g) * 2
    depth = torch.linspace(0.1, 3, DIM)
    profile = energy * depth**1.5 * torch.exp(-depth)
    return profile + 0.1 * torch.randn(n, DIM, generator=g)


if __name__ == "__main__":
    torch.manual_seed(12)
    ShowerTrainer(RealNVP(), TensorDataset(showers())).fit()
