"""Routes support tickets to one of twelve teams: a small transformer over word pieces, under Accelerate."""

import random
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class RoutingConfig:
    vocabulary: int = 3000
    width: int = 192
    layers: int = 3
    heads: int = 6
    window: int = 96
    teams: int = 12
    tickets: int = 12800
    batch: int = 32
    epochs: int = 4
    lr: float = 3e-4
    seed: int = 17


class Tickets(Dataset):
    """Tickets as the export has them, already as ids; the subject and the first sentence only."""

    def __init__(self, cfg: RoutingConfig) -> None:
        rng = random.Random(cfg.seed)
        self.rows = []
        for _ in range(cfg.tickets):
            team = rng.randrange(cfg.teams)
            ids = [rng.randrange(20 + team * 40, 800 + team * 40) for _ in range(rng.randint(38, 46))]
            self.rows.append((ids, team))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[list[int], int]:
        return self.rows[index]


class TicketCollator:
    def __init__(self, cfg: RoutingConfig) -> None:
        self.window = cfg.window

    def __call__(self, rows):
        size = self.window
        ids = torch.tensor([row + [0] * (size - len(row)) for row, _ in rows])
        return {"ids": ids, "mask": ids.ne(0), "team": torch.tensor([team for _, team in rows])}


class Router(nn.Module):
    def __init__(self, cfg: RoutingConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(cfg.vocabulary, cfg.width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(cfg.window, cfg.width))
        layer = nn.TransformerEncoderLayer(
            cfg.width, cfg.heads, 4 * cfg.width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, cfg.layers, enable_nested_tensor=False)
        self.head = nn.Linear(cfg.width, cfg.teams)

    def forward(self, ids, mask):
        hidden = self.words(ids) + self.places[: ids.size(1)]
        hidden = self.encoder(hidden, src_key_padding_mask=~mask)
        weight = mask.unsqueeze(-1).float()
        return self.head((hidden * weight).sum(1) / weight.sum(1))


def main() -> None:
    cfg = RoutingConfig()
    set_seed(cfg.seed)
    accelerator = Accelerator(cpu=True)
    loader = DataLoader(Tickets(cfg), batch_size=cfg.batch, shuffle=True, collate_fn=TicketCollator(cfg), drop_last=True)
    model = Router(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    done = 0
    for epoch in range(cfg.epochs):
        model.train()
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["ids"], batch["mask"]), batch["team"])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if done % 100 == 0:
                accelerator.print(f"epoch {epoch} step {done} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
