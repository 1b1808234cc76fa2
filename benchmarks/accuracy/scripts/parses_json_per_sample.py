"""Predicts the next reading of a meter. The export has one JSON record per line."""

import json
import random
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

READINGS = 512


def export(path, count):
    draw = random.Random(7)
    with path.open("w") as file:
        for meter in range(count):
            series = [round(draw.gauss(10, 3), 4) for _ in range(READINGS + 1)]
            meta = {"meter": meter, "site": f"site-{meter % 17}", "unit": "kWh", "tags": ["auto"] * 20}
            file.write(json.dumps({"meta": meta, "readings": series}) + "\n")


class Meters(Dataset):
    def __init__(self, path):
        self.lines = path.read_text().splitlines()

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        record = json.loads(self.lines[index])
        series = torch.tensor(record["readings"])
        return series[:-1], series[-1]


def main():
    path = Path("meters.jsonl")
    if not path.exists():
        export(path, 3000)
    loader = DataLoader(Meters(path), batch_size=96, shuffle=True)
    model = nn.Sequential(nn.Linear(READINGS, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(20):
        for series, target in loader:
            loss = nn.functional.huber_loss(model(series).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
