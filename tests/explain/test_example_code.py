"""`check` finds the problem in the code that a rule shows before its change, and not in the code after it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from autotune.cli import run
from autotune.explain.rules import find_rule
from autotune.model.rule import Code

HEAD = """\
import os
import torch
import torch.nn as nn
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import GRPOConfig

device, dataset, validation, total = "cuda", [1], [1], 0
"""

LOOP = """
model = nn.Linear(3, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for batch in DataLoader(dataset, batch_size=4):
        loss = model(batch.cuda()).sum()
        {step}
"""

ABOVE_THE_LOOP = (
    *("AT010", "BA009", "CO006", "CV002", "DD005", "DL015", "DL019", "EN018", "EV002", "EV004", "EV006", "GA005"),
    *("PR003", "PR015", "PR018", "SY017"),
)
IN_THE_STEP = ("ME009", "OP004", "PR004", "SY004")
"""Rules whose code needs no more of a project than this to be found."""


def script(code: str, *, is_in_step: bool) -> str:
    if not is_in_step:
        return HEAD + code + LOOP.format(step="loss.backward(); optimizer.step(); optimizer.zero_grad()")
    own = code if "optimizer.step()" in code or "scaler.step" in code else f"{code}\noptimizer.step()"
    return HEAD + LOOP.format(step=textwrap.indent(own, " " * 8).strip())


@pytest.mark.parametrize("rule_id", [*ABOVE_THE_LOOP, *IN_THE_STEP])
def test_check_finds_it_before_and_not_after(rule_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = find_rule(rule_id).code
    assert isinstance(code, Code)
    found = []
    for text in (code.before, code.after):
        (tmp_path / "train.py").write_text(script(text, is_in_step=rule_id in IN_THE_STEP))
        words = ["check", "--select", rule_id, "--all", "--fail-on", "never", "--format", "json", str(tmp_path)]
        assert run(words) == 0
        found.append({one["rule"] for one in json.loads(capsys.readouterr().out)["findings"]})
    assert found == [{rule_id}, set()]
