"""Double DQN for a toy warehouse robot: vectorised environment, replay in preallocated tensors, Accelerate."""
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator
from torch import nn

STATE, ACTIONS = 48, 9


@dataclass
class DQNConfig:
    capacity: int = 100_000
    envs: int = 64
    batch: int = 768
    gamma: float = 0.98
    lr: float = 5e-4
    sync_every: int = 100
    save_every: int = 500
    updates: int = 2500
    hidden: list = field(default_factory=lambda: [768, 768, 384])
    seed: int = 13


class Warehouse:
    def __init__(self, cfg):
        self.drift = torch.randn(ACTIONS, STATE) * 0.1
        self.goal = torch.randn(STATE)
        self.state = torch.randn(cfg.envs, STATE)

    def step(self, action):
        before = self.state
        self.state = 0.95 * before + self.drift[action] + 0.02 * torch.randn_like(before)
        reward = -(self.state - self.goal).norm(dim=1)
        return before, reward, self.state


class Replay:
    def __init__(self, cfg):
        self.s = torch.empty(cfg.capacity, STATE)
        self.a = torch.empty(cfg.capacity, dtype=torch.long)
        self.r = torch.empty(cfg.capacity)
        self.s2 = torch.empty(cfg.capacity, STATE)
        self.head, self.full, self.capacity = 0, 0, cfg.capacity

    def push(self, s, a, r, s2):
        rows = torch.arange(self.head, self.head + len(s)) % self.capacity
        self.s[rows], self.a[rows], self.r[rows], self.s2[rows] = s, a, r, s2
        self.head = (self.head + len(s)) % self.capacity
        self.full = min(self.capacity, self.full + len(s))

    def sample(self, n):
        rows = torch.randint(self.full, (n,))
        return self.s[rows], self.a[rows], self.r[rows], self.s2[rows]


def qnet(cfg):
    sizes = [STATE, *cfg.hidden]
    layers = [m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], ACTIONS))


@torch.no_grad()
def act(net, state, epsilon):
    greedy = net(state).argmax(1)
    explore = torch.rand(len(state)) < epsilon
    return torch.where(explore, torch.randint(ACTIONS, greedy.shape), greedy)


def main(cfg):
    torch.manual_seed(cfg.seed)
    accelerator = Accelerator(cpu=True)
    online, target = qnet(cfg), qnet(cfg)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=cfg.lr, fused=True)
    online, optimizer = accelerator.prepare(online, optimizer)
    world, replay = Warehouse(cfg), Replay(cfg)
    running = 0.0
    for update in range(cfg.updates):
        action = act(online, world.state, epsilon=max(0.05, 1 - update / 1000))
        before, reward, after = world.step(action)
        replay.push(before, action, reward, after)

        s, a, r, s2 = replay.sample(cfg.batch)
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            goal = r + cfg.gamma * target(s2).gather(1, best).squeeze(1)
        q = online(s).gather(1, a[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()

        running += 0.01 * (loss.item() - running)
        if update % cfg.sync_every == 0:
            target.load_state_dict(accelerator.unwrap_model(online).state_dict())
            accelerator.print(f"update {update} td {running:.4f} reward {reward.mean().item():.2f}", flush=True)
        if update and update % cfg.save_every == 0:
            accelerator.save_state("dqn_state")


if __name__ == "__main__":
    main(DQNConfig())
