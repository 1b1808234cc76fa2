"""What `apply` would write into configs and commands of each dialect, where a person would edit it, or why not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune import catalogue
from autotune.model.evidence import Setting, Value
from autotune.model.finding import SettingChange
from autotune.model.patch import PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import Bundle
from autotune.patch.plan import RequestedChange, plan
from autotune.patch.resolve import apply_edits
from autotune.scan import scan

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
OPENRLHF = """\
read -r -d '' commands <<EOF
openrlhf.cli.train_sft \\
   --train.micro_batch_size 2 --ds.zero_stage 3 \\
   --data.dataloader_num_workers 0
EOF
deepspeed --module $commands
"""
VERL = "python3 -m verl.trainer.main_ppo data.train_batch_size=8 actor_rollout_ref.actor.{}\n"
MMENGINE = "{}train_dataloader = dict(batch_size=2, num_workers={}, dataset=dict(type='A'))\n"
YACS = "_C = CN()\n_C.DATALOADER = CN()\n_C.DATALOADER.NUM_WORKERS = 0\n_C.SOLVER = CN()\n_C.SOLVER.MAX_ITER = 9\n_C.MODEL = CN()\n_C.MODEL.A = 1\n"  # noqa: E501
YACS_FILE = "MODEL: {A: 1}\nDATALOADER: {NUM_WORKERS: 8}\nSOLVER: {MAX_ITER: 9}\n"
YOLO = "from ultralytics import YOLO\nYOLO('a.pt').train(data='b.yaml', workers=0)\n"


def planned(root: Path, name: str, new: Value) -> tuple[PatchChange, Bundle]:
    """The change of a setting of the project's first bundle."""
    bundle = scan([root], root=root).bundles[0]
    setting: Setting = next(one for one in bundle.settings if one.name == name)
    change = SettingChange(name, setting.value, new, Effect.EQUIVALENT, setting.location)
    wanted = RequestedChange(change, setting.subject, replace(setting, trusted=True), ("XX001",))
    (found,) = plan([wanted], bundle, lambda file: (root / file).read_bytes(), {})
    return found.change, bundle


def after(root: Path, name: str, new: Value) -> str:
    """The one line of a project that a change makes."""
    change, _ = planned(root, name, new)
    assert not change.by_hand
    (file,) = {one.file for one in change.edits}
    data = (root / file).read_bytes()
    before, now = data.decode().splitlines(), apply_edits(data, change.edits).decode().splitlines()
    (line,) = [one for one in now if one not in before]
    assert len(before) == len(now)
    return line.strip()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("kohya.toml", "max_data_loader_n_workers = 4"),
        ("compvis.yaml", "num_workers: 4"),
        ("fairseq_hydra.yaml", "num_workers: 4"),
        ("ultralytics.yaml", "workers: 4"),
        ("speechbrain.yaml", "num_workers: 4"),
        ("yacs.yaml", "NUM_WORKERS: 4"),
        ("hydra_targets.yaml", "num_workers: 4"),
        ("diffusers.yaml", "num_workers: 4"),
    ],
)
def test_the_workers_of_a_config(tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / name).write_bytes((CONFIGS / name).read_bytes())
    assert after(tmp_path, "loader.num_workers", 4) == line


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"run.sh": OPENRLHF}, "--data.dataloader_num_workers 4"),
        ({"run.sh": "yolo train data=a.yaml workers=0\n"}, "yolo train data=a.yaml workers=4"),
        ({"run.py": YOLO}, "YOLO('a.pt').train(data='b.yaml', workers=4)"),
        (
            {
                "a.py": MMENGINE.format("", 8),
                "run.sh": "python t.py a.py --cfg-options train_dataloader.num_workers=0\n",
            },
            "python t.py a.py --cfg-options train_dataloader.num_workers=4",
        ),
        (
            {"a.yaml": (CONFIGS / "speechbrain.yaml").read_text(), "run.sh": "python t.py a.yaml --num_workers 0\n"},
            "python t.py a.yaml --num_workers 4",
        ),
        ({"run.py": MMENGINE.format("", 0)}, MMENGINE.format("", 4).strip()),
        ({"run.py": MMENGINE.format("n = 0\n", "n")}, "n = 4"),
        ({"a.py": "_base_ = 'base/b.py'\n", "base/b.py": MMENGINE.format("", 0)}, MMENGINE.format("", 4).strip()),
        ({"defaults.py": YACS}, "_C.DATALOADER.NUM_WORKERS = 4"),
    ],
)
def test_the_workers_of_commands_and_of_python(tmp_path: Path, files: dict[str, str], line: str) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert after(tmp_path, "loader.num_workers", 4) == line


@pytest.mark.parametrize(
    ("name", "setting", "new", "line"),
    [
        ("kohya.toml", "train.activation_checkpointing", False, "gradient_checkpointing = false"),
        ("kohya.toml", "train.precision", "fp16-mixed", 'mixed_precision = "fp16"'),
        ("compvis.yaml", "train.precision", "bf16-mixed", "precision: bf16"),
        ("ultralytics.yaml", "train.precision", "fp16-mixed", "amp: true"),
        ("speechbrain.yaml", "train.precision", "bf16-mixed", "precision: bf16"),
        ("diffusers.yaml", "train.precision", "fp16-mixed", "mixed_precision: fp16"),
        ("diffusion_pipe.toml", "train.activation_checkpointing", False, "activation_checkpointing = false"),
    ],
)
def test_values_in_the_words_of_the_dialect(tmp_path: Path, name: str, setting: str, new: Value, line: str) -> None:
    (tmp_path / name).write_bytes((CONFIGS / name).read_bytes())
    assert after(tmp_path, setting, new) == line


def test_the_micro_batch_of_an_override(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(VERL.format("ppo_micro_batch_size_per_gpu=2"), encoding="utf-8")
    assert after(tmp_path, "loader.batch_size", 4) == VERL.format("ppo_micro_batch_size_per_gpu=4").strip()


def test_a_pair_of_yacs_is_edited_by_hand(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(YACS_FILE, encoding="utf-8")
    (tmp_path / "run.sh").write_text("python t.py --cfg a.yaml DATALOADER.NUM_WORKERS 0\n", encoding="utf-8")
    change, _ = planned(tmp_path, "loader.num_workers", 4)
    assert not change.edits
    assert "loader.num_workers = 4 at run.sh:1: DATALOADER.NUM_WORKERS" in change.by_hand


def test_a_setting_without_a_key_is_by_hand(tmp_path: Path) -> None:
    (tmp_path / "verl_sft.yaml").write_bytes((CONFIGS / "verl_sft.yaml").read_bytes())
    bundle = scan([tmp_path], root=tmp_path).bundles[0]
    given = replace(bundle.settings[0], name="loader.num_workers", trusted=True)
    change = SettingChange("loader.num_workers", 8, 4, Effect.EQUIVALENT, given.location)
    wanted = RequestedChange(change, given.subject, given, ("XX001",))
    (found,) = plan([wanted], bundle, lambda file: (tmp_path / file).read_bytes(), {})
    assert not found.change.edits
    assert "fsdp_sft_trainer.py starts 8 workers" in found.change.by_hand


@pytest.mark.parametrize(
    ("framework", "setting", "value"),
    [
        ("ultralytics", "train.precision", "bf16-mixed"),
        ("speechbrain", "train.precision", "bf16"),
        ("kohya_gui", "model.attention", "flash_attention_2"),
        ("mmengine", "train.precision", "bf16"),
    ],
)
def test_values_that_a_dialect_does_not_have(framework: str, setting: str, value: Value) -> None:
    found = catalogue.spelling(framework, setting, {})
    assert found is not None
    assert not found.takes(value)
