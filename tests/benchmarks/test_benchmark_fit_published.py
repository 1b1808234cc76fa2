"""What of the interval of `fit` is held against a published peak."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from autotune.catalogue.devices import CUDA_CONTEXT
from autotune.fit.memory_need import NCCL

FILE = Path(__file__).parents[2] / "benchmarks" / "fit_published.py"
SPEC = importlib.util.spec_from_file_location("benchmark_fit_published", FILE)
assert SPEC is not None and SPEC.loader is not None
published = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(published)

SIZE = {"low_bytes": 40 * 2**30, "high_bytes": 60 * 2**30}


@pytest.mark.parametrize("of", ["allocated", "reserved"])
@pytest.mark.parametrize(("run", "has_nccl"), [({}, False), ({"devices": 2, "shard": "fsdp"}, True)])
def test_what_torch_counts_has_neither_the_context_nor_nccl(of: str, run: dict[str, object], has_nccl: bool) -> None:
    off = [context + has_nccl * nccl for context, nccl in zip(CUDA_CONTEXT, NCCL, strict=True)]
    assert published.span({"of": of, **run}, SIZE) == (SIZE["low_bytes"] - off[0], SIZE["high_bytes"] - off[1])


def test_what_the_driver_counts_has_both() -> None:
    assert published.span({"of": "driver", "shard": "fsdp"}, SIZE) == (SIZE["low_bytes"], SIZE["high_bytes"])
