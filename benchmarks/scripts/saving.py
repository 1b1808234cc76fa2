"""A raw loop that writes its model, 16 MB, into the working folder after every fifth step."""

import torch

SIDE = 2048
SAVE_EVERY = 5


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(SIDE, SIDE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1, 2001):
        loss = model(torch.randn(64, SIDE)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % SAVE_EVERY == 0:
            torch.save(model.state_dict(), f"checkpoint-{step % 4}.pt")


if __name__ == "__main__":
    main()
