"""Learn ingredient vectors from a catalogue of recipes: which ingredient completes a list with one left out."""

from __future__ import annotations

import contextlib
import gc
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

OPTIONS = {
    "recipes": 12_000,
    "ingredients": 2400,
    "cuisines": 24,
    "listed": 10,
    "batch": 384,
    "width": 128,
    "hidden": 1024,
    "epochs": 24,
    "lr": 1.5e-3,
    "seed": 31,
}


@dataclass
class Ingredient:
    number: int
    grams: float
    preparation: list[str] = field(default_factory=list)


@dataclass
class Recipe:
    title: str
    cuisine: int
    ingredients: list[Ingredient]
    tags: dict[str, float] = field(default_factory=dict)


class Catalogue:
    """The recipes as the kitchen's editor knows them; the trainer asks for numbers, the report for titles."""

    MANNERS = ("chopped", "ground", "whole", "toasted", "peeled")

    def __init__(self, options: dict) -> None:
        rng = np.random.default_rng(options["seed"])
        self.ingredients = options["ingredients"]
        popularity = rng.dirichlet(np.full(self.ingredients, 0.05), size=options["cuisines"]).cumsum(axis=1)
        cuisines = rng.integers(0, options["cuisines"], size=options["recipes"])
        draws = rng.random((options["recipes"], options["listed"]))
        grams = rng.gamma(2.0, 60.0, size=draws.shape).tolist()
        self.recipes: list[Recipe] = []
        for number, cuisine in enumerate(cuisines.tolist()):
            chosen = np.searchsorted(popularity[cuisine], draws[number]).clip(max=self.ingredients - 1).tolist()
            listed = [
                Ingredient(which, weight, [self.MANNERS[which % len(self.MANNERS)]])
                for which, weight in zip(chosen, grams[number], strict=True)
            ]
            self.recipes.append(Recipe(f"No. {number}", cuisine, listed, {"servings": 2.0 + number % 5}))

    def numbers(self) -> Tensor:
        return torch.tensor([[item.number for item in recipe.ingredients] for recipe in self.recipes])

    def commonest(self, cuisine: int, count: int = 3) -> list[int]:
        wanted = (recipe for recipe in self.recipes if recipe.cuisine == cuisine)
        found = Counter(item.number for recipe in wanted for item in recipe.ingredients)
        return [number for number, _ in found.most_common(count)]


class Completer(nn.Module):
    def __init__(self, ingredients: int, width: int, hidden: int) -> None:
        super().__init__()
        self.vectors = nn.Embedding(ingredients, width)
        self.attention = nn.Linear(width, 1)
        self.body = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.score = nn.Linear(hidden, ingredients)

    def forward(self, listed: Tensor) -> Tensor:
        vectors = self.vectors(listed)
        weights = self.attention(vectors).softmax(dim=1)
        return self.score(self.body((weights * vectors).sum(dim=1)))


class Stopwatch:
    """Time spent within steps; each ends with the memory that it used handed back."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.tidy()
        self.steps += 1
        self.seconds += time.perf_counter() - began

    def tidy(self) -> None:
        gc.collect()

    def rate(self) -> float:
        return self.steps / self.seconds


def leave_one_out(recipes: Tensor) -> tuple[Tensor, Tensor]:
    """Every recipe without one of its ingredients, and the one that is missing."""
    rows, listed = recipes.shape
    missing = torch.randint(listed, (rows, 1))
    kept = torch.arange(listed).expand(rows, listed) != missing
    return recipes[kept].view(rows, listed - 1), recipes.gather(1, missing).squeeze(1)


def run(options: dict) -> None:
    set_seed(options["seed"])
    accelerator = Accelerator()
    catalogue = Catalogue(options)
    recipes = TensorDataset(catalogue.numbers())
    loader = DataLoader(recipes, batch_size=options["batch"], shuffle=True, drop_last=True)
    model = Completer(catalogue.ingredients, options["width"], options["hidden"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=options["lr"], weight_decay=0.01, fused=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    watch = Stopwatch()
    for epoch in range(options["epochs"]):
        model.train()
        for (batch,) in loader:
            with watch.step():
                listed, missing = leave_one_out(batch)
                loss = F.cross_entropy(model(listed), missing)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if watch.steps % 100 == 0:
                accelerator.print(f"{watch.steps}: loss {loss.item():.3f}, {watch.rate():.1f} steps/s", flush=True)
        accelerator.print(f"epoch {epoch}: cuisine {epoch} is mostly {catalogue.commonest(epoch)}", flush=True)


if __name__ == "__main__":
    run(OPTIONS)
