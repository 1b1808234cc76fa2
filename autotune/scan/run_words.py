"""What no file of a run names, and what some file of it names: facts that need all files, and of each only its words.

A detector sees one file, and cannot say that a run has no autocast: another module may bring it. Here a word in any
file of the run is enough for silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from autotune.catalogue.frameworks import frameworks
from autotune.model.evidence import RUN, Fact, Location

LOWER_PRECISION = re.compile(
    rb"autocast|GradScaler|b?float16|\.half\(|(?<![a-z])amp(?![a-z])|bf16|fp16|tf32|matmul_precision|mixed_precision",
    re.IGNORECASE,
)
"""Words of autocast, of 16-bit types and of TF32."""

HEAVY = re.compile(
    rb"from_pretrained|\btimm\b|torchvision.*models|MultiheadAttention|Transformer(?:En|De)coder|[uU][nN]et(?![a-z])"
    rb"|[rR]es[nN]et\d*|[eE]fficient[nN]et|\bmonai\b|segmentation_models|[sS]elf_?[aA]ttention"
)
"""Words of models that consist of large products and convolutions."""

ELSEWHERE = re.compile(rb"torch\.fft|rfftn?\(|[rR]asteriz|tinycudann|nerfacc|[cC]omplexF")
"""Words of models whose time goes into other kernels."""

SAVES = re.compile(rb"\btorch\.save\(")

RESTORES = re.compile(
    rb"opt\w*(?:\[[^\]\n]*\])?\.load_state_dict\(|\]\.load_state_dict\(|load_state\(|load_checkpoint\(|auto_resume"
    rb"|\.restore\(|load_optim|dcp\.load",
    re.IGNORECASE,
)
"""Words that restore an optimizer, or may."""


@lru_cache(maxsize=4096)
def _has(pattern: re.Pattern[bytes], data: bytes) -> bool:
    return pattern.search(data) is not None


@lru_cache
def _wrapping() -> re.Pattern[bytes]:
    """Imports of what may set the precision from outside: trainer frameworks and engines."""
    names = {package for one in frameworks().values() for package in one.packages}
    others = ("apex", "deepspeed", "fairseq", "speechbrain", "catalyst", "mmengine", "mmcv", "detectron2", "torch_xla")
    packages = "|".join(sorted(re.escape(name) for name in {*names, *others} - {"transformers"}))
    return re.compile(rf"^[ \t]*(?:from|import)[ \t]+(?:{packages})\b".encode(), re.MULTILINE)


def facts(texts: Sequence[bytes], step: Location) -> Iterator[Fact]:
    """Facts `code.names_no_lower_precision`, `code.has_heavy_model` and `code.never_restores_optimizer` of a run that
    trains in a loop of its own; `step` is where this stands."""
    if any(_has(_wrapping(), one) for one in texts):
        return
    is_elsewhere = any(_has(ELSEWHERE, one) for one in texts)
    yield Fact("code.has_heavy_model", RUN, not is_elsewhere and any(_has(HEAVY, one) for one in texts), (step,))
    if any(_has(SAVES, one) for one in texts) and not any(_has(RESTORES, one) for one in texts):
        yield Fact("code.never_restores_optimizer", RUN, True, (step,))
    if not any(_has(LOWER_PRECISION, one) for one in texts):
        yield Fact("code.names_no_lower_precision", RUN, True, (step,))
