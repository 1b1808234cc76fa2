# Toy DDPM on procedurally drawn 48x48 glyphs (circles, bars, crosses). Converted from a notebook.
import math

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {
    "size": 48,
    "images": 1024,
    "batch": 16,
    "width": 32,
    "timesteps": 400,
    "lr": 2e-4,
    "epochs": 20,
}

L.seed_everything(3)
torch.set_num_threads(1)


def draw_glyphs(count, size):
    axis = torch.linspace(-1, 1, size)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    cx, cy = torch.rand(2, count, 1, 1) - 0.5
    radius = 0.2 + 0.4 * torch.rand(count, 1, 1)
    dx, dy = x - cx, y - cy
    circle = ((dx**2 + dy**2).sqrt() - radius).abs() < 0.08
    bar = (dx.abs() < 0.1) & (dy.abs() < radius)
    cross = ((dx - dy).abs() < 0.1) | ((dx + dy).abs() < 0.1)
    which = torch.randint(0, 3, (count, 1, 1))
    image = torch.where(which == 0, circle, torch.where(which == 1, bar, cross))
    return image.float().unsqueeze(1) * 2 - 1


def time_embedding(t, dim):
    freq = torch.exp(-math.log(10000) * torch.arange(dim // 2) / (dim // 2))
    angle = t[:, None].float() * freq[None]
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class Block(nn.Module):
    def __init__(self, c_in, c_out, t_dim):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, c_in), nn.GroupNorm(8, c_out)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.time = nn.Linear(t_dim, c_out)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(emb)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Denoiser(L.LightningModule):
    def __init__(self, width, timesteps, lr):
        super().__init__()
        self.save_hyperparameters()
        self.t_dim = 4 * width
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.down1, self.down2 = Block(width, width, self.t_dim), Block(width, 2 * width, self.t_dim)
        self.middle = Block(2 * width, 2 * width, self.t_dim)
        self.up2, self.up1 = Block(4 * width, width, self.t_dim), Block(2 * width, width, self.t_dim)
        self.out = nn.Conv2d(width, 1, 3, padding=1)
        beta = torch.linspace(1e-4, 0.02, timesteps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - beta, 0))

    def forward(self, x, t):
        emb = time_embedding(t, self.t_dim)
        a = self.down1(self.stem(x), emb)
        b = self.down2(F.avg_pool2d(a, 2), emb)
        c = self.middle(F.avg_pool2d(b, 2), emb)
        d = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1), emb)
        e = self.up1(torch.cat([F.interpolate(d, scale_factor=2), a], 1), emb)
        return self.out(F.silu(e))

    def training_step(self, batch, _):
        (x0,) = batch
        t = torch.randint(0, self.hparams.timesteps, (len(x0),))
        noise = torch.randn_like(x0)
        a = self.alpha_bar[t][:, None, None, None]
        return F.mse_loss(self(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)


glyphs = TensorDataset(draw_glyphs(config["images"], config["size"]))
loader = DataLoader(glyphs, batch_size=config["batch"], shuffle=True, drop_last=True)
model = Denoiser(config["width"], config["timesteps"], config["lr"])
trainer = L.Trainer(
    max_epochs=config["epochs"], accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
)
trainer.fit(model, loader)
torch.save(model.state_dict(), "denoiser.pt")
