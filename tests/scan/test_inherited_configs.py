"""Configs of MMEngine and MMCV: dicts in Python, and the files that they inherit from."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.scanned import Bundle
from autotune.scan import scan

BASE = """\
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False, dataset=dict(type='A', path='x'))
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))
default_hooks = dict(checkpoint=dict(type='CheckpointHook', interval=100, by_epoch=False))
"""


def bundles(folder: Path, **files: str) -> dict[str, Bundle]:
    for name, text in files.items():
        path = folder / "configs" / ("_base_/base.py" if name == "base" else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return {one.name: one for one in scan([folder], root=folder).bundles}


def given(bundle: Bundle) -> dict[str, object]:
    return {one.name: one.value for one in bundle.settings if one.origin == "static"}


INHERITED = {
    "loader.num_workers": 0,
    "loader.batch_size": 4,
    "loader.persistent_workers": False,
    "train.precision": "fp32",
    "checkpoint.interval_steps": 100,
    "train.learning_rate": 0.1,
    "optimizer.name": "SGD",
}


NO_LOADER = {"loader.num_workers": None, "loader.batch_size": None, "loader.persistent_workers": None}
ADAMW = "optimizer=dict(_delete_=True, type='AdamW')"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("bs = 8\ntrain_dataloader = dict(batch_size=bs, dataset=dict(type='B'))\n", {"loader.batch_size": 8}),
        ("train_dataloader = {'num_workers': 4}\n", {"loader.num_workers": 4}),
        ("optim_wrapper = dict(type='AmpOptimWrapper')\n", {"train.precision": "fp16-mixed"}),
        ("optim_wrapper = dict(type='AmpOptimWrapper', dtype='bfloat16')\n", {"train.precision": "bf16-mixed"}),
        ("optim_wrapper = dict(type='Mine')\n", {"train.precision": None}),
        ("train_dataloader = dict(batch_size=make())\n", {"loader.batch_size": None}),
        (f"optim_wrapper = dict({ADAMW})\n", {"train.learning_rate": None, "optimizer.name": "AdamW"}),
        ("default_hooks = dict(checkpoint=dict(by_epoch=True, interval=1))\n", {"checkpoint.interval_steps": None}),
        ("train_dataloader = dict(batch_size=2)\ntrain_dataloader['batch_size'] = 16\n", NO_LOADER),
        ("if fast:\n    train_dataloader = dict(num_workers=9)\n", NO_LOADER),
        ("train_dataloader = None\n", NO_LOADER),
        ("train_dataloader = make_loader()\n", NO_LOADER),
    ],
)
def test_a_file_counts_before_its_base(tmp_path: Path, text: str, changed: dict[str, object]) -> None:
    found = bundles(tmp_path, base=BASE, run=f"_base_ = './_base_/base.py'\n{text}")
    (bundle,) = found.values()
    assert bundle.files == ("configs/run.py", "configs/_base_/base.py")
    assert bundle.dialects == ("mmengine",)
    wanted = {key: value for key, value in (INHERITED | changed).items() if value is not None}
    assert given(bundle) == wanted


def test_a_value_is_edited_where_it_is_written(tmp_path: Path) -> None:
    run = "_base_ = ['./_base_/base.py']\nbs = 8\ntrain_dataloader = dict(batch_size=bs)\n"
    (bundle,) = bundles(tmp_path, base=BASE, run=run).values()
    places = {one.name: one.location for one in bundle.settings if one.location is not None}
    assert (places["loader.batch_size"].file, places["loader.batch_size"].line) == ("configs/run.py", 2)
    workers = places["loader.num_workers"]
    assert (workers.file, workers.line) == ("configs/_base_/base.py", 1)
    assert workers.span is not None
    assert BASE[workers.span.start : workers.span.end] == "0"


READ_BASE = """\
from mmengine.config import read_base
from mmengine.optim import AmpOptimWrapper
with read_base():
    from ._base_.base import *
    {more}
train_dataloader.update(dict(batch_size=16))
optim_wrapper = dict(type=AmpOptimWrapper)
"""


def test_bases_that_are_imported(tmp_path: Path) -> None:
    (bundle,) = bundles(tmp_path, base=BASE, run=READ_BASE.format(more="pass")).values()
    loaders = ("loader.batch_size", "loader.num_workers", "loader.persistent_workers")
    wanted = {key: value for key, value in INHERITED.items() if key not in loaders}
    assert given(bundle) == wanted | {"train.precision": "fp16-mixed"}


def test_a_base_that_is_not_there_leaves_open_what_it_says(tmp_path: Path) -> None:
    text = "optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))\n"
    (bundle,) = bundles(tmp_path, run=text).values()
    assert {one.name for one in bundle.settings if one.origin == "default"} == {"train.accumulation_steps"}
    (bundle,) = bundles(tmp_path, run=f"_base_ = 'mmdet::_base_/runtime.py'\n{text}").values()
    assert not {one.name for one in bundle.settings if one.origin == "default"}
    assert given(bundle) == {"train.precision": "fp32", "train.learning_rate": 0.1, "optimizer.name": "SGD"}


def test_files_that_inherit_from_one_another(tmp_path: Path) -> None:
    text = "train_dataloader = dict(batch_size={}, num_workers=1)\n"
    found = bundles(tmp_path, a="_base_ = 'b.py'\n" + text.format(2), b="_base_ = 'a.py'\n" + text.format(3))
    assert found
    assert all(given(one)["loader.num_workers"] == 1 for one in found.values())


@pytest.mark.parametrize("value", ["[True, False]", "(1, 2)", "[]", "{1: 2}", "[0.5, 'a']"])
def test_lists_are_kept_from_one_scan_to_the_next(tmp_path: Path, value: str) -> None:
    text = f"train_dataloader = dict(batch_size=2, num_workers=0, sizes={value}, pin_memory={value})\n"
    for _ in range(2):
        (bundle,) = bundles(tmp_path, run=text).values()
        assert given(bundle) == {"loader.batch_size": 2, "loader.num_workers": 0}


def test_mmcv_1(tmp_path: Path) -> None:
    text = "data = dict(samples_per_gpu=2, workers_per_gpu=0)\noptimizer = dict(type='SGD', lr=0.02)\n"
    (bundle,) = bundles(tmp_path, run=text + "runner = dict(type='EpochBasedRunner', max_epochs=12)\n").values()
    assert bundle.dialects == ("mmcv",)
    assert given(bundle) == {
        "loader.num_workers": 0,
        "loader.batch_size": 2,
        "train.epochs": 12.0,
        "train.learning_rate": 0.02,
        "optimizer.name": "SGD",
    }


@pytest.mark.parametrize(
    "text",
    [
        "data = dict(a=1)\n",
        "model = dict(type='Net')\ntrain_cfg = dict(rpn=1)\n",
        "train_dataloader = dict(batch_size=4)\ndef f():\n    pass\n",
    ],
)
def test_other_files_are_none(tmp_path: Path, text: str) -> None:
    assert not bundles(tmp_path, run=text)


def test_files_that_all_inherit_from_one_another_have_an_end(tmp_path: Path) -> None:
    listed = ", ".join(f"'c{one}.py'" for one in range(12))
    text = "_base_ = [{}]\ntrain_dataloader = dict(batch_size=2, num_workers=1)\n"
    found = bundles(tmp_path, **{f"c{one}": text.format(listed) for one in range(12)})
    assert found
    assert all(given(one)["loader.num_workers"] == 1 for one in found.values())


def test_a_long_line_of_bases(tmp_path: Path) -> None:
    files = {f"c{one}": f"_base_ = 'c{one + 1}.py'\ntrain_cfg = dict(max_epochs={one})\n" for one in range(12)}
    found = bundles(tmp_path, **files, c12=BASE)
    assert [given(one)["loader.num_workers"] for one in found.values()] == [0] * len(found)


@pytest.mark.parametrize(
    ("line", "without"),
    [
        ("_base_.train_dataloader.num_workers = 8", set(NO_LOADER)),
        ("_base_['train_dataloader']['num_workers'] = 8", set(NO_LOADER)),
        ("_base_.train_dataloader.update(num_workers=8)", set(NO_LOADER)),
        ("_base_.model.backbone = 8", set()),
        ("_base_.update(more)", set(INHERITED) - {"train.precision"}),
    ],
)
def test_a_base_that_is_changed(tmp_path: Path, line: str, without: set[str]) -> None:
    run = "_base_ = './_base_/base.py'\noptim_wrapper = dict(type='OptimWrapper')\ntrain_cfg = dict(max_epochs=3)\n"
    found = bundles(tmp_path, base=BASE, run=f"{run}{line}\n").values()
    (bundle,) = [one for one in found if "configs/run.py" in one.files]
    said = {key: value for key, value in INHERITED.items() if key not in without}
    assert given(bundle) == said | {"train.epochs": 3.0}
