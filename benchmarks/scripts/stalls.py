"""A raw loop in which every part of a step is held up for a known time: the workload of attribution.py.

Each place (see PLACES) stalls for --base ms per step; the place named by --where for --extra ms more, by sleeping or by
computing (--how). The script measures each stall itself and writes the ms per step of every place, for each step, to
--result. There is a tiny model, so that all hooks have something to see.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PLACES = ("dataset", "collate", "forward", "backward", "optimizer", "checkpoint", "logging", "unhooked")
BATCH = 4


class Stalls:
    """Holds a place up and remembers for how long, per step."""

    def __init__(self, ms: dict[str, float], how: str) -> None:
        self.ms = ms
        self.how = how
        self.steps: list[dict[str, float]] = []
        self.spent = dict.fromkeys(PLACES, 0.0)

    def seconds(self, place: str) -> float:
        return self.ms[place] / 1e3

    def at(self, place: str, part: float = 1.0) -> None:
        start = time.perf_counter()
        seconds = self.seconds(place) * part
        if self.how == "sleep":
            time.sleep(seconds)
        while time.perf_counter() - start < seconds:
            pass
        self.spent[place] += 1e3 * (time.perf_counter() - start)

    def end_step(self) -> None:
        self.steps.append(self.spent)
        self.spent = dict.fromkeys(PLACES, 0.0)


class Samples(Dataset):
    def __init__(self, stalls: Stalls, length: int) -> None:
        self.stalls, self.length = stalls, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.stalls.at("dataset", 1 / BATCH)
        return torch.full((8,), float(index % 7))


class Model(nn.Module):
    def __init__(self, stalls: Stalls) -> None:
        super().__init__()
        self.stalls, self.layer = stalls, nn.Linear(8, 8)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.stalls.at("forward")
        outputs = self.layer(inputs)
        outputs.register_hook(self.hold_up)
        return outputs

    def hold_up(self, gradient: torch.Tensor) -> None:
        self.stalls.at("backward")


class SlowSGD(torch.optim.SGD):
    stalls: Stalls

    def step(self, closure: None = None) -> None:
        self.stalls.at("optimizer")
        super().step(closure)


class SlowFile(io.RawIOBase):
    """Takes a save and holds it up once."""

    def __init__(self, stalls: Stalls) -> None:
        self.stalls, self.is_first = stalls, True

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:
        if self.is_first:
            self.stalls.at("checkpoint")
        self.is_first = False
        return len(data)


class SlowHandler(logging.Handler):
    def __init__(self, stalls: Stalls) -> None:
        super().__init__()
        self.stalls = stalls

    def emit(self, record: logging.LogRecord) -> None:
        self.stalls.at("logging")


def bookkeeping(stalls: Stalls) -> None:
    """Nothing that a probe could know of. It waits by itself, so that its own frame is the innermost."""
    start = time.perf_counter()
    seconds = stalls.seconds("unhooked")
    if stalls.how == "sleep":
        time.sleep(seconds)
    while time.perf_counter() - start < seconds:
        pass
    stalls.spent["unhooked"] += 1e3 * (time.perf_counter() - start)


def train(stalls: Stalls, steps: int) -> None:
    torch.manual_seed(0)

    def collate(samples: list[torch.Tensor]) -> torch.Tensor:
        stalls.at("collate")
        return torch.stack(samples)

    loader = DataLoader(Samples(stalls, BATCH * steps), batch_size=BATCH, collate_fn=collate)
    model = Model(stalls)
    optimizer = SlowSGD(model.parameters(), lr=1e-3)
    optimizer.stalls = stalls
    logger = logging.getLogger("stalls")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(SlowHandler(stalls))
    for batch in loader:
        model(batch).square().mean().backward()
        optimizer.step()
        stalls.end_step()
        optimizer.zero_grad()
        torch.save({"step": len(stalls.steps)}, SlowFile(stalls))
        logger.info("step %d", len(stalls.steps))
        bookkeeping(stalls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--where", choices=[*PLACES, "nowhere"], default="nowhere")
    parser.add_argument("--how", choices=["sleep", "busy"], default="sleep")
    parser.add_argument("--base", type=float, default=4.0, metavar="MS")
    parser.add_argument("--extra", type=float, default=20.0, metavar="MS")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--result", help="File for the stalls of each step, as JSON.")
    args = parser.parse_args()
    stalls = Stalls({place: args.base + args.extra * (place == args.where) for place in PLACES}, args.how)
    train(stalls, args.steps)
    if args.result:
        with open(args.result, "w", encoding="utf-8") as file:
            json.dump(stalls.steps, file)


if __name__ == "__main__":
    main()
