"""A small ViT, written out, sorts galaxies by shape. Logs each step: one takes long enough on this laptop."""
import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset


def galaxies(n, size=48, seed=0):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    label = torch.randint(4, (n,), generator=g)
    tilt = torch.rand(n, 1, 1, generator=g) * 3.1416
    u, v = x * tilt.cos() + y * tilt.sin(), y * tilt.cos() - x * tilt.sin()
    squeeze = (1 + label.float())[:, None, None]
    light = torch.exp(-4 * (u**2 + squeeze * v**2))
    return (light + 0.2 * torch.randn(n, size, size, generator=g))[:, None], label


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d)
        x = x + self.out(a)
        return x + self.ff(self.norm2(x))


class GalaxyViT(pl.LightningModule):
    def __init__(self, dim=192, depth=5, heads=6, patch=6, size=48, classes=4, lr=5e-4):
        super().__init__()
        self.save_hyperparameters()
        self.patchify = nn.Conv2d(1, dim, patch, patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, images):
        tokens = self.patchify(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.cls.expand(len(tokens), -1, -1), tokens], dim=1) + self.pos
        return self.head(self.blocks(tokens)[:, 0])

    def training_step(self, batch, _):
        images, label = batch
        loss = F.cross_entropy(self(images), label)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, label = batch
        self.log("val/acc", (self(images).argmax(1) == label).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.05, fused=True)


if __name__ == "__main__":
    pl.seed_everything(2024)
    train_loader = DataLoader(TensorDataset(*galaxies(9600)), batch_size=32, shuffle=True, drop_last=True)
    val_loader = DataLoader(TensorDataset(*galaxies(256, seed=1)), batch_size=64)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=4,
        num_sanity_val_steps=0,
        logger=CSVLogger("logs", flush_logs_every_n_steps=100),
        log_every_n_steps=1,
        callbacks=[ModelCheckpoint(every_n_train_steps=200, save_top_k=1)],
        enable_progress_bar=False,
    )
    trainer.fit(GalaxyViT(), train_loader, val_loader)
