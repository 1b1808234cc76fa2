from __future__ import annotations

import pytest
from scanning import facts, lines, looped, scan

TRAINS = "loss = model(x)\nloss.backward()\noptimizer.step()\n"
MIXES = "code.mixes_tf32_apis"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("torch.backends.fp32_precision = 'tf32'", "print(torch.get_float32_matmul_precision())"),
        ("torch.backends.cuda.matmul.fp32_precision = 'tf32'", "was = torch.backends.cuda.matmul.allow_tf32"),
        ("torch.backends.cudnn.fp32_precision = 'tf32'", "was = torch.backends.cuda.matmul.allow_tf32"),
        ("torch.backends.cudnn.conv.fp32_precision = 'ieee'", "was = torch.backends.cudnn.allow_tf32"),
    ],
)
def test_reading_the_old_switch_behind_the_new_one_raises(new: str, old: str) -> None:
    """All of these raise a RuntimeError in torch 2.13."""
    script = looped(TRAINS, f"import torch\n{new}\n{old}\n")
    assert facts(script)[MIXES] is True
    assert lines(script, MIXES) == [2, 3]


@pytest.mark.parametrize(
    "code",
    [
        "torch.backends.fp32_precision = 'tf32'\ntorch.backends.cuda.matmul.allow_tf32 = True",
        "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.fp32_precision = 'tf32'",
        "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.conv.fp32_precision = 'tf32'",
        "torch.backends.cudnn.conv.fp32_precision = 'tf32'\nwas = torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.cuda.matmul.allow_tf32 = True\nwas = torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.fp32_precision = 'tf32'",
        "torch.set_float32_matmul_precision('high')",
    ],
)
def test_writing_both_or_reading_another_backend_does_not(code: str) -> None:
    """All of these run in torch 2.13."""
    assert facts(looped(TRAINS, f"import torch\n{code}\n"))[MIXES] is False


@pytest.mark.parametrize(
    "code",
    [
        "torch.backends.fp32_precision = mode\nwas = torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.fp32_precision = 'ieee'\nwas = torch.backends.cuda.matmul.allow_tf32",
        "was = torch.backends.cuda.matmul.allow_tf32\ntorch.backends.fp32_precision = 'tf32'",
        "torch.backends.fp32_precision = 'tf32'\nif old:\n    was = torch.backends.cuda.matmul.allow_tf32",
        "torch.backends.fp32_precision = 'tf32'\ndef was():\n    return torch.backends.cuda.matmul.allow_tf32",
        "torch.set_float32_matmul_precision('high')\ntorch.backends.cuda.matmul.fp32_precision = 'tf32'\n"
        "torch.get_float32_matmul_precision()",
    ],
)
def test_what_may_agree_is_not_known(code: str) -> None:
    assert MIXES not in facts(looped(TRAINS, f"import torch\n{code}\n"))


def test_a_script_without_torch_says_nothing() -> None:
    assert MIXES not in facts(scan("for x in loader:\n    loss.backward()\n    optimizer.step()"))
