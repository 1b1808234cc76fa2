"""Losses over the pairs of a batch are recognised by their names."""

from __future__ import annotations

import pytest
from scanning import facts, looped


@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("from sentence_transformers import losses", "loss = losses.MultipleNegativesRankingLoss(model)(x)", True),
        ("from sentence_transformers import SentenceTransformerTrainer as T", "T(model).train()", True),
        ("", "SentenceTransformerTrainer(model).train()", True),
        ("", "loss = info_nce_loss(model(x))", True),
        ("from transformers import CLIPModel", "loss = CLIPModel.from_pretrained(n)(x).loss", True),
        ("", "loss = clip_loss(model(x))", None),
        ("", "loss = criterion(model(x), y, num_items_in_batch=n)", None),
        ("from transformers import CLIPModelOutput", "loss = CLIPTextModel(x).loss", None),
    ],
)
def test_compares_samples(before: str, body: str, expected: bool | None) -> None:
    script = looped(f"{body}\nloss.backward()\noptimizer.step()", before)
    assert facts(script).get("code.compares_samples") is expected
