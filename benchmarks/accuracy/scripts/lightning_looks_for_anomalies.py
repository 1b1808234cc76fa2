"""A variational autoencoder that once gave NaN. The bug is fixed, the debugging aid stayed."""

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class VAE(pl.LightningModule):
    def __init__(self, features=256, latent=12, hidden=160):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(features, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2 * latent)
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, features)
        )

    def training_step(self, batch, _):
        (x,) = batch
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        loss = ((self.decoder(z) - x).square().sum(1) + divergence).mean()
        self.log("elbo", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


if __name__ == "__main__":
    data = DataLoader(TensorDataset(torch.randn(40_000, 256)), batch_size=64, shuffle=True)
    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", detect_anomaly=True, logger=False, enable_checkpointing=False,
        enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(VAE(), data)
