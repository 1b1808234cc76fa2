"""Commands whose flags are in a dialect of their own: what they say, and what they leave unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.model.scanned import Bundle
from autotune.scan import scan


def bundle_of(folder: Path, text: str, **files: str) -> Bundle:
    """The only bundle of a project with this launch script."""
    (folder / "train.sh").write_text(text, encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.py").write_text(content, encoding="utf-8")
    (bundle,) = [one for one in scan([folder], root=folder).bundles if "train.sh" in one.files]
    return bundle


def given(bundle: Bundle) -> dict[str, object]:
    return {one.name: one.value for one in bundle.settings if one.origin == "static"}


def defaults(bundle: Bundle) -> dict[str, object]:
    return {one.name: one.value for one in bundle.settings if one.origin == "default"}


OPENRLHF = """\
read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft \\
   --train.batch_size 256 \\
   --train.micro_batch_size 2 \\
   --ds.zero_stage 3 \\
   --ds.adam_offload \\
   --data.dataloader_num_workers 4 \\
   --model.gradient_checkpointing_enable
EOF
deepspeed --module $training_commands
"""


def test_openrlhf_behind_a_here_document(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, OPENRLHF)
    assert bundle.dialects == ("openrlhf",)
    said = given(bundle)
    assert said == {
        "loader.num_workers": 4,
        "loader.batch_size": 2,
        "train.global_batch": 256,
        "train.activation_checkpointing": True,
        "zero.stage": 3,
        "zero.offload_optimizer": "cpu",
    }
    assert defaults(bundle)["model.attention"] == "flash_attention_2"
    lines = {one.name: one.location.line for one in bundle.settings if one.location is not None}
    assert lines["loader.batch_size"] == 4


def test_openrlhf_of_rollouts_counts_no_optimizer_steps(tmp_path: Path) -> None:
    flags = "--train.batch_size 128 --train.micro_batch_size 2 --ds.zero_stage 3 --rollout.batch_size 1024"
    bundle = bundle_of(
        tmp_path, f"python3 -m openrlhf.cli.train_ppo_ray {flags} --ckpt.save_steps 5 --train.max_epochs 1\n"
    )
    assert "checkpoint.interval_steps" not in given(bundle)
    assert "train.epochs" not in given(bundle)


def test_openrlhf_behind_ray(tmp_path: Path) -> None:
    start = "ray job submit --address='http://127.0.0.1:8265' --runtime-env-json='{\"a\": 1}'"
    flags = "--train.batch_size 128 --train.micro_batch_size 2 --ds.zero_stage 3"
    bundle = bundle_of(tmp_path, f"{start} -- python3 -m openrlhf.cli.train_ppo_ray {flags}\n")
    assert given(bundle) == {"loader.batch_size": 2, "train.global_batch": 128, "zero.stage": 3}


def test_openrlhf_before_its_flags_had_dots(tmp_path: Path) -> None:
    flags = "--micro_train_batch_size 4 --train_batch_size 128 --zero_stage 2 --bf16 --flash_attn --packing_samples"
    bundle = bundle_of(tmp_path, f"deepspeed --module openrlhf.cli.train_sft {flags} --pretrain base\n")
    assert bundle.dialects == ("openrlhf_flat",)
    said = given(bundle)
    assert said == {
        "loader.batch_size": 4,
        "train.global_batch": 128,
        "train.precision": "bf16-mixed",
        "model.attention": "flash_attention_2",
        "data.packing": True,
        "zero.stage": 2,
    }


VERL = """\
python3 -m verl.trainer.main_ppo \\
    data.train_batch_size=1024 data.dataloader_num_workers=0 \\
    actor_rollout_ref.actor.ppo_mini_batch_size=256 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 {more} \\
    trainer.n_gpus_per_node=8 trainer.save_freq=5 trainer.total_epochs=15
"""


def test_verl_micro_batch_is_not_the_batch_of_rollouts(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, VERL.format(more=""))
    assert bundle.dialects == ("verl",)
    assert given(bundle) == {"loader.batch_size": 16, "train.epochs": 15.0}


def test_verl_with_batches_of_tokens_has_no_micro_batch(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, VERL.format(more="actor_rollout_ref.actor.use_dynamic_bsz=True"))
    assert "loader.batch_size" not in given(bundle)


KOHYA = (
    "accelerate launch train_network.py --pretrained_model_name_or_path=base --network_module=networks.lora "
    "--network_dim=16 --train_batch_size=4 --output_dir=out --gradient_accumulation_steps=2 {more}\n"
)


def test_kohya_has_eight_workers_by_default_and_one_with_deepspeed(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, KOHYA.format(more="--mixed_precision=bf16"))
    assert given(bundle) == {"loader.batch_size": 4, "train.accumulation_steps": 2, "train.precision": "bf16-mixed"}
    assert defaults(bundle)["loader.num_workers"] == 8
    assert "loader.num_workers" not in defaults(bundle_of(tmp_path, KOHYA.format(more="--deepspeed")))


def test_kohya_is_known_by_its_script_too(tmp_path: Path) -> None:
    """The script's own loader takes batches that its dataset has made."""
    script = """\
import argparse, os
import torch

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch_size", type=int, default=1)
    parser.add_argument("--max_data_loader_n_workers", type=int, default=8)
    args = parser.parse_args()
    workers = min(args.max_data_loader_n_workers, os.cpu_count())
    loader = torch.utils.data.DataLoader(range(9), batch_size=1, num_workers=workers)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()

main()
"""
    text = KOHYA.format(more="--max_data_loader_n_workers=0")
    bundle = bundle_of(tmp_path, text, train_network=script)
    assert given(bundle)["loader.batch_size"] == 4
    assert given(bundle)["loader.num_workers"] == 0
    other = bundle_of(tmp_path, text.replace("train_network.py", "own.py"), own=script)
    assert given(other).get("loader.batch_size") == 1, "another script's flags say what its code makes of them"


@pytest.mark.parametrize(
    ("command", "workers", "batch"),
    [
        ("yolo detect train data=coco8.yaml model=yolo11n.pt imgsz=640 batch=16 workers=0", 0, 16),
        ("yolo train data=coco8.yaml batch=16 workers=0", 0, 16),
        ("yolo task=segment mode=train data=coco8.yaml batch=-1 workers=2", 2, None),
        ("yolo train data=coco8.yaml batch=0.7 workers=2", 2, None),
        ("yolo train data=coco8.yaml batch=64 workers=2 device=0,1", 2, None),
    ],
)
def test_yolo(tmp_path: Path, command: str, workers: int, batch: int | None) -> None:
    said = given(bundle_of(tmp_path, f"uv run {command}\n"))
    assert said["loader.num_workers"] == workers
    assert said.get("loader.batch_size") == batch


def test_yolo_that_does_not_train(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("yolo detect predict model=a.pt source=b.jpg batch=1\n", encoding="utf-8")
    assert not scan([tmp_path], root=tmp_path).bundles


def test_fairseq_flags(tmp_path: Path) -> None:
    bundle = bundle_of(
        tmp_path,
        "fairseq-train data-bin/x --arch transformer --max-tokens 4096 --batch-size 8 --update-freq 8 --fp16 "
        "--num-workers 0\n",
    )
    assert bundle.dialects == ("fairseq",)
    assert given(bundle) == {"loader.num_workers": 0, "train.accumulation_steps": 8, "train.precision": "fp16-mixed"}


def test_fairseq_with_a_config_that_is_not_there_has_no_defaults(tmp_path: Path) -> None:
    bundle = bundle_of(
        tmp_path, "fairseq-hydra-train --config-dir /conf --config-name base dataset.max_tokens=4096 task._name=x\n"
    )
    assert bundle.dialects == ("fairseq_hydra",)
    assert not defaults(bundle)


ULTRALYTICS = """\
from {package} import YOLO

def main():
    model = YOLO("yolo11n.pt")
    model.train({arguments})

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("package", "arguments", "said"),
    [
        ("ultralytics", "data='a.yaml', batch=32, workers=0", {"loader.num_workers": 0, "loader.batch_size": 32}),
        ("ultralytics", "data='a.yaml', batch=-1, workers=0", {"loader.num_workers": 0}),
        ("ultralytics", "data='a.yaml', batch=32, device=[0, 1]", {}),
        ("elsewhere", "data='a.yaml', batch=32, workers=0", None),
    ],
)
def test_the_method_that_trains(tmp_path: Path, package: str, arguments: str, said: dict[str, object] | None) -> None:
    (tmp_path / "run.py").write_text(ULTRALYTICS.format(package=package, arguments=arguments), encoding="utf-8")
    bundles = scan([tmp_path], root=tmp_path).bundles
    assert [given(one) for one in bundles] == ([said] if said is not None else [])


def started(folder: Path, command: str, config: str, text: str, script: str = "") -> dict[str, object]:
    """What is given in the bundle of a command that names this config."""
    (folder / config).parent.mkdir(parents=True, exist_ok=True)
    (folder / config).write_text(text, encoding="utf-8")
    if script:
        (folder / script).write_text(OWN_MAIN, encoding="utf-8")
    bundle = bundle_of(folder, f"{command}\n")
    assert (script in bundle.files) == bool(script)
    return given(bundle)


OWN_MAIN = """\
import torch
from own import config, loader, model

optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
"""

MMENGINE = """\
train_dataloader = dict(batch_size=4, num_workers=0, pin_memory=False, dataset=dict(type='A'))
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))
"""
MMENGINE_SAYS = {
    "loader.num_workers": 0,
    "loader.batch_size": 4,
    "loader.pin_memory": False,
    "train.precision": "fp32",
    "train.learning_rate": 0.1,
    "optimizer.name": "SGD",
}


@pytest.mark.parametrize("script", ["", "train.py"])
@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ("", {}),
        ("--cfg-options train_dataloader.num_workers=8", {"loader.num_workers": 8}),
        (
            "--amp --cfg-options train_dataloader.num_workers=8 train_dataloader.batch_size=$N",
            {"loader.num_workers": 8, "loader.batch_size": None, "train.precision": None},
        ),
        ("--amp", {"train.precision": None}),
        ("--auto-scale-lr", {"train.learning_rate": None}),
        (
            "--cfg-options 'train_dataloader=dict(num_workers=2)'",
            {"loader.num_workers": None, "loader.batch_size": None, "loader.pin_memory": None},
        ),
    ],
)
def test_mmengine_takes_what_the_command_says(
    tmp_path: Path, script: str, words: str, changed: dict[str, object]
) -> None:
    said = started(tmp_path, f"python train.py configs/run.py {words}", "configs/run.py", MMENGINE, script)
    assert said == {key: value for key, value in (MMENGINE_SAYS | changed).items() if value is not None}


YACS = "MODEL: {NAME: large}\nDATALOADER: {NUM_WORKERS: 0}\nSOLVER: {BASE_LR: 0.01, MAX_ITER: 90}\nOUTPUT_DIR: b\n"


@pytest.mark.parametrize("script", ["", "train.py"])
@pytest.mark.parametrize(
    ("words", "workers"),
    [
        ("", 0),
        ("DATALOADER.NUM_WORKERS 8 SOLVER.BASE_LR 0.01", 8),
        ("--opts OUTPUT_DIR DATALOADER DATALOADER.NUM_WORKERS 8", 8),
        ("--tag BASE DATALOADER.NUM_WORKERS 8", 8),
        ("--opts DATALOADER.NUM_WORKERS $WORKERS", None),
        ("--num-workers 8", None),
    ],
)
def test_yacs_takes_what_the_command_says(tmp_path: Path, script: str, words: str, workers: int | None) -> None:
    said = started(tmp_path, f"python train.py --config-file run.yaml {words}", "run.yaml", YACS, script)
    wanted = {"loader.num_workers": workers, "train.learning_rate": 0.01, "train.max_steps": 90}
    assert said == {key: value for key, value in wanted.items() if value is not None}


SPEECHBRAIN = """\
output_folder: out
number_of_epochs: 5
batch_size: 4
num_workers: 0
precision: fp32
train_dataloader_opts:
    batch_size: !ref <batch_size>
    num_workers: !ref <num_workers>
epoch_counter: !new:speechbrain.utils.epoch_loop.EpochCounter
    limit: !ref <number_of_epochs>
"""


@pytest.mark.parametrize("script", ["", "train.py"])
@pytest.mark.parametrize(
    ("words", "workers", "precision"),
    [
        ("", 0, "fp32"),
        ("--num_workers 8 --precision bf16", 8, "bf16-mixed"),
        ("--num_workers=$WORKERS", None, "fp32"),
        ("--train_dataloader_opts '{num_workers: 2}'", None, "fp32"),
    ],
)
def test_speechbrain_takes_what_the_command_says(
    tmp_path: Path, script: str, words: str, workers: int | None, precision: str
) -> None:
    said = started(tmp_path, f"python train.py hparams/run.yaml {words}", "hparams/run.yaml", SPEECHBRAIN, script)
    assert said.get("loader.num_workers") == workers
    assert said["train.precision"] == precision
    assert said["train.epochs"] == 5


def test_the_config_of_the_launcher_takes_no_override(tmp_path: Path) -> None:
    (tmp_path / "acc.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: 2\n", encoding="utf-8")
    command = "accelerate launch --config_file acc.yaml train.py run.yaml DATALOADER.NUM_WORKERS 8"
    assert started(tmp_path, command, "run.yaml", YACS, "train.py")["loader.num_workers"] == 8


def test_the_script_says_whose_config_it_takes(tmp_path: Path) -> None:
    """The script is not in the project, and the flags alone would not tell."""
    text = 'pretrained_model_name_or_path = "a"\nnetwork_module = "n"\nnetwork_dim = 4\noutput_dir = "o"\n'
    text += "max_data_loader_n_workers = 0\ntrain_batch_size = 2\n"
    command = "accelerate launch train_network.py --config_file cfg.toml"
    assert started(tmp_path, command, "cfg.toml", text)["loader.num_workers"] == 0
    said = started(tmp_path, f"{command} --max_data_loader_n_workers 4", "cfg.toml", text)
    assert (said["loader.num_workers"], said["loader.batch_size"]) == (4, 2)


@pytest.mark.parametrize("call", ["model.model.train(mode=True)", "trainer.train(resume_from_checkpoint=True)"])
def test_another_method_of_that_name(tmp_path: Path, call: str) -> None:
    text = f"from ultralytics import YOLO\nmodel = YOLO('a.pt')\n{call}\n"
    (tmp_path / "run.py").write_text(text, encoding="utf-8")
    assert not [one for one in scan([tmp_path], root=tmp_path).bundles if one.settings]
