"""Losses that compare the samples of a micro-batch with one another: the micro-batch size changes what is learned."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from autotune.model.evidence import Fact
from autotune.scan.script.analysis import ScriptAnalysis

IN_BATCH = re.compile(
    "(?i:info_?nce|nt_?xent|contrastive|sim_?clr|supcon|barlow_?twins|vicreg|negatives_?(ranking|symmetric))"
    "|CoSENT|Batch(All|Hard|SemiHard)\\w*Triplet|ClipLoss|CLIP(Loss|Model$)|Sig[Ll]ip(Loss|Model$)"
    "|VisionTextDualEncoder|SentenceTransformerTrain"
)
"""How such losses are called, models that have one, and what sentence_transformers trains with: most of its losses."""


def facts(script: ScriptAnalysis) -> Iterator[Fact]:
    """`code.compares_samples`, where such a name is used; a loss that is written out is not recognised."""
    index = script.view.index
    uses: tuple[Mapping[str, Sequence[ast.AST]], ...] = (script.calls_by_name, index.called, index.reads)
    nodes = [node for named in uses for name in named if IN_BATCH.search(name) for node in named[name]]
    if nodes:
        yield from script.state_fact("code.compares_samples", True, nodes[0])
