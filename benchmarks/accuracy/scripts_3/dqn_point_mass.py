"""DQN on a point mass that has to reach the origin. Batched environment, plain Python replay memory."""

import gc
from collections import deque, namedtuple
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn

Transition = namedtuple("Transition", "state action reward next_state done")
ACTIONS = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)


@dataclass
class Settings:
    seed: int = 8
    envs: int = 8
    memory: int = 20_000
    warm_memory: int = 4_000
    batch: int = 256
    width: int = 768
    gamma: float = 0.98
    lr: float = 3e-4
    total_updates: int = 3_000
    sync_target: int = 250
    report: int = 100
    tidy_every: int = 5


class PointMass:
    def __init__(self, n, rng):
        self.rng, self.n = rng, n
        self.where = rng.uniform(-3, 3, (n, 2)).astype(np.float32)
        self.speed = np.zeros((n, 2), dtype=np.float32)
        self.age = np.zeros(n, dtype=int)

    def observe(self):
        return np.concatenate([self.where, self.speed], axis=1)

    def step(self, chosen):
        self.speed = 0.9 * self.speed + 0.1 * ACTIONS[chosen]
        self.where = self.where + self.speed
        self.age += 1
        distance = np.linalg.norm(self.where, axis=1)
        done = (distance < 0.2) | (self.age >= 200)
        after = self.observe()
        if done.any():
            self.where[done] = self.rng.uniform(-3, 3, (int(done.sum()), 2))
            self.speed[done], self.age[done] = 0, 0
        return after, -distance, done


def q_network(width):
    return nn.Sequential(
        nn.Linear(4, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, len(ACTIONS)),
    )  # fmt: skip


class Agent:
    def __init__(self, s: Settings):
        self.s = s
        self.rng = np.random.default_rng(s.seed)
        self.env = PointMass(s.envs, self.rng)
        self.memory = deque(maxlen=s.memory)
        self.online, self.target = q_network(s.width), q_network(s.width)
        self.target.load_state_dict(self.online.state_dict())
        self.optim = torch.optim.Adam(self.online.parameters(), lr=s.lr, fused=True)

    @torch.no_grad()
    def act(self, epsilon):
        state = self.env.observe()
        greedy = self.online(torch.from_numpy(state)).argmax(1).numpy()
        chosen = np.where(self.rng.random(self.s.envs) < epsilon, self.rng.integers(len(ACTIONS), size=self.s.envs), greedy)
        after, reward, done = self.env.step(chosen)
        self.memory.extend(map(Transition, state, chosen, reward, after, done))

    def draw(self):
        rows = [self.memory[i] for i in self.rng.integers(len(self.memory), size=self.s.batch)]
        return [torch.from_numpy(np.stack(column)) for column in zip(*rows)]

    def learn(self):
        state, action, reward, after, done = self.draw()
        with torch.no_grad():
            future = self.target(after).max(1).values * (~done)
        value = self.online(state).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, reward.float() + self.s.gamma * future)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return loss.detach()


def run(s: Settings):
    torch.manual_seed(s.seed)
    agent = Agent(s)
    while len(agent.memory) < s.warm_memory:
        agent.act(epsilon=1.0)
    for update in range(1, s.total_updates + 1):
        agent.act(epsilon=max(0.05, 1 - update / 1500))
        loss = agent.learn()
        if s.tidy_every and update % s.tidy_every == 0:
            gc.collect()
        if update % s.sync_target == 0:
            agent.target.load_state_dict(agent.online.state_dict())
        if update % s.report == 0:
            print(f"update {update:5d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    run(Settings())
