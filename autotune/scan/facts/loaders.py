"""What each data loader is for, whether it shuffles, and whether the training loop starts over with it."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.model.evidence import Fact, Value
from autotune.scan.script import sample_order
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.optimizer_steps import Loop


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `loader.is_train`, `loader.shuffles`, `loader.is_iterated_again` and `loader.is_made_in_loop`."""
    for loader in script.loaders:
        known: dict[str, Value | None] = {
            "loader.is_train": loader.is_train,
            "loader.shuffles": sample_order.shuffles(script.view, loader.node, loader.call),
            "loader.is_iterated_again": script.run.batch_calls.get(loader.node),
            "loader.is_made_in_loop": any(
                isinstance(one, Loop) for one in script.view.index.ancestors_in_function(loader.node)
            ),
        }
        for name, value in known.items():
            if value is not None:
                yield Fact(name, loader.subject, value, (loader.call.location,))
