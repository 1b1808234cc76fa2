"""Offline Q-learning of a greenhouse's vents and heating from logged seasons, with a conservative penalty."""

import argparse
import copy
from pathlib import Path

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

ACTIONS = 15
READINGS = 28


class Season:
    """Logged transitions of a simulated greenhouse, held as tensors."""

    def __init__(self, transitions: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        drift = 0.2 * torch.randn(READINGS, READINGS, generator=generator) / READINGS**0.5
        effect = 0.3 * torch.randn(ACTIONS, READINGS, generator=generator)
        self.states = torch.randn(transitions, READINGS, generator=generator)
        self.actions = torch.randint(0, ACTIONS, (transitions,), generator=generator)
        noise = 0.1 * torch.randn(transitions, READINGS, generator=generator)
        self.following = 0.9 * self.states + self.states @ drift + effect[self.actions] + noise
        self.rewards = -self.following[:, :4].square().mean(dim=1) - 0.02 * self.actions.float()
        self.ended = (torch.rand(transitions, generator=generator) < 0.01).float()

    def __len__(self) -> int:
        return len(self.states)

    def pick(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.states[rows], self.actions[rows], self.rewards[rows], self.following[rows], self.ended[rows]


class Replay(IterableDataset):
    """Whole batches, drawn with replacement."""

    def __init__(self, season: Season, batch: int, batches: int) -> None:
        self.season, self.batch, self.batches = season, batch, batches

    def __iter__(self):
        for _ in range(self.batches):
            yield self.season.pick(torch.randint(len(self.season), (self.batch,)))


def q_network(width: int, depth: int) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Linear(READINGS, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, ACTIONS))


class ConservativeQ(L.LightningModule):
    def __init__(self, width: int, depth: int, lr: float, discount: float, penalty: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.online = q_network(width, depth)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def training_step(self, batch: tuple[torch.Tensor, ...], index: int) -> torch.Tensor:
        states, actions, rewards, following, ended = batch
        values = self.online(states)
        taken = values.gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.target(following).amax(dim=1)
            goal = rewards + self.hparams.discount * (1 - ended) * best
        conservative = (values.logsumexp(dim=1) - taken).mean()
        loss = F.smooth_l1_loss(taken, goal) + self.hparams.penalty * conservative
        if index % 200 == 0:
            print(f"batch {index}: loss {loss.item():.3f}, value {taken.mean().item():.3f}", flush=True)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, index: int) -> None:
        torch._foreach_lerp_(list(self.target.parameters()), list(self.online.parameters()), 0.005)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.online.parameters(), lr=self.hparams.lr, fused=True)


class KeepPolicy(L.Callback):
    """Writes the network that acts, so that the controller in the greenhouse can fetch the latest one."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every

    def on_fit_start(self, trainer: L.Trainer, module: ConservativeQ) -> None:
        self.folder.mkdir(exist_ok=True)

    def on_train_batch_end(self, trainer: L.Trainer, module: ConservativeQ, outputs, batch, index: int) -> None:
        if trainer.global_step % self.every == 0:
            state = {"step": trainer.global_step, "policy": module.online.state_dict()}
            torch.save(state, self.folder / "latest.pt")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=1536)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--steps", type=int, default=12000)
    parser.add_argument("--keep-every", type=int, default=50)
    options = parser.parse_args()
    L.seed_everything(2, verbose=False)
    replay = Replay(Season(200_000, seed=2), options.batch, options.steps)
    model = ConservativeQ(options.width, options.depth, lr=3e-4, discount=0.98, penalty=0.5)
    trainer = L.Trainer(
        accelerator="cpu",
        max_steps=options.steps,
        callbacks=[KeepPolicy(Path("policies"), options.keep_every)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(model, DataLoader(replay, batch_size=None, num_workers=0))


if __name__ == "__main__":
    main()
