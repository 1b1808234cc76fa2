"""Offline Q-learning from a replay buffer of logged transitions."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STATE, ACTIONS, GAMMA = 24, 6, 0.98


class ReplayBuffer(Dataset):
    def __init__(self, size):
        draw = torch.Generator().manual_seed(3)
        self.state = torch.randn(size, STATE, generator=draw)
        self.action = torch.randint(ACTIONS, (size,), generator=draw)
        self.reward = torch.randn(size, generator=draw)

    def __len__(self):
        return len(self.reward) - 1

    def __getitem__(self, i):
        return self.state[i], self.action[i], self.reward[i], self.state[i + 1]


def q_network():
    return nn.Sequential(nn.Linear(STATE, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, ACTIONS))


def main(updates=2000, batch_size=256):
    loader = DataLoader(ReplayBuffer(400_000), batch_size=batch_size, shuffle=True)
    online = q_network()
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-4, fused=True)
    for update in range(updates):
        state, action, reward, following = next(iter(loader))
        with torch.no_grad():
            goal = reward + GAMMA * target(following).max(1).values
        value = online(state).gather(1, action[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 100 == 0:
            target.load_state_dict(online.state_dict())
            print(f"update {update} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
