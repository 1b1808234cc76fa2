"""PPO on a vectorised pursuit task: a point with inertia has to reach a drifting target."""

import json
import math
import sys
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.distributions import Normal

CONFIG = {
    "environments": 256,
    "horizon": 64,
    "passes": 4,
    "minibatch": 2048,
    "gamma": 0.98,
    "lam": 0.95,
    "clip": 0.2,
    "entropy_weight": 0.002,
    "value_weight": 0.5,
    "max_grad_norm": 0.5,
    "lr": 3e-4,
    "rounds": 400,
}


class Pursuit:
    """All environments at once; an episode ends after 120 moves or at the target."""

    observation, action = 8, 2

    def __init__(self, count: int) -> None:
        self.count = count
        self.state = torch.zeros(count, 6)
        self.drift = torch.zeros(count, 2)
        self.age = torch.zeros(count)
        self._restart(torch.ones(count, dtype=torch.bool))

    def _restart(self, which: torch.Tensor) -> None:
        fresh = torch.randn(self.count, 6) * torch.tensor([1.0, 1.0, 0.1, 0.1, 1.0, 1.0])
        self.state = torch.where(which[:, None], fresh, self.state)
        self.drift = torch.where(which[:, None], torch.randn(self.count, 2) * 0.02, self.drift)
        self.age = torch.where(which, torch.zeros_like(self.age), self.age)

    def observe(self) -> torch.Tensor:
        return torch.cat([self.state, self.drift * 20], dim=1)

    def move(self, push: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        place, speed, target = self.state.split(2, dim=1)
        before = (target - place).norm(dim=1)
        speed = 0.92 * speed + 0.08 * push.clamp(-1, 1)
        place, target = place + speed, target + self.drift
        after = (target - place).norm(dim=1)
        self.state = torch.cat([place, speed, target], dim=1)
        self.age = self.age + 1
        is_caught = after < 0.1
        reward = before - after + is_caught.float() - 0.01 * push.square().sum(1)
        is_over = is_caught | (self.age >= 120)
        self._restart(is_over)
        return reward, is_over.float()


class Agent(nn.Module):
    def __init__(self, observation: int, action: int, width: int = 288) -> None:
        super().__init__()
        self.actor = self._tower(observation, action, width)
        self.critic = self._tower(observation, 1, width)
        self.log_std = nn.Parameter(torch.full((action,), -0.5))

    @staticmethod
    def _tower(inner: int, outer: int, width: int) -> nn.Sequential:
        head = nn.Linear(width, outer)
        nn.init.orthogonal_(head.weight, 0.01)
        return nn.Sequential(nn.Linear(inner, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), head)

    def policy(self, seen: torch.Tensor) -> Normal:
        return Normal(self.actor(seen), self.log_std.exp(), validate_args=False)


@dataclass
class Record:
    update: int
    policy: float
    value: float
    entropy: float
    kl: float


@torch.no_grad()
def rollout(world: Pursuit, agent: Agent) -> dict[str, torch.Tensor]:
    rows: dict[str, list[torch.Tensor]] = {name: [] for name in ("seen", "did", "logp", "value", "reward", "over")}
    for _ in range(CONFIG["horizon"]):
        seen = world.observe()
        policy = agent.policy(seen)
        did = policy.sample()
        reward, over = world.move(did)
        found = (seen, did, policy.log_prob(did).sum(1), agent.critic(seen).squeeze(1), reward, over)
        for name, tensor in zip(rows, found, strict=True):
            rows[name].append(tensor)
    data = {name: torch.stack(tensors) for name, tensors in rows.items()}
    ahead, running = agent.critic(world.observe()).squeeze(1), torch.zeros(world.count)
    gain = torch.empty_like(data["reward"])
    for t in reversed(range(CONFIG["horizon"])):
        alive = 1 - data["over"][t]
        delta = data["reward"][t] + CONFIG["gamma"] * alive * ahead - data["value"][t]
        running = delta + CONFIG["gamma"] * CONFIG["lam"] * alive * running
        gain[t], ahead = running, data["value"][t]
    data["target"] = gain + data["value"]
    data["gain"] = (gain - gain.mean()) / (gain.std() + 1e-6)
    return {name: tensor.flatten(0, 1) for name, tensor in data.items()}


def losses(agent: Agent, part: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    policy = agent.policy(part["seen"])
    shift = policy.log_prob(part["did"]).sum(1) - part["logp"]
    ratio = shift.exp()
    bounded = ratio.clamp(1 - CONFIG["clip"], 1 + CONFIG["clip"])
    actor = -torch.minimum(ratio * part["gain"], bounded * part["gain"]).mean()
    critic = (agent.critic(part["seen"]).squeeze(1) - part["target"]).square().mean()
    entropy = (agent.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum()
    return actor, critic, entropy, (ratio - 1 - shift).mean()


def train() -> None:
    torch.manual_seed(3)
    world = Pursuit(CONFIG["environments"])
    agent = Agent(Pursuit.observation, Pursuit.action)
    optimizer = torch.optim.Adam(agent.parameters(), lr=CONFIG["lr"], fused=True)
    update = 0
    for _ in range(CONFIG["rounds"]):
        data = rollout(world, agent)
        for _ in range(CONFIG["passes"]):
            for chosen in torch.randperm(len(data["gain"])).split(CONFIG["minibatch"]):
                actor, critic, entropy, kl = losses(agent, {name: data[name][chosen] for name in data})
                loss = actor + CONFIG["value_weight"] * critic - CONFIG["entropy_weight"] * entropy
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), CONFIG["max_grad_norm"])
                optimizer.step()
                update += 1
                record = Record(update, actor.item(), critic.item(), entropy.item(), kl.item())
                sys.stdout.write(json.dumps(asdict(record)) + "\n")


if __name__ == "__main__":
    train()
