"""A finding from a config of each dialect, and the same config with nothing to say."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.check import check as api

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
MMENGINE = "train_dataloader = dict(batch_size=2, num_workers=0, dataset=dict(type='A'))\n"
MMCV = "data = dict(samples_per_gpu=2, workers_per_gpu=0)\n"
OPENRLHF = "deepspeed --module openrlhf.cli.train_sft --train.micro_batch_size 2 --ds.zero_stage 2 {}\n"
FLAT = "deepspeed --module openrlhf.cli.train_sft --micro_train_batch_size 2 --zero_stage 3 {}\n"
FAIRSEQ = "fairseq-train data --arch transformer --max-tokens 4096 --update-freq 2 --num-workers 0\n"


def found(root: Path) -> set[str]:
    asked = api.CheckOptions((Path(),), with_minor=True)
    return {finding.rule.id for finding in api.check(asked, cwd=root).findings}


def text_of(name: str) -> str:
    return (CONFIGS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("kohya.toml", text_of("kohya.toml"), "n_workers = 0", "n_workers = 4"),
        ("kohya_gui.json", text_of("kohya_gui.json"), 'n_workers": "0"', 'n_workers": "4"'),
        ("compvis.yaml", text_of("compvis.yaml"), "num_workers: 0", "num_workers: 4"),
        ("fairseq_hydra.yaml", text_of("fairseq_hydra.yaml"), "num_workers: 0", "num_workers: 4"),
        ("ultralytics.yaml", text_of("ultralytics.yaml"), "workers: 0", "workers: 4"),
        ("speechbrain.yaml", text_of("speechbrain.yaml"), "num_workers: 0", "num_workers: 4"),
        ("yacs.yaml", text_of("yacs.yaml"), "NUM_WORKERS: 0", "NUM_WORKERS: 4"),
        ("hydra_targets.yaml", text_of("hydra_targets.yaml"), "num_workers: 0", "num_workers: 4"),
        ("diffusers.yaml", text_of("diffusers.yaml"), "num_workers: 0", "num_workers: 4"),
        ("project.yaml", text_of("project.yaml"), "num_workers: 0", "num_workers: 4"),
        ("mmengine.py", MMENGINE, "num_workers=0", "num_workers=4"),
        ("mmcv.py", MMCV, "workers_per_gpu=0", "workers_per_gpu=4"),
        ("openrlhf.sh", OPENRLHF.format("--data.dataloader_num_workers 0"), "workers 0", "workers 4"),
        ("fairseq.sh", FAIRSEQ, "--num-workers 0", "--num-workers 4"),
    ],
)
def test_workers(tmp_path: Path, name: str, text: str, old: str, new: str) -> None:
    """DL001: batches are prepared in the training process."""
    assert old in text
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert "DL001" in found(tmp_path)
    (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
    assert "DL001" not in found(tmp_path)


def test_the_loader_of_prompts_has_no_say(tmp_path: Path) -> None:
    text = text_of("verl.yaml").replace("dataloader_num_workers: 4", "dataloader_num_workers: 0")
    (tmp_path / "verl.yaml").write_text(text, encoding="utf-8")
    assert "DL001" not in found(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("verl.yaml", text_of("verl.yaml"), "param_offload: true", "param_offload: false"),
        ("verl_sft.yaml", text_of("verl_sft.yaml"), "", ""),
        ("openrlhf.sh", OPENRLHF.format("--ds.adam_offload"), " --ds.adam_offload", ""),
        ("flat.sh", FLAT.format("--adam_offload"), " --adam_offload", ""),
    ],
)
def test_offloading(tmp_path: Path, name: str, text: str, old: str, new: str) -> None:
    """ME006: the optimizer or the parameters are kept in CPU memory."""
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert ("ME006" in found(tmp_path)) == bool(old)
    (tmp_path / name).write_text(text.replace(old, new) if old else text, encoding="utf-8")
    assert "ME006" not in found(tmp_path)
