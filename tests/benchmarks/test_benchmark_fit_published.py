"""What of the interval of `fit` is held against a published peak."""

from __future__ import annotations

import pytest
from benchmarks.fit_published import span

from autotune.fit import memory_need

SIZE = {"low_bytes": 40 * 2**30, "high_bytes": 60 * 2**30}


@pytest.mark.parametrize("of", ["allocated", "reserved"])
@pytest.mark.parametrize(("run", "has_nccl"), [({}, False), ({"devices": 2, "shard": "fsdp"}, True)])
def test_what_torch_counts_has_neither_the_context_nor_nccl(of: str, run: dict[str, object], has_nccl: bool) -> None:
    off = [context + has_nccl * nccl for context, nccl in zip(memory_need.CONTEXT, memory_need.NCCL, strict=True)]
    assert span({"of": of, **run}, SIZE) == (SIZE["low_bytes"] - off[0], SIZE["high_bytes"] - off[1])


def test_what_the_driver_counts_has_both() -> None:
    assert span({"of": "driver", "shard": "fsdp"}, SIZE) == (SIZE["low_bytes"], SIZE["high_bytes"])
