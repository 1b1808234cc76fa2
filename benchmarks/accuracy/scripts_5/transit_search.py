"""Find transiting exoplanets in folded light curves."""

import logging
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("transits")


@dataclass
class Schedule:
    epochs: int = 40
    validate_every: int = 10
    report_every: int = 50


@dataclass
class Search:
    stars: int = 16_000
    held_out: int = 1_024
    points: int = 512
    width: int = 32
    batch_size: int = 64
    lr: float = 1e-3
    schedule: Schedule = field(default_factory=Schedule)


def fold_light_curves(stars: int, points: int, generator: torch.Generator) -> TensorDataset:
    """Half of the stars have a planet; of the others, some are eclipsing binaries with a V-shaped dip."""
    phase = torch.linspace(-0.5, 0.5, points)
    kind = torch.randint(4, (stars, 1), generator=generator)
    depth = 0.3 + torch.rand(stars, 1, generator=generator)
    half = 0.02 + 0.05 * torch.rand(stars, 1, generator=generator)
    away = (phase - 0.3 * (torch.rand(stars, 1, generator=generator) - 0.5)).abs() / half
    box = torch.sigmoid(12 * (1 - away))
    wedge = torch.relu(1 - away / 1.5)
    flux = torch.randn(stars, points, generator=generator) * 0.35
    flux += 0.3 * torch.sin(2 * torch.pi * (phase + torch.rand(stars, 1, generator=generator)))
    flux -= depth * torch.where(kind >= 2, box, torch.where(kind == 1, wedge, 0.0))
    return TensorDataset(flux.unsqueeze(1), (kind[:, 0] >= 2).float())


class Residual(nn.Module):
    def __init__(self, width: int, dilation: int):
        super().__init__()
        self.conv1 = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation, bias=False)
        self.conv2 = nn.Conv1d(width, width, 5, padding=2, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class TransitNet(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 7, stride=2, padding=3)
        self.fine = nn.Sequential(Residual(width, 1), Residual(width, 2))
        self.merge = nn.Conv1d(width, 2 * width, 4, stride=4)
        self.coarse = nn.Sequential(Residual(2 * width, 1), Residual(2 * width, 2))
        self.head = nn.Linear(4 * width, 1)

    def forward(self, flux: torch.Tensor) -> torch.Tensor:
        x = self.coarse(self.merge(self.fine(F.relu(self.stem(flux)))))
        return self.head(torch.cat([x.mean(2), x.amax(2)], dim=1)).squeeze(1)


@torch.inference_mode()
def held_out_scores(model: nn.Module, loader: DataLoader, accelerator: Accelerator) -> dict[str, float]:
    model.eval()
    logits, labels = [], []
    for flux, label in loader:
        scored, known = accelerator.gather_for_metrics((model(flux), label))
        logits.append(scored)
        labels.append(known)
    model.train()
    logits, labels = torch.cat(logits), torch.cat(labels)
    ranks = logits.argsort().argsort().float() + 1
    planets = labels.sum()
    area = (ranks[labels == 1].sum() - planets * (planets + 1) / 2) / (planets * (len(labels) - planets))
    return {"loss": F.binary_cross_entropy_with_logits(logits, labels).item(), "auc": area.item()}


class Trainer:
    def __init__(self, search: Search):
        generator = torch.Generator().manual_seed(77)
        self.schedule = search.schedule
        self.accelerator = Accelerator(cpu=True)
        train = fold_light_curves(search.stars, search.points, generator)
        held_out = fold_light_curves(search.held_out, search.points, generator)
        model = TransitNet(search.width)
        self.model, self.optimizer, self.train_loader, self.held_out_loader = self.accelerator.prepare(
            model,
            torch.optim.AdamW(model.parameters(), lr=search.lr, fused=True),
            DataLoader(train, batch_size=search.batch_size, shuffle=True, drop_last=True),
            DataLoader(held_out, batch_size=128),
        )
        self.best_auc, self.step = 0.0, 0

    def update(self, flux: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(self.model(flux), label)
        self.accelerator.backward(loss)
        self.optimizer.step()
        self.step += 1
        return loss.detach()

    def fit(self) -> None:
        for epoch in range(self.schedule.epochs):
            for flux, label in self.train_loader:
                loss = self.update(flux, label)
                if self.step % self.schedule.report_every == 0:
                    log.info("epoch %d step %d loss %.4f best auc %.4f", epoch, self.step, loss, self.best_auc)
                if self.step % self.schedule.validate_every == 0:
                    scores = held_out_scores(self.model, self.held_out_loader, self.accelerator)
                    self.best_auc = max(self.best_auc, scores["auc"])


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("accelerate").setLevel(logging.WARNING)
    set_seed(77)
    Trainer(Search()).fit()
