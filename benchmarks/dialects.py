"""How many config files of public repositories `autotune check` reads, now and in another checkout.

    python benchmarks/dialects.py CLONES [--before CHECKOUT]

CLONES holds a folder OWNER+NAME for each repository of dialects.toml at its commit; those that are not there are left
out. A config file is a YAML, JSON, TOML or shell file, or a Python file without functions and classes, that gives
values to two settings of a training by the names that configs use for them (WORDS); files of tests, of requirements and
of tools are none. The words are no dialect's own: a file is counted whether it is read or not. It is read when a bundle
takes the value of a setting from it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from measuring import ROOT, kept, table

LIST = ROOT / "benchmarks" / "dialects.toml"

WORDS = re.compile(
    rb"(?i)(?<![a-z])[\"']?(?:[a-z0-9_]+[._])*("
    rb"(?:[a-z_]*_)?batch_?size(?:_per_gpu)?|samples_per_gpu|ims_per_batch|max_tokens|batch"
    rb"|(?:[a-z_]*_)?(?:num_)?workers(?:_per_gpu)?|n_workers"
    rb"|(?:[a-z_]*_)?epochs?|max_(?:train_)?steps|max_iters?|max_update"
    rb"|lr|base_lr|base_learning_rate|learning_rate"
    rb"|accumulate_grad_batches|gradient_accumulation_steps|update_freq"
    rb"|precision|mixed_precision|fp16|bf16|amp"
    rb")[\"']? *[:= ] *[\"']?[\[\d.tTfF$!b]"
)
"""A setting and the beginning of its value, as YAML, TOML, JSON, Python, flags and overrides have them."""

SYNTAXES = (".yaml", ".yml", ".json", ".toml", ".sh", ".bash", ".sbatch", ".slurm", ".py")
NO_CONFIG = re.compile(r"(?:^|/)(?:\.[^/]+|tests?|docs?|requirements[^/]*|pyproject\.toml|package\.json)(?:/|$)")
LAUNCHES = re.compile(rb"\b(?:python3?|torchrun|accelerate|deepspeed|fairseq-(?:hydra-)?train|yolo)\b")
DEFINES = re.compile(rb"^(?:def|class|async def) ", re.MULTILINE)
MIN_SETTINGS = 2
LARGEST = 300_000

READ = """
import json, sys
from pathlib import Path
from autotune.scan import scan
root = Path(sys.argv[1]).resolve()
found = scan([root], root=root)
given = [one for bundle in found.bundles for one in bundle.settings if one.location and one.origin == "static"]
print(json.dumps(sorted({one.location.file for one in given})))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--before", type=Path, help="another checkout, which reads them too")
    parser.add_argument("--out", type=Path, help="a folder in which the files of each repository are kept")
    parser.add_argument("--unread", action="store_true", help="name the config files that are not read")
    given = parser.parse_args()
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    rows, total = [], [0, 0, 0]
    for name, row in listed.items():
        folder = given.clones / name.replace("/", "+")
        if not folder.is_dir():
            continue
        found = kept(given.out, folder.name, partial(count, folder, given.before))
        numbers = [len(found[one]) for one in ("configs", "before", "now")]
        total = [sum(pair) for pair in zip(total, numbers, strict=True)]
        rows.append((name, row["commit"][:7], *map(str, numbers)))
        if given.unread:
            print(*(f"{name}: {file}" for file in found["configs"] if file not in found["now"]), sep="\n", flush=True)
    rows.append((f"{len(rows)} repositories", "", *map(str, total)))
    print(table(("repository", "commit", "config files", "read before", "read now"), rows))


def count(folder: Path, before: Path | None) -> dict[str, list[str]]:
    """The config files of a repository, and those that each checkout reads."""
    configs = config_files(folder)
    older = read_files(folder, before) if before is not None else set()
    return {
        "configs": sorted(configs),
        "before": sorted(configs & older),
        "now": sorted(configs & read_files(folder, ROOT)),
    }


def config_files(folder: Path) -> set[str]:
    """The config files of a repository, by their names."""
    found = set()
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.suffix not in SYNTAXES or not path.is_file() or NO_CONFIG.search(name):
            continue
        data = path.read_bytes()
        if len(data) <= LARGEST and is_config(path.suffix, data):
            found.add(name)
    return found


def is_config(suffix: str, data: bytes) -> bool:
    if suffix == ".py" and DEFINES.search(data):
        return False
    if suffix in (".sh", ".bash", ".sbatch", ".slurm") and not LAUNCHES.search(data):
        return False
    return len({match[1].lower() for match in WORDS.finditer(data)}) >= MIN_SETTINGS


def read_files(folder: Path, checkout: Path) -> set[str]:
    """The files from which a checkout takes settings; in a process of its own, with its own code and an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environ: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "XDG_CACHE_HOME": cache}
        argv: Sequence[str] = (sys.executable, "-P", "-c", READ, str(folder))
        ended = subprocess.run(argv, env=environ, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"dialects: {checkout} cannot read {folder}: {ended.stderr[-400:]}")
    return set(json.loads(ended.stdout))


if __name__ == "__main__":
    main()
