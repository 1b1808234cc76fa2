from __future__ import annotations

import pytest
from scanning import facts, scan

IGNORES = "code.loss_ignores_num_items"

MODELS = """
from torch import nn
from transformers import AutoModel, Trainer
class Closed(nn.Module):
    def forward(self, x):
        return x
class Open(nn.Module):
    def forward(self, x, **kwargs):
        return x
class Inherits(Closed):
    pass
class T(Trainer):
    def compute_loss(self, model, inputs):
        return f(inputs)
"""


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (
            "def compute_loss(self, model, inputs, num_items_in_batch=None):\n        return f(inputs)",
            True,
        ),
        (
            "def compute_loss(self, model, inputs, num_items_in_batch=None):\n        return f(num_items_in_batch)",
            False,
        ),
        ("def compute_loss(self, *args, **kwargs):\n        return super().compute_loss(*args, **kwargs)", False),
        ("def compute_loss(self, model, inputs):\n        return f(inputs)", True),
        ("def other(self):\n        pass", None),
    ],
)
def test_whether_the_loss_ignores_num_items(method: str, expected: bool | None) -> None:
    code = f"from transformers import Trainer\nclass T(Trainer):\n    {method}\nT().train()"
    assert facts(scan(code)).get(IGNORES) is expected


@pytest.mark.parametrize(
    ("in_class", "in_init", "expected"),
    [
        ("loss_is_scaled_for_ga = False", "pass", None),
        ("loss_is_scaled_for_ga: bool = True", "pass", None),
        ("pass", "self.loss_is_scaled_for_ga = False", None),
        ("pass", "self.model_accepts_loss_kwargs = False", None),
        ("pass", "self.model_accepts_loss_kwargs = decide()", None),
        ("pass", "self.model_accepts_loss_kwargs = True", True),
        ("model_accepts_loss_kwargs = False", "pass", True),
        ("pass", "model.accepts_loss_kwargs = False", None),
    ],
)
def test_a_trainer_that_is_told_may_divide(in_class: str, in_init: str, expected: bool | None) -> None:
    """Trainer.__init__ sets model_accepts_loss_kwargs over what a class says of it."""
    code = f"""
    from transformers import Trainer
    class T(Trainer):
        {in_class}
        def __init__(self, model):
            super().__init__(model)
            {in_init}
        def compute_loss(self, model, inputs):
            return f(inputs)
    T().train()
    """
    assert facts(scan(code)).get(IGNORES) is expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("T(Closed()).train()", None),
        ("T(model=Inherits()).train()", None),
        ("model = Closed.from_pretrained(name)\nT(model).train()", None),
        ("T(model=Open()).train()", True),
        ("T(AutoModel.from_pretrained(name)).train()", True),
        ("T(model).train()", None),
        ("T(peft.get_peft_model(Closed())).train()", None),
    ],
)
def test_the_trainer_divides_for_a_model_without_keyword_arguments(start: str, expected: bool | None) -> None:
    assert facts(scan(MODELS + start)).get(IGNORES) is expected


def test_what_an_own_constructor_takes_first_may_be_no_model() -> None:
    constructor = "    def __init__(self, other, model):\n        super().__init__(model)\n"
    start = "T(AutoModel.from_pretrained(name), Closed()).train()"
    assert IGNORES not in facts(scan(MODELS + constructor + start))


def test_other_trainers_of_trl_divide() -> None:
    method = "def compute_loss(self, model, inputs):\n        return 1"
    code = f"import trl\nclass T(trl.DPOTrainer):\n    {method}\nT().train()"
    assert IGNORES not in facts(scan(code))
