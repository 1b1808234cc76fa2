"""The wheel in an environment of its own: what the core promises works without torch, from an empty folder.

    python tests/ci/wheel_smoke.py            builds the wheel first (needs the package `build`)
    python tests/ci/wheel_smoke.py dist       takes that of the folder

Prints sizes. Run by the workflows and by `make wheel`; no test of the suite, because it needs a package registry.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAULTY = """\
from transformers import Trainer, TrainingArguments

arguments = TrainingArguments(output_dir="out", evaluation_strategy="steps", group_by_length=True)
Trainer(model=None, args=arguments).train()
"""
ABSENT = ("torch", "numpy", "optuna", "psutil", "rich", "jinja2")
_INSTALLED = """
import importlib.metadata, importlib.util, json, sys
found = [one for one in importlib.metadata.distributions() if one.name not in ("pip", "setuptools")]
files = [file.locate() for one in found for file in one.files or ()]
present = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
print(json.dumps([present, sum(file.stat().st_size for file in files if file.is_file())]))
"""


def main(arguments: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        dist = Path(arguments[0]).resolve() if arguments else build(folder / "dist")
        (wheel,) = dist.glob("*.whl")
        environment = folder / "environment"
        venv.create(environment, with_pip=True)
        scripts = environment / ("Scripts" if os.name == "nt" else "bin")
        run(scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
        print(f"{wheel.name}: {megabytes(wheel.stat().st_size)}")
        print(f"installed, with its dependencies: {megabytes(installed(scripts / 'python'))}")
        empty = folder / "empty"
        empty.mkdir()
        use(scripts / "autotune", empty)
        print("the wheel works without torch")


def build(dist: Path) -> Path:
    run(sys.executable, "-m", "build", "--wheel", "--outdir", str(dist), str(ROOT))
    return dist


def installed(python: Path) -> int:
    """Bytes of what was installed, pip left out. The packages that the core does without are not there."""
    present, num_bytes = json.loads(run(python, "-c", _INSTALLED, *ABSENT))
    assert present == [], f"the core brings {present}"
    return int(num_bytes)


def use(autotune: Path, empty: Path) -> None:
    """Each verb that the core has, as somebody uses it who has just installed it."""
    assert run(autotune, "--version", cwd=empty).startswith("autotune ")
    assert "no training was recognised" in run(autotune, "check", cwd=empty)
    (empty / "train.py").write_text(FAULTY, encoding="utf-8")
    (empty / "requirements.txt").write_text("transformers==5.23.0\n", encoding="utf-8")
    found = json.loads(run(autotune, "check", "--format", "json", cwd=empty, code=1))
    assert found["findings"], "the faulty script has no finding"
    (empty / "train.py").unlink()
    (empty / "requirements.txt").unlink()
    assert "DL001" in run(autotune, "explain", "DL001", cwd=empty)
    rules = json.loads(run(autotune, "rules", "--format", "json", cwd=empty))["rules"]
    assert len(rules) > 150, f"the wheel has {len(rules)} rules"
    assert "## Workflow" in run(autotune, "agent-guide", cwd=empty)
    assert run(autotune, "agent-guide", "--skill", cwd=empty).startswith("---\nname: autotune")
    assert list(empty.iterdir()) == [], "something was written"
    print(f"check, explain, rules ({len(rules)}) and agent-guide answered from an empty folder")


def run(*words: str | Path, cwd: Path | None = None, code: int = 0) -> str:
    ended = subprocess.run(words, cwd=cwd, capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == code, f"{words} exited with {ended.returncode}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def megabytes(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    main(sys.argv[1:])
