# PointNet on simulated depth-sensor scans, with the Hugging Face Trainer as the loop.
# A scan = the object seen from a random side: the far half is hidden, depth noise grows with distance,
# and what is left is thinned out by farthest point sampling (as in PointNet++).
import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

set_seed(2024)

SHAPES = ["sphere", "cube", "cylinder", "cone", "torus"]
POINTS = 96

settings = {
    "output_dir": "scans",
    "num_train_epochs": 60,
    "per_device_train_batch_size": 24,
    "learning_rate": 1e-3,
    "warmup_steps": 50,
    "dataloader_num_workers": 1,
    "dataloader_persistent_workers": True,
    "dataloader_drop_last": True,
    "logging_steps": 200,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
}


def surface(shape, n, rng):
    u, v = rng.uniform(0, 2 * np.pi, n), rng.uniform(-1, 1, n)
    if shape == "sphere":
        r = np.sqrt(1 - v**2)
        return np.stack([r * np.cos(u), r * np.sin(u), v], 1)
    if shape == "cube":
        p = rng.uniform(-1, 1, (n, 3))
        p[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1.0, 1.0], n)
        return p * 0.8
    if shape == "cylinder":
        return np.stack([0.7 * np.cos(u), 0.7 * np.sin(u), v], 1)
    if shape == "cone":
        r = (1 - v) / 2
        return np.stack([r * np.cos(u), r * np.sin(u), v], 1)
    w = np.pi * v
    r = 0.7 + 0.3 * np.cos(w)
    return np.stack([r * np.cos(u), r * np.sin(u), 0.3 * np.sin(w)], 1)


def farthest(points, count):
    chosen = np.empty(count, dtype=np.int64)
    chosen[0] = np.random.randint(len(points))
    gap = np.full(len(points), np.inf)
    for k in range(1, count):
        gap = np.minimum(gap, ((points - points[chosen[k - 1]]) ** 2).sum(1))
        chosen[k] = gap.argmax()
    return points[chosen]


class Scans(Dataset):
    def __init__(self, models=400, views=16):
        rng = np.random.default_rng(11)
        self.meshes = [surface(SHAPES[i % 5], 900, rng).astype(np.float32) for i in range(models)]
        self.views = views

    def __len__(self):
        return len(self.meshes) * self.views

    def __getitem__(self, i):
        which = i % len(self.meshes)
        # QR of a Gaussian matrix is a random rotation
        turn, _ = np.linalg.qr(np.random.randn(3, 3))
        cloud = self.meshes[which] @ turn.astype(np.float32)
        visible = cloud[cloud[:, 2] > np.quantile(cloud[:, 2], np.random.uniform(0.3, 0.5))]
        visible = visible + np.random.randn(*visible.shape).astype(np.float32) * 0.02 * (1.5 - visible[:, 2:])
        return {"points": farthest(visible, POINTS).astype(np.float32), "labels": which % 5}


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, 192))
        self.classify = nn.Sequential(nn.Linear(192, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, len(SHAPES)))

    def forward(self, points, labels=None):
        logits = self.classify(self.local(points).amax(1))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def main():
    trainer = Trainer(model=PointNet(), args=TrainingArguments(**settings), train_dataset=Scans())
    trainer.train()


if __name__ == "__main__":
    main()
