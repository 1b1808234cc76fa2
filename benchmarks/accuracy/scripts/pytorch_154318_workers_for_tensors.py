"""Fits a classifier to a table that is in memory anyway. Four workers, as in every other script of the group."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ROWS, FEATURES, CLASSES = 4096, 64, 8


def main():
    torch.manual_seed(1)
    features = torch.randn(ROWS, FEATURES)
    labels = (features @ torch.randn(FEATURES, CLASSES)).argmax(1)
    loader = DataLoader(TensorDataset(features, labels), batch_size=128, shuffle=True, num_workers=4)

    model = nn.Sequential(nn.Linear(FEATURES, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
    for epoch in range(100):
        correct = 0
        for x, y in loader:
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            correct += (logits.argmax(1) == y).sum()
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: accuracy {correct.item() / ROWS:.3f}")


if __name__ == "__main__":
    main()
