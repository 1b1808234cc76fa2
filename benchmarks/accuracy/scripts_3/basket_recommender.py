"""Next-item recommendation from shopping baskets, EmbeddingBag encoder, own trainer class."""

from __future__ import annotations

import dataclasses
import logging
from typing import Iterator

import torch
from torch import Tensor, nn

log = logging.getLogger("basket")

ITEMS = 6_000
BASKET = 12


@dataclasses.dataclass
class BasketBatch:
    items: Tensor
    wanted: Tensor


class Shop:
    """Customers with a taste: baskets are drawn around a cluster of items, the held-out item too."""

    def __init__(self, n: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        taste = torch.randint(ITEMS, (n, 1), generator=g)
        spread = torch.randn(n, BASKET + 1, generator=g).mul(40).long()
        self.baskets = (taste + spread) % ITEMS

    def __len__(self) -> int:
        return len(self.baskets)

    def batches(self, size: int, shuffle: bool) -> Iterator[BasketBatch]:
        order = torch.randperm(len(self)) if shuffle else torch.arange(len(self))
        for chosen in order.split(size):
            rows = self.baskets[chosen]
            yield BasketBatch(items=rows[:, :BASKET], wanted=rows[:, BASKET])


class BasketNet(nn.Module):
    def __init__(self, dim: int = 64, hidden: int = 256) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(ITEMS, dim, mode="mean")
        self.tower = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.scores = nn.Linear(hidden, ITEMS)

    def forward(self, items: Tensor) -> Tensor:
        return self.scores(self.tower(self.bag(items)))


class RecommenderTrainer:
    def __init__(self, model: nn.Module, train: Shop, held_out: Shop, *, batch_size: int, lr: float, check_interval: int) -> None:
        self.model, self.train_shop, self.held_out = model, train, held_out
        self.batch_size = batch_size
        self.check_interval = check_interval
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
        self.criterion = nn.CrossEntropyLoss()
        self.best_recall, self.step = 0.0, 0

    def training_step(self, batch: BasketBatch) -> Tensor:
        loss = self.criterion(self.model(batch.items), batch.wanted)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    @torch.inference_mode()
    def recall_at(self, k: int = 20) -> float:
        self.model.eval()
        hits = 0
        for batch in self.held_out.batches(self.batch_size, shuffle=False):
            top = self.model(batch.items).topk(k, dim=1).indices
            hits += int((top == batch.wanted.unsqueeze(1)).any(1).sum())
        self.model.train()
        return hits / len(self.held_out)

    def fit(self, epochs: int) -> None:
        for epoch in range(epochs):
            for batch in self.train_shop.batches(self.batch_size, shuffle=True):
                loss = self.training_step(batch)
                self.step += 1
                if self.step % self.check_interval == 0:
                    recall = self.recall_at()
                    self.best_recall = max(recall, self.best_recall)
                    log.info("epoch %d step %d loss %.3f recall@20 %.4f", epoch, self.step, loss.item(), recall)
        log.info("best recall@20 %.4f", self.best_recall)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(19)
    trainer = RecommenderTrainer(
        BasketNet(), Shop(64_000, seed=1), Shop(4_096, seed=2), batch_size=256, lr=2e-3, check_interval=8
    )
    trainer.fit(epochs=10)


if __name__ == "__main__":
    main()
