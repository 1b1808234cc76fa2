"""What each data loader is for, whether it shuffles, and whether the training loop starts over with it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.evidence import Fact, Value
from autotune.scan.script import sample_order
from autotune.scan.script.analysis import ScriptAnalysis


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `loader.is_train`, `loader.shuffles` and `loader.is_iterated_again`."""
    for loader in script.loaders:
        known: dict[str, Value | None] = {
            "loader.is_train": loader.is_train,
            "loader.shuffles": sample_order.shuffles(script.view, loader.node, loader.call),
            "loader.is_iterated_again": script.run.batch_calls.get(loader.node),
        }
        for name, value in known.items():
            if value is not None:
                yield Fact(name, loader.subject, value, (loader.call.location,))
