"""Who will own each point of a 13 x 13 Go board: a small residual network on hand-made feature planes."""

from collections import deque

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "positions": 2048,
    "batch_size": 64,
    "channels": 32,
    "blocks": 2,
    "learning_rate": 2e-3,
    "epochs": 40,
}

SIZE = 13
EMPTY, BLACK, WHITE = 0, 1, 2
AROUND = {
    (row, column): [
        (row + down, column + right)
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1))
        if 0 <= row + down < SIZE and 0 <= column + right < SIZE
    ]
    for row in range(SIZE)
    for column in range(SIZE)
}


def chain(board, start):
    """The stones that are connected with the one at `start`, and the empty points next to them."""
    color, stones, liberties = board[start[0]][start[1]], {start}, set()
    queue = deque([start])
    while queue:
        for row, column in AROUND[queue.popleft()]:
            if board[row][column] == EMPTY:
                liberties.add((row, column))
            elif board[row][column] == color and (row, column) not in stones:
                stones.add((row, column))
                queue.append((row, column))
    return stones, liberties


def distances(board, color):
    """Steps over empty points from the nearest stone of one color."""
    reached = np.full((SIZE, SIZE), 2 * SIZE, dtype=np.float32)
    queue = deque(point for point in AROUND if board[point[0]][point[1]] == color)
    for point in queue:
        reached[point] = 0
    while queue:
        point = queue.popleft()
        for row, column in AROUND[point]:
            if board[row][column] == EMPTY and reached[row, column] > reached[point] + 1:
                reached[row, column] = reached[point] + 1
                queue.append((row, column))
    return reached / SIZE


def feature_planes(position):
    board = position.tolist()
    liberties = np.zeros((4, SIZE, SIZE), dtype=np.float32)
    sizes = np.zeros((SIZE, SIZE), dtype=np.float32)
    done = set()
    for point in AROUND:
        if board[point[0]][point[1]] == EMPTY or point in done:
            continue
        stones, free = chain(board, point)
        done |= stones
        for row, column in stones:
            liberties[min(len(free), 3), row, column] = 1
            sizes[row, column] = len(stones) / 10
    colors = [position == color for color in (EMPTY, BLACK, WHITE)]
    planes = [*colors, *liberties, sizes, distances(board, BLACK), distances(board, WHITE)]
    return np.stack(planes).astype(np.float32)


class Positions(Dataset):
    def __init__(self, boards, owners):
        self.boards = boards
        self.owners = torch.from_numpy(owners)

    def __len__(self):
        return len(self.boards)

    def __getitem__(self, index):
        return torch.from_numpy(feature_planes(self.boards[index])), self.owners[index]


def played(count, seed):
    """Positions from the middle of a game, and the owners that a smooth influence of the final stones gives."""
    stones = np.random.default_rng(seed).choice([EMPTY, BLACK, WHITE], size=(count, SIZE, SIZE), p=[0.5, 0.25, 0.25])
    sign = torch.from_numpy(np.where(stones == BLACK, 1.0, np.where(stones == WHITE, -1.0, 0.0))).float()
    bell = torch.exp(-(torch.arange(-3, 4).float() ** 2) / 4)
    influence = F.conv2d(sign[:, None], torch.outer(bell, bell)[None, None], padding=3)[:, 0]
    return stones.astype(np.int8), torch.tanh(influence).numpy()


class Games(L.LightningDataModule):
    def __init__(self, config):
        super().__init__()
        self.batch_size = config["batch_size"]
        self.train_set = Positions(*played(config["positions"], seed=5))
        self.held_out = Positions(*played(config["positions"] // 8, seed=6))

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, batch_size=128)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.first(x))))


class Ownership(L.LightningModule):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width = config["channels"]
        blocks = [Block(width) for _ in range(config["blocks"])]
        self.net = nn.Sequential(nn.Conv2d(10, width, 3, padding=1), nn.ReLU(), *blocks, nn.Conv2d(width, 1, 1))

    def training_step(self, batch, batch_index):
        planes, owners = batch
        return F.mse_loss(torch.tanh(self.net(planes))[:, 0], owners)

    def validation_step(self, batch, batch_index):
        planes, owners = batch
        self.log("agreement", ((self.net(planes)[:, 0] > 0) == (owners > 0)).float().mean())

    def on_validation_epoch_end(self):
        print(f"epoch {self.current_epoch}: agreement {self.trainer.callback_metrics['agreement'].item():.3f}")

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.config["learning_rate"], fused=True)


if __name__ == "__main__":
    L.seed_everything(1)
    trainer = L.Trainer(
        max_epochs=CONFIG["epochs"],
        check_val_every_n_epoch=10,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(Ownership(CONFIG), datamodule=Games(CONFIG))
