"""Candidates as parameters of an Optuna study: each axis is categorical, and its labels are what a dashboard shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution

from autotune.model.tuned import Candidate, Space


def labels(space: Space) -> dict[str, list[str]]:
    """For each axis its points in words: "num_workers=2 prefetch_factor=8"."""
    return {
        axis.name: [
            " ".join(f"{name.partition('.')[2]}={value}" for name, value in point.items()) for point in axis.points
        ]
        for axis in space.axes
    }


def distributions(space: Space) -> dict[str, BaseDistribution]:
    return {axis: CategoricalDistribution(each) for axis, each in labels(space).items()}


def params(space: Space, candidate: Candidate) -> dict[str, str]:
    return {axis: each[at] for (axis, each), at in zip(labels(space).items(), candidate, strict=True)}


def candidate(space: Space, params: Mapping[str, Any]) -> Candidate | None:
    """None where the parameters are not those of the space, or not complete."""
    every = labels(space)
    if any(params.get(axis) not in each for axis, each in every.items()):
        return None
    return tuple(each.index(params[axis]) for axis, each in every.items())
