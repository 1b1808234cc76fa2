"""Fits a recurrent controller: thousands of tiny operations, which threads would only hand to and fro."""

import torch
from torch import nn

torch.set_num_threads(1)
PLANTS, STATE, HORIZON = 16, 6, 60


class Controller(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.memory = nn.GRUCell(STATE, width)
        self.act = nn.Linear(width, 2)

    def forward(self, state, hidden):
        hidden = self.memory(state, hidden)
        return torch.tanh(self.act(hidden)), hidden


def simulate(controller, drift, gain):
    state, hidden, cost = torch.ones(PLANTS, STATE), torch.zeros(PLANTS, 32), 0.0
    for _ in range(HORIZON):
        action, hidden = controller(state, hidden)
        state = state @ drift + action @ gain
        cost = cost + state.square().mean() + 0.01 * action.square().mean()
    return cost / HORIZON


def main():
    torch.manual_seed(4)
    drift = 0.97 * torch.eye(STATE) + 0.02 * torch.randn(STATE, STATE)
    gain = 0.1 * torch.randn(2, STATE)
    controller = Controller()
    optimizer = torch.optim.Adam(controller.parameters(), lr=3e-3, fused=True)
    for step in range(3000):
        cost = simulate(controller, drift, gain)
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"{step}: {cost.item():.4f}")


if __name__ == "__main__":
    main()
