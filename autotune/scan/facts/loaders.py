"""What each data loader is for, whether it shuffles, whether the training loop starts over with it, and whether a
comment explains its workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autotune.model.evidence import Fact, Value
from autotune.scan.script import sample_order
from autotune.scan.script.analysis import ScriptAnalysis
from autotune.scan.script.loaders import LoaderCall
from autotune.scan.script.optimizer_steps import Loop

ABOUT_WORKERS = re.compile(r"(?!\s*\w*workers\s*=\s*[\w.]+\s*,?\s*$).*worker", re.IGNORECASE)
"""What a comment speaks of that is no argument which was commented out."""

SENTENCE = 4
"""Words of a comment that explains something."""

LINES_ABOVE = 2
"""Lines above a call in which a comment may be about it."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """Facts `loader.is_train`, `loader.shuffles`, `loader.is_iterated_again`, `loader.is_made_in_loop` and
    `loader.workers_are_explained`."""
    for loader in script.loaders:
        known: dict[str, Value | None] = {
            "loader.is_train": loader.is_train,
            "loader.shuffles": sample_order.shuffles(script.view, loader.node, loader.call),
            "loader.is_iterated_again": script.run.batch_calls.get(loader.node),
            "loader.is_made_in_loop": any(
                isinstance(one, Loop) for one in script.view.index.ancestors_in_function(loader.node)
            ),
            "loader.workers_are_explained": _are_workers_explained(script, loader),
        }
        for name, value in known.items():
            if value is not None:
                yield Fact(name, loader.subject, value, (loader.call.location,))


def _are_workers_explained(script: ScriptAnalysis, loader: LoaderCall) -> bool:
    """Whether a comment at the call speaks of workers, or one on the line of their number says why it was chosen."""
    given = loader.call.arguments.get("num_workers")
    places = [loader.call.location, *([given.location] if given is not None else [])]
    view = script.view
    rows = [(one.line - LINES_ABOVE, max(one.line, one.end_line)) for one in places if one.file == view.file]
    beside = given.location.line if given is not None and given.location.file == view.file else 0
    return any(
        (ABOUT_WORKERS.match(one.text) and any(first <= one.line <= last for first, last in rows))
        or (one.line == beside and len(one.text.split()) >= SENTENCE)
        for one in view.source.comments
    )
