"""Versions in the script's environment: its interpreter reads package metadata and imports no package."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from importlib import resources

from packaging.version import InvalidVersion, Version

from autotune import catalogue
from autotune.catalogue.frameworks import frameworks
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Fact, Value

DISTRIBUTIONS = (
    "torch",
    "torchvision",
    "torchaudio",
    "torchdata",
    "triton",
    "numpy",
    "tokenizers",
    "datasets",
    "peft",
    "sentence-transformers",
    "diffusers",
    "timm",
    "deepspeed",
    "flash-attn",
    "kernels",
    "xformers",
    "bitsandbytes",
    "liger-kernel",
    "unsloth",
    "torchao",
    "transformer-engine",
    "apex",
    "safetensors",
    "wandb",
    "mlflow",
    "tensorboard",
)
"""What may be named in a report, beside the trainer frameworks: an allowlist, so that private packages stay private."""

_FACTS = {
    "software.python": ("python",),
    "software.torch": ("torch",),
    "software.torch_cuda": ("torch_cuda",),
    "software.peft": ("peft",),
    "software.datasets": ("datasets",),
    "software.flash_attn": ("flash-attn",),
}

_MARK = "autotune-software:"
_TIMEOUT_S = 60.0

# Runs in the script's interpreter, Python 3.9 or newer. The working folder leaves sys.path first: a file of
# the user's named json.py must not be imported. torch/version.py is read: importing torch takes seconds.
_ASK = r"""
import sys
sys.path = [entry for entry in sys.path if entry]
import json, re
from importlib import metadata
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
for name in json.loads(sys.argv[1]):
    try:
        version = metadata.version(name)
    except Exception:  # not installed, or broken: the others still count
        continue
    if version:
        found[name] = version
try:
    text = open(metadata.distribution("torch").locate_file("torch/version.py"), encoding="utf-8").read()
    builds = re.findall(r"^(cuda|hip)\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    found.update(("torch_" + name, version) for name, version in builds)
except (metadata.PackageNotFoundError, OSError):
    pass
print(sys.argv[2] + json.dumps(found))
"""


def software(python: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Versions by distribution name in the environment of interpreter `python`; what is not there is absent.

    Also "python" itself and, from torch/version.py, "torch_cuda" or "torch_hip": what torch was built for.
    Local version suffixes are kept ("2.13.0+cpu"). `environ` is that of the run (PYTHONPATH matters), by
    default ours. Raises UsageError when `python` does not run.
    """
    distributions = [*DISTRIBUTIONS, *(name for one in frameworks().values() for name in one.distributions)]
    command = [python, "-c", _ASK, json.dumps(distributions), _MARK]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
            env=environ,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_interpreter(python, str(error)) from error
    # The user's own sitecustomize may print before us.
    answers = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if done.returncode != 0 or not answers:
        raise _no_interpreter(python, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1])
    versions: dict[str, str] = json.loads(answers[-1].removeprefix(_MARK))
    return versions


def facts(versions: Mapping[str, str], today: date | None = None) -> tuple[Fact, ...]:
    """The software facts of what `software` returned. A version that nobody can parse gives no fact."""
    values: dict[str, Value | None] = {
        name: next((release(versions[key]) for key in keys if key in versions), None)
        for name, keys in (_FACTS | _framework_facts()).items()
    }
    if "torch" in versions:
        values["software.torch_age_days"] = torch_age_days(versions["torch"], today or date.today())
    if "python" in versions:
        values["software.has_flash_attn"] = "flash-attn" in versions or "kernels" in versions
    return tuple(Fact(name, RUN, value) for name, value in values.items() if value is not None)


def _framework_facts() -> dict[str, tuple[str, ...]]:
    """The names of a framework's distribution, by the fact about its version; few frameworks have one."""
    named = {
        f"software.{one.distributions[0]}": one.distributions for one in frameworks().values() if one.distributions
    }
    return {name: distributions for name, distributions in named.items() if name in catalogue.facts()}


def release(text: str) -> tuple[int, ...] | None:
    """The release part: "2.4.0a0+f70bd71.nv24.06" is (2, 4, 0); None when `text` is no version (PEP 440)."""
    try:
        return Version(text).release
    except InvalidVersion:
        return None


def torch_age_days(text: str, today: date) -> int | None:
    """Days from the release of this minor version of torch to `today`; None when unknown or to come."""
    parts = release(text)
    released = _torch_releases().get(".".join(map(str, parts[:2]))) if parts else None
    return (today - released).days if released and released <= today else None


@cache
def _torch_releases() -> dict[str, date]:
    data = resources.files("autotune.machine").joinpath("torch_releases.toml").read_text(encoding="utf-8")
    return tomllib.loads(data)


def _no_interpreter(python: str, why: str) -> UsageError:
    return UsageError(
        f"this Python does not run: {why}",
        where=python,
        to_do="Name the interpreter that runs the script with --python.",
    )
