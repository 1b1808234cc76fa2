"""A repository that was made to harm whoever checks it: bounded work, and nothing of it runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from autotune.check import check as api
from autotune.engine.expr import compile_expression
from autotune.errors import RuleError

SECONDS, MEMORY = 60, 2 << 30
"""Far more than needed, far less than a bomb takes."""

KEYS = "output_dir: x\nper_device_train_batch_size: 2\nnum_train_epochs: 1\n"

SCRIPT = textwrap.dedent("""
    import torch
    for x in loader:
        loss = model(x.cuda())
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
""")


def bombs(root: Path) -> dict[str, bytes]:
    nested = "a: " + "[" * 100_000
    aliases = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))
    return {
        "alias.yaml": (KEYS + "a0: &a0 [x, x]\n" + aliases).encode(),
        "deep.yaml": (KEYS + nested).encode(),
        "deep.json": b'{"zero_optimization": ' + b"[" * 500_000,
        "deep.toml": b"[job]\n[training]\nseq_len = 1\n[parallelism]\nx = " + b"[" * 100_000,
        "deep.py": b"import torch\nloss.backward()\nx = " + b"(" * 50_000,
        "unary.py": b"import torch\nloss.backward()\nx = " + b"-" * 200_000 + b"1",
        "sum.py": b"import torch\nloss.backward()\nx = " + b"1 + " * 50_000 + b"1",
        "power.py": b"batch_size = 9 ** 9 ** 9\nblock_size = 9 * 9\nmax_iters = 10 << 9999999999\neval_interval = 2\n",
        "deep.sh": b"torchrun " + b"$(" * 50_000,
        "quotes.sh": b"torchrun train.py " + b"\"'" * 50_000,
        "null.py": b"import torch\nloss.backward()\n\0",
        "null.yaml": KEYS.encode() + b"\0",
        "latin.py": b"import torch\nloss.backward()\n# \xe9\xff",
        "latin.yaml": KEYS.encode() + b"name: \xe9\xff\n",
        "utf16.yaml": KEYS.encode("utf-16"),
        "tag.yaml": KEYS.encode() + b'x: !!python/object/apply:os.system ["touch ' + bytes(root) + b'/ran"]\n',
        "import.py": f"import torch\nopen({str(root / 'ran')!r}, 'w')\nloss.backward()\n".encode(),
        "run.sh": f"touch {root}/ran\ntorchrun $(touch {root}/ran) --lr `touch {root}/ran` train.py\n".encode(),
        "pyproject.toml": b"[project]\ndependencies = [" + b"[" * 100_000,
        "requirements.txt": b"torch==" + b"1." * 500_000,
        "conftest.py": f"open({str(root / 'ran')!r}, 'w')\n".encode(),
        "sitecustomize.py": f"open({str(root / 'ran')!r}, 'w')\n".encode(),
    }


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    for name, data in bombs(root).items():
        (root / name).write_bytes(data)
    for name in ("huge.json", "huge.py", "huge.sh"):
        with (root / name).open("wb") as file:
            file.truncate(100_000_000)
    (root / "etc").symlink_to("/etc")
    (root / "passwd.yaml").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(".")
    (root / "zero.py").symlink_to("/dev/zero")
    (root / "bad\udcff\nname.py").write_bytes(b"import torch\nloss.backward()\n")
    (root / "train.py").write_text(SCRIPT)
    return root


def checked_within_limits(root: Path) -> subprocess.CompletedProcess[bytes]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return subprocess.run(
        [sys.executable, "-m", "autotune", "check", ".", "--select", "SY005", "--fail-on", "never"],
        cwd=root,
        capture_output=True,
        preexec_fn=limit,
        check=False,
        timeout=2 * SECONDS,
    )


def test_a_hostile_repository_costs_little_and_runs_nothing(hostile) -> None:
    done = checked_within_limits(hostile)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"SY005" in done.stdout
    assert not (hostile / "ran").exists()


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (os.mkfifo, b"not a regular file"),
        (lambda file: file.symlink_to("/dev/zero"), b"a link out of the checked folder: not followed"),
        (lambda file: file.symlink_to(file.parent.parent / "outside.toml"), b"a link out of the checked folder"),
        (lambda file: file.write_bytes(bytes(2_000_001)), b"larger than 2 MB"),
    ],
    ids=["pipe", "device", "outside", "huge"],
)
def test_a_configuration_that_is_no_plain_file_is_noted_and_not_read(make, why: bytes, tmp_path) -> None:
    (tmp_path / "outside.toml").write_text('[tool.autotune]\nexclude = ["train.py"]\n')
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / "train.py").write_text(SCRIPT)
    make(root / "pyproject.toml")
    done = checked_within_limits(root)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"SY005" in done.stdout
    assert b"Note: pyproject.toml: " + why in b" ".join(done.stdout.split()), done.stdout.decode()


def test_each_broken_file_is_noted_by_name(hostile) -> None:
    checked = api.check(api.CheckOptions((hostile,)), cwd=hostile)
    noted = {note.where.split(":")[0] for note in checked.notes}
    broken = {"deep.yaml", "deep.json", "deep.toml", "deep.py", "null.py", "null.yaml", "latin.py", "latin.yaml"}
    assert broken <= noted
    assert {"alias.yaml", "etc", "passwd.yaml", "zero.py", "huge.json", "huge.py", "huge.sh"} <= noted
    assert not any("root:x" in note.why for note in checked.notes)


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')",
        "().__class__",
        "open('/etc/passwd')",
        "[x for x in (1,)]",
        "lambda: 1",
        "step.mean_ms.__class__ == 1",
        "9 ** 9 ** 9 > step.mean_ms",
    ],
)
def test_an_expression_of_a_rule_cannot_run_anything(expression: str) -> None:
    with pytest.raises(RuleError):
        compile_expression(expression, {})
