from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.model.evidence import RUN
from autotune.scan.launch import Launch, dialect_of, flags_call, launcher_call, launches
from autotune.syntax import shell


def read(text: str) -> tuple[Launch, ...]:
    return launches(shell.read(text.encode(), "run.sh"), "run.sh")


def one(text: str) -> Launch:
    (found,) = read(text)
    return found


def flags(launch: Launch) -> dict[str, object]:
    return {name: each.value for name, each in launch.flags.items()}


@pytest.mark.parametrize(
    ("text", "launcher", "script", "module", "processes"),
    [
        ("python train.py --lr 1", "python", "train.py", None, None),
        ("python3.11 -u -m project.train --lr 1", "python", None, "project.train", None),
        ("/usr/bin/python3 -W ignore train.py", "python", "train.py", None, None),
        ("CUDA_VISIBLE_DEVICES=0 python train.py", "python", "train.py", None, None),
        ("env A=1 python train.py", "python", "train.py", None, None),
        ("srun --ntasks 4 numactl --cpunodebind 0 python train.py", "python", "train.py", None, None),
        ("uv run python train.py", "python", "train.py", None, None),
        ("python submit.py --gpus 8 -- torchrun --nproc_per_node 8 train.py", "torchrun", "train.py", None, 8),
        ("python train.py --lr 1 -- rest", "python", "train.py", None, None),
        ("apptainer exec --nv a.sif torchrun --nproc_per_node 4 train.py", "torchrun", "train.py", None, 4),
        ("torchrun --nproc_per_node 8 -- train.py", "torchrun", "train.py", None, 8),
        ("python submit.py -- A=1 torchrun train.py", "torchrun", "train.py", None, 1),
        ("python train.py -- other.py", "python", "train.py", None, None),
        ("docker run --gpus all -v /a:/b image python train.py", "python", "train.py", None, None),
        ("uv run torchrun --nproc_per_node 2 train.py", "torchrun", "train.py", None, 2),
        ("torchrun train.py", "torchrun", "train.py", None, 1),
        ("torchrun --standalone --nproc_per_node=4 --nnodes 2 train.py", "torchrun", "train.py", None, 8),
        ("torchrun --nproc-per-node gpu train.py", "torchrun", "train.py", None, None),
        ("torchrun --nproc_per_node $NUM train.py", "torchrun", "train.py", None, None),
        ("torchrun --nproc_per_node 2 -m project.train", "torchrun", None, "project.train", 2),
        ("python -m torch.distributed.launch --nproc_per_node 4 --use_env t.py --a 1", "torchrun", "t.py", None, 4),
        ("python -m torch.distributed.run --nproc_per_node 4 t.py", "torchrun", "t.py", None, 4),
        ("accelerate launch train.py", "accelerate", "train.py", None, None),
        ("accelerate launch --num_processes 4 --multi_gpu train.py --lr 1", "accelerate", "train.py", None, 4),
        ("accelerate launch --cpu --num_processes 2 train.py", "accelerate", "train.py", None, 1),
        ("accelerate launch --cpu --num_processes 2 --mpirun_hostfile h t.py", "accelerate", "t.py", None, 2),
        ("accelerate launch -m axolotl.cli.train a.yml", "accelerate", None, "axolotl.cli.train", None),
        ("deepspeed --num_gpus=2 train.py --deepspeed zero.json", "deepspeed", "train.py", None, 2),
        ("deepspeed --include localhost:0,1 --master_port 1 train.py", "deepspeed", "train.py", None, None),
        ("composer -n 8 train.py a.yaml", "composer", "train.py", None, 8),
        (
            "tune run --nproc_per_node 2 full_finetune_distributed --config llama",
            "tune",
            None,
            "full_finetune_distributed",
            2,
        ),
        ("trl sft --config a.yaml", "trl", None, "sft", None),
        ("llamafactory-cli train a.yaml", "llamafactory-cli", None, "train", None),
        ("NPROC_PER_NODE=4 swift sft --model m", "swift", None, "sft", 4),
        ("litgpt finetune_lora m --config a.yaml", "litgpt", None, "finetune_lora", None),
        ("axolotl train a.yml", "axolotl", None, "train", None),
    ],
)
def test_launchers(text: str, launcher: str, script: str | None, module: str | None, processes: int | None) -> None:
    found = one(text)
    assert (found.launcher, found.script, found.module) == (launcher, script, module)
    assert found.num_processes == processes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pip install torch",
        "python",
        "python -c 'import torch' train.py",
        "python -m torch.distributed.run",
        "torchrun --nproc_per_node 4",
        "accelerate config",
        "accelerate",
        "tune download m",
        "llamafactory-cli chat a.yaml",
        "trl env",
        "env A=1",
        "echo python train.py",
        "git checkout -- train.py",
        "pytest -- tests/train.py",
        "docker cp train.py c:/x",
    ],
)
def test_what_starts_no_training(text: str) -> None:
    assert read(text) == ()


def test_the_forms_of_flags() -> None:
    text = """python train.py --lr 3e-4 --batch-size=32 -b 16 --fp16 --bf16 True --name "a b" \\
        --offset -1 --no_cuda --no-amp --dotted.key 2 --empty= data.workers=4 +new.key=x input.txt"""
    found = one(text)
    assert flags(found) == {
        "lr": 3e-4,
        "batch_size": 32,
        "b": 16,
        "fp16": True,
        "bf16": True,
        "name": "a b",
        "offset": -1,
        "no_cuda": True,
        "cuda": False,
        "no_amp": True,
        "amp": False,
        "dotted.key": 2,
        "empty": "",
        "data.workers": 4,
        "new.key": "x",
    }
    assert not found.is_open


def test_values_are_where_a_person_edits_them() -> None:
    text = "LR=3e-4\npython train.py \\\n  --lr $LR \\\n  --workers=4\n"
    found = one(text).flags
    at, beside = found["lr"].location, found["workers"].location
    assert at.span is not None
    assert beside.span is not None
    assert (found["lr"].value, at.line, text[at.span.start : at.span.end]) == (3e-4, 1, "3e-4")
    assert (beside.line, text[beside.span.start : beside.span.end]) == (4, "--workers=4")
    assert (at.key, beside.key) == ("--lr", "--workers")


def test_a_word_is_kept_as_it_is_written() -> None:
    found = one("python train.py --precision 16 --pin=False --amp --no-ema --lr $LR").flags
    assert [found[name].value for name in ("precision", "pin", "amp", "ema")] == [16, False, True, False]
    assert {name: each.text for name, each in found.items()} == {
        "precision": "16",
        "pin": "False",
        "amp": None,
        "no_ema": None,
        "ema": None,
        "lr": None,
    }


def test_lists_and_what_cannot_be_known() -> None:
    found = one('python train.py --layers 1 2 3 --lr $LR --seed=$SEED --out "$DIR/x"')
    assert {name: each.known for name, each in found.flags.items()} == dict.fromkeys(
        ("layers", "lr", "seed", "out"), False
    )
    assert not found.is_open


@pytest.mark.parametrize(
    "text",
    [
        'python train.py "$@"',
        "python train.py $ARGS --lr 1",
        "python train.py --lr 1 a $ARGS",
        'python train.py --lr 1 --bf16 "$@"',
        "python train.py --bf16 $*",
        'python train.py --bf16 "${ARGS[@]}" --lr 1',
        "python train.py --bf16 $EXTRA_ARGS --lr 1",
        "python train.py --bf16 ${OPTS:-$MORE}",
    ],
)
def test_a_part_that_cannot_be_known_leaves_the_command_open(text: str) -> None:
    assert one(text).is_open


def test_config_files() -> None:
    text = (
        "accelerate launch --config_file acc.yaml train.py --deepspeed ds.json --fp16 a.yml config/x.py --out out.txt"
    )
    assert one(text).config_files == ("acc.yaml", "ds.json", "a.yml", "config/x.py")
    assert one("python train.py config/x.py --batch_size=32").config_files == ("config/x.py",)
    assert one("llamafactory-cli train a.yaml lr=1").config_files == ("a.yaml",)


HF = "--output_dir o --per_device_train_batch_size 4"


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (f"python train.py {HF}", "hf_trainer"),
        (f"python train.py {HF} --model_name_or_path m --dataset_name d --do_train", "hf_trainer"),
        (f"python train.py {HF} --model_name_or_path m --dataset_name d", "trl"),
        ("python train.py --data-dir d --model resnet50 --amp --sched cosine", "timm"),
        ("python train.py --lr 1", None),
        ("tune run full --config c batch_size=4", "torchtune"),
        ("trl sft --config a.yaml", "trl"),
        ("swift sft --model m", "swift"),
        ("accelerate launch -m axolotl.cli.train a.yml", "axolotl"),
    ],
)
def test_the_dialect_of_the_flags(text: str, dialect: str | None) -> None:
    assert dialect_of(one(text)) == dialect


def test_flags_as_a_call() -> None:
    made = flags_call(one(f"\npython train.py {HF} $MORE"), "hf_trainer")
    assert (made.dialect, made.name, made.subject, made.is_open) == ("hf_trainer", "", RUN, True)
    assert made.arguments["per_device_train_batch_size"].value == 4
    assert (made.location.file, made.location.line) == ("run.sh", 2)


def test_the_flags_of_accelerate_itself() -> None:
    made = launcher_call(one("accelerate launch --mixed_precision bf16 --num_processes 2 train.py --lr 1"))
    assert made is not None
    assert {name: each.value for name, each in made.arguments.items()} == {
        "mixed_precision": "bf16",
        "num_processes": 2,
    }
    assert made.dialect == "accelerate_config"
    assert launcher_call(one("python train.py")) is None


WORDS = [
    *("python", "-m", "torchrun", "accelerate", "launch", "trl", "sft", "tune", "run", "env", "srun", "train.py"),
    *("torch.distributed.run", "--lr", "--lr=1", "--no_x", "-n", "-", "--", "$A", '"$@"', "a=b", "c.yaml", "1", "''"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_no_command_is_an_error(words: list[str]) -> None:
    for found in read(" ".join(words)):
        assert found.script is None or found.module is None
        dialect_of(found)
        launcher_call(found)


def test_what_sets_up_an_environment_starts_no_training() -> None:
    script = shell.read(b"python -m pip install torch\npython -m venv x\npython -m train --lr 1\n", "run.sh")
    assert [one.module for one in launches(script, "run.sh")] == ["train"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('srun -N 2 bash -c "python train.py --lr 1"', {"lr": 1}),
        ("srun -N 2 /bin/bash -l -c 'python train.py --lr 1' >> log.txt 2>&1 &", {"lr": 1}),
        ('LR=2\nsrun bash -lc \\\n  "python train.py \\\n    --lr $LR --rank ${RANK}"\n', {"lr": 2, "rank": None}),
        ("docker run --gpus all image sh -c 'pip install . && python train.py --lr 1'", {"lr": 1}),
        ("bash -c \"python train.py --name 'a run'\"", {"name": "a run"}),
        ('nohup sh -c "\nmkdir -p out\npython train.py --lr 1\n"', {"lr": 1}),
        ("LR=2\nsrun bash -c 'python train.py --lr 1 --rank $SLURM_PROCID'", {"lr": 1, "rank": None}),
        ("srun bash -c 'source env/bin/activate; python train.py --lr 1'", {"lr": 1}),
    ],
)
def test_what_a_shell_is_given(text: str, expected: dict[str, object]) -> None:
    found = one(text)
    assert (found.script, flags(found)) == ("train.py", expected)


def test_places_of_what_a_shell_is_given() -> None:
    text = 'srun bash -c \\\n  "python train.py --lr 17"\n'
    place = one(text).flags["lr"].location
    assert place.span is not None
    assert (place.line, text[place.span.start : place.span.end]) == (2, "17")


@pytest.mark.parametrize(
    "text",
    [
        "echo \"bash -c 'python train.py'\"",
        'bash -c "echo \\"a\\"; python train.py"',  # escaped: another text than that in the file
        'bash -c "$COMMAND"',
        "bash -x 'python train.py'",
        "bash run.sh -c 'python train.py'",
        "bash --norc 'python train.py'",
        "bash -c 'python train.py --lr 1' name --lr 2",  # the last words are arguments of the inner shell
        "LR=1\nbash -c 'python train.py --lr ${LR:-0}'",  # not exported
        "bash -c 'python train.py \"$@\"'",
        "NAME=a\nbash -c \"python train.py --name '$NAME'\"",
        "srun bash -c 'for i in 1 2; do python train.py; done'",
        "srun bash -c 'if true; then python train.py; fi'",
        "srun bash -c 'case $X in a) python train.py;; esac'",
        "srun bash -c '{ python train.py; }'",
        "srun bash -c '(python train.py)'",
        "bash -c 'cd src && python train.py'",
        "bash -c 'python train.py ('",
    ],
)
def test_what_no_shell_is_given(text: str) -> None:
    assert read(text) == ()


@pytest.mark.parametrize(
    "inner",
    [
        "bash -c 'cd sub && python prep.py'",
        'bash -c "cat > c <<EOF\nlr: 1\nEOF"',
        "bash -c 'python prep.py # x'",
        "bash -c 'WORKERS=8; python prep.py'",
        "bash -c 'export WORKERS=8; python prep.py'",
        "bash -c 'read WORKERS; python prep.py'",
        "bash -c 'source settings.sh; python prep.py'",
        "bash -c 'f() { python prep.py; }'",
        "bash -c 'set -- 8; python prep.py'",
        "srun bash -c 'for WORKERS in 1 2; do python prep.py; done'",
        "bash -c '[ -f x ]'",
        "bash -c 'test -f x || exit'",
        "false || bash -c 'ls; ls'",
        "bash -c 'python prep.py'",
        "bash -c 'python prep.py ${X'",
        "bash -c 'python prep.py $(x'",
        'bash -c "echo \'"',
        "bash -c 'echo \"'",
        "bash -c 'echo \\'",
        "bash -c 'X=(1'",
    ],
)
@pytest.mark.parametrize("then", [" && ", "\n"])
def test_the_inner_shell_changes_nothing_for_the_outer_one(inner: str, then: str) -> None:
    """The commands outside are read as where a program without a text stands there."""
    outside = f"{then}python train.py --workers ${{WORKERS:-0}} --lr $1\n"
    found, plain = (shell.read(f"{one}{outside}".encode(), "run.sh").commands[-1] for one in (inner, "ls x"))
    said = [(word.value for word in one.words) for one in (found, plain)]
    assert list(said[0]) == list(said[1])
    launched = launches(shell.read(f"{inner}{outside}".encode(), "run.sh"), "run.sh")
    assert [flags(one)["workers"] for one in launched if one.script == "train.py"] == [0]
