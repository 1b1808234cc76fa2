"""Whatever stands in the files, check answers: every value of every key goes through scan, join and all rules."""

from __future__ import annotations

import importlib
import json
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.catalogue.dialects import dialects
from autotune.check import check as api
from autotune.model.checked import Checked
from autotune.scan.files import DATA, SYNTAXES

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def keys() -> list[str]:
    """Every key that some dialect knows, and its flags of a command line."""
    found: set[str] = set()
    for table in dialects().values():
        for entry in table.values():
            rows = [entry, *entry.get("versions", ())] if isinstance(entry, dict) else []
            found |= {row["key"] for row in rows if isinstance(row.get("key"), str)}
    return sorted(found)


KEYS = keys()
CONFIGS = Path(__file__).resolve().parents[2] / "fixtures" / "configs"
FIXTURES = sorted(file for file in CONFIGS.iterdir() if SYNTAXES.get(file.suffix) in DATA and "not_a" not in file.name)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 1, 8, 10**30]),
    st.floats(),
    st.sampled_from(["auto", "bf16", "yes", "no", "steps", "epoch", "3e-4", "", "${a.b}", "zero.json", "{}", "1ep"]),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["name", "enabled", "device", "stage"]), st.booleans(), max_size=2),
)
TABLES = st.dictionaries(st.sampled_from(KEYS), VALUES, min_size=3, max_size=25)


def nested(table: dict[str, object]) -> dict[str, object]:
    """The table with a level for each dot of its keys."""
    found: dict[str, object] = {}
    for key, value in table.items():
        *outer, last = key.split(".")
        level = found
        for name in outer:
            inner = level.setdefault(name, {})
            level = inner if isinstance(inner, dict) else level
        level[last] = value
    return found


def check(folder: Path, name: str, text: str, **others: str) -> Checked:
    for old in folder.iterdir():
        old.unlink()
    for file, content in {name: text, **others}.items():
        (folder / file).write_text(content, encoding="utf-8", errors="surrogatepass")
    return api.check(api.CheckOptions((folder,)), cwd=folder)


CORES = [
    {"output_dir": "out", "num_train_epochs": 1},
    {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4},
    {"base_model": "m", "micro_batch_size": 2, "datasets": [{"path": "d"}]},
]
"""What makes a file a config of some dialect, unless what stands beside it speaks against it."""


def test_any_config(tmp_path) -> None:
    reached: list[bool] = []

    @FEW
    @given(table=TABLES, core=st.sampled_from(CORES))
    def each(table: dict[str, object], core: dict[str, object]) -> None:
        for text in (json.dumps(table | core), json.dumps(nested(table) | core)):
            for name in ("c.json", "c.yaml"):
                reached.append(len(check(tmp_path, name, text).bundles) == 1)

    each()
    assert sum(reached) > len(reached) / 5


@pytest.mark.parametrize("file", FIXTURES, ids=lambda file: file.name)
def test_any_value_in_a_config_that_is_recognised(file: Path, tmp_path) -> None:
    """Every value of the file in turn becomes another one."""
    data, syntax = file.read_bytes(), SYNTAXES[file.suffix]
    entries = importlib.import_module(f"autotune.syntax.{syntax}").read(data, file.name).entries
    odd = cycle(
        [b"true", b"-3", b"0", b"1e30", b"2.5", b'"auto"', b'""', b"[1]", b'"\\u00e9"', b"100000000000000000000"]
    )
    recognised = 0
    for entry, value in zip(entries, odd, strict=False):
        text = data[: entry.span.start] + value + data[entry.span.end :]
        recognised += len(check(tmp_path, file.name, text.decode()).bundles)
    assert recognised > len(entries) / 2


IMPORTS = (
    "import argparse, torch, lightning\nfrom torch.utils.data import DataLoader, TensorDataset\n"
    "from transformers import *\nfrom transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments\n"
    "from trl import SFTConfig\nfrom accelerate import Accelerator\nfrom lightning import LightningModule\n"
)
LOOP = "for x in DataLoader(data):\n    model(x).backward()\n    optimizer.step()\n"
WORDS = st.lists(
    st.one_of(
        st.sampled_from(["torchrun", "accelerate", "launch", "python", "-m", "train.py", "\\\n", "&&", ";", "|", "$X"]),
        st.sampled_from(["deepspeed", "trl", "sft", "--config", "c.yaml", "X=1", "export", "'", '"', "${X:-3}", "--"]),
        st.sampled_from(KEYS).map("--{}".format),
        st.integers().map(str),
        st.text(max_size=4),
    ),
    max_size=25,
)


def test_any_command(tmp_path) -> None:
    reached: list[bool] = []

    @FEW
    @given(words=WORDS)
    def each(words: list[str]) -> None:
        text = " ".join(["torchrun", "train.py", *words])
        bundles = check(tmp_path, "run.sh", text, **{"train.py": IMPORTS + LOOP}).bundles
        reached.append(any("run.sh" in one.bundle.files for one in bundles))

    each()
    assert sum(reached) > len(reached) / 3


STATEMENTS = st.lists(
    st.sampled_from(
        [
            "args = parser.parse_args()",
            "parser = argparse.ArgumentParser()",
            "parser.add_argument('--workers', type=int, default=4)",
            "parser.add_argument(*names, **more)",
            "(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()",
            "args = TrainingArguments(bf16=1, save_steps='5', optim=None, gradient_accumulation_steps=-2)",
            "args = SFTConfig(**dict(packing=3, **config), max_length=2.5)",
            "trainer = Trainer(model, args, *rest); trainer.train()",
            "loader = DataLoader(data, 4, True, num_workers=args.workers, pin_memory='yes', batch_size=None)",
            "loader = DataLoader(TensorDataset(x), num_workers=-1, prefetch_factor='2')",
            "optimizer = torch.optim.AdamW(params, fused='yes', lr=None)",
            "model = AutoModel.from_pretrained(name, torch_dtype=3, attn_implementation=None, device_map={'': 0})",
            "model = torch.compile(model, mode=1)",
            "torch.set_float32_matmul_precision(3)",
            "torch.backends.cudnn.benchmark = 'x'",
            "for x in loader:\n    loss = model(x.cuda())\n    loss.backward()\n    optimizer.step(loss.item())",
            "with torch.autocast('cuda', dtype=torch.float16 if a else None):\n    loss.backward()",
            "scaler = torch.cuda.amp.GradScaler(enabled=args.workers)",
            "if args.workers:\n    loader = DataLoader(other)\nelse:\n    loader = None",
            "class Module(LightningModule):\n    def training_step(self, batch, index):\n        return batch.item()",
            "trainer = lightning.Trainer(precision=16, accumulate_grad_batches={0: 8}, devices='auto')",
            "accelerator = Accelerator(mixed_precision=None, gradient_accumulation_steps='4')",
        ]
    ),
    max_size=12,
)


@FEW
@given(statements=STATEMENTS)
def test_any_script(statements, tmp_path) -> None:
    checked = check(tmp_path, "train.py", IMPORTS + "\n".join(statements) + "\n" + LOOP)
    assert [one.bundle.name for one in checked.bundles] == ["train.py"]
