"""Advantage actor-critic for a robot that drives by its range finder; the simulator is a few lines of torch.

Reproducible to the last bit: the reviewers asked for it.
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

BEAMS, MOVES = 144, 5


class Corridor:
    """Many robots at once. A drive ends at a wall; the slowest give up after `limit` moves."""

    def __init__(self, robots, limit):
        self.robots, self.limit = robots, limit
        self.angles = torch.linspace(-1.5, 1.5, BEAMS)
        self.turn = torch.tensor([-0.3, -0.1, 0.0, 0.1, 0.3])

    def reset(self):
        self.offset = 0.5 * torch.randn(self.robots)
        self.heading = 0.3 * torch.randn(self.robots)
        return self.look()

    def look(self):
        side = (self.angles + self.heading[:, None]).sin()
        gap = torch.where(side > 0, 2 - self.offset[:, None], 2 + self.offset[:, None])
        return gap / side.abs().clamp(min=0.1) / 10

    def step(self, move):
        self.heading = self.heading + self.turn[move]
        self.offset = self.offset + 0.3 * self.heading.sin()
        alive = self.offset.abs() < 2
        return self.look(), self.heading.cos() * alive, alive


class Rollout:
    """Room for the longest drive there can be."""

    def __init__(self, limit, robots):
        self.ranges = torch.empty(limit, robots, BEAMS)
        self.moves = torch.empty(limit, robots, dtype=torch.long)
        self.rewards = torch.empty(limit, robots)
        self.alive = torch.empty(limit, robots)
        self.length = 0

    def add(self, ranges, moves, rewards, alive):
        t = self.length
        self.ranges[t], self.moves[t], self.rewards[t], self.alive[t] = ranges, moves, rewards, alive
        self.length += 1

    def returns(self, gamma):
        total, out = torch.zeros_like(self.rewards[0]), []
        for t in reversed(range(self.length)):
            total = self.rewards[t] + gamma * total * self.alive[t]
            out.append(total)
        return torch.stack(out[::-1])


class ActorCritic(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(BEAMS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.policy, self.value = nn.Linear(width, MOVES), nn.Linear(width, 1)

    def forward(self, ranges):
        h = self.body(ranges)
        return self.policy(h), self.value(h).squeeze(-1)


@torch.no_grad()
def drive(net, world, horizon):
    rollout, ranges = Rollout(world.limit, world.robots), world.reset()
    for _ in range(horizon):
        move = Categorical(logits=net(ranges)[0], validate_args=False).sample()
        following, reward, alive = world.step(move)
        rollout.add(ranges, move, reward, alive.float())
        ranges = following
    return rollout


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--robots", type=int, default=128)
    ap.add_argument("--limit", type=int, default=800, help="moves of the longest drive (evaluation)")
    ap.add_argument("--horizon", type=int, default=24, help="moves of a training drive")
    ap.add_argument("--updates", type=int, default=1500)
    ap.add_argument("--nondeterministic", dest="deterministic", action="store_false")
    args = ap.parse_args()

    torch.manual_seed(88)
    torch.use_deterministic_algorithms(args.deterministic)
    world, net = Corridor(args.robots, args.limit), ActorCritic()
    opt = torch.optim.Adam(net.parameters(), lr=7e-4, fused=True)
    for update in range(args.updates):
        rollout = drive(net, world, args.horizon)
        used = slice(0, rollout.length)
        logits, value = net(rollout.ranges[used])
        returns = rollout.returns(gamma=0.97)
        advantage = returns - value.detach()
        policy = Categorical(logits=logits, validate_args=False)
        loss = -(policy.log_prob(rollout.moves[used]) * advantage).mean()
        loss = loss + 0.5 * F.mse_loss(value, returns) - 0.01 * policy.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        if update % 50 == 0:
            print(f"update {update} reward per move {rollout.rewards[used].mean().item():.3f}", flush=True)


if __name__ == "__main__":
    main()
