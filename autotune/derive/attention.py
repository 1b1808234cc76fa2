"""Attention that modules compute by separate operations, with the matrix of scores between them."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.derive.kernels import PRODUCTS, SOFTMAX
from autotune.derive.lines import LineCosts, collapsed
from autotune.model.evidence import RUN, Fact


def facts(found: LineCosts) -> Iterator[Fact]:
    """Fact `attention.written_out_share`; nothing where operations were not recorded.

    It covers modules that run batched products and a softmax themselves, forward and backward, without their parts,
    such as the layers for queries, keys and values.
    """
    if found.recorded is None:
        return
    own: dict[str, set[str]] = {}
    for row in found.recorded["rows"]:
        own.setdefault(collapsed(row["module"]), set()).update(name for name, _, _ in row["names"])
    written = {name for name, ran in own.items() if name and ran.intersection(PRODUCTS) and ran.intersection(SOFTMAX)}
    share = sum(found.share(cost.ms) for cost in found.costs if collapsed(cost.seen.module) in written)
    yield Fact("attention.written_out_share", RUN, share)
