"""Traffic speed on a road network: message passing over an edge list, no graph library.

usage: python traffic_graph_profiled.py
"""

import torch
from accelerate import Accelerator
from accelerate.utils import ProfileKwargs, set_seed
from torch import nn

NODES, DEGREE, PAST, DIM, LAYERS = 1200, 6, 12, 32, 4
STEPS, GRAPHS_PER_STEP = 400, 2


def road_network():
    place = torch.rand(NODES, 2)
    nearest = torch.cdist(place, place).topk(DEGREE + 1, largest=False).indices[:, 1:]
    source = nearest.flatten()
    target = torch.arange(NODES).repeat_interleave(DEGREE)
    length = (place[source] - place[target]).norm(dim=1, keepdim=True)
    return source, target, length


def simulate(source, target, hours):
    """Speeds spread along the roads, with a daily rush."""
    speed = torch.rand(NODES)
    history = []
    for hour in range(hours):
        neighbours = torch.zeros(NODES).index_add_(0, target, speed[source]) / DEGREE
        rush = 0.2 * torch.sin(torch.tensor(hour * 6.283 / 24))
        speed = (0.7 * neighbours + 0.3 * speed - 0.1 * rush + 0.05 * torch.randn(NODES)).clamp(0, 1)
        history.append(speed)
    return torch.stack(history, dim=1)


class Message(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * DIM + 1, DIM), nn.SiLU(), nn.Linear(DIM, DIM))
        self.gate = nn.Linear(2 * DIM, DIM)
        self.norm = nn.LayerNorm(DIM)

    def forward(self, x, source, target, length):
        sent = self.edge(torch.cat([x[source], x[target], length], dim=1))
        received = torch.zeros_like(x).index_add(0, target, sent)
        gate = torch.sigmoid(self.gate(torch.cat([x, received], dim=1)))
        return self.norm(x + gate * received)


class RoadNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(PAST, DIM)
        self.layers = nn.ModuleList(Message() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, 1)

    def forward(self, past, source, target, length):
        x = torch.tanh(self.lift(past))
        for layer in self.layers:
            x = layer(x, source, target, length)
        return self.head(x).squeeze(1)


def main():
    set_seed(8)
    tracing = ProfileKwargs(activities=["cpu"], record_shapes=True, with_flops=True)
    accelerator = Accelerator(cpu=True, kwargs_handlers=[tracing])
    source, target, length = road_network()
    speeds = simulate(source, target, hours=1000)
    model = RoadNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)

    mean = torch.zeros(())
    with accelerator.profile() as profile:
        for step in range(STEPS):
            loss = torch.zeros(())
            for start in torch.randint(0, speeds.shape[1] - PAST - 1, (GRAPHS_PER_STEP,)).tolist():
                past, future = speeds[:, start : start + PAST], speeds[:, start + PAST]
                loss = loss + (model(past, source, target, length) - future).abs().mean() / GRAPHS_PER_STEP
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            mean = 0.99 * mean + 0.01 * loss.detach()
            if step % 100 == 99:
                accelerator.print(f"step {step + 1}: mean absolute error {mean.item():.4f}")
    accelerator.print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=15))
    accelerator.save(accelerator.unwrap_model(model).state_dict(), "roads.pt")


if __name__ == "__main__":
    main()
