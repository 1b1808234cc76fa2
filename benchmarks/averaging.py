"""Whether "at most" is true of DDP's averaging of gradients (GA001, DD020): jobs of two gloo processes.

Each job is diagnosed; then what the rules bound is done in it, in turns with the job as it is, in one process.

    python benchmarks/averaging.py [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import measuring

LIMIT_S = 240.0
WORDS = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "train.py")
FOUR = ("--micro-batches", "4")
JOBS = (
    ("GA001", FOUR, {"no_sync": True}),
    ("GA001", (*FOUR, "--bucket", "1"), {"no_sync": True}),
    ("DD020", (), {"bucket": 1}),
    ("DD020", (), {"bucket": 8}),
    ("DD020", ("--bucket", "1"), {"bucket": 25}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    rounds = parser.parse_args().rounds
    print("| job | rule | change | at most | done |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "pyproject.toml").touch()
        (folder / "train.py").write_bytes((measuring.SCRIPTS / "averaging.py").read_bytes())
        for rule, words, change in JOBS:
            for _ in range(rounds):
                row = (" ".join(words) or "-", rule, json.dumps(change), bound(folder, rule, words))
                print(f"| {' | '.join(row)} | {done(folder, words, change):.2f}x |", flush=True)


def bound(folder: Path, rule: str, words: tuple[str, ...]) -> str:
    """What the diagnosis says that the change brings at most."""
    out = _output(folder, [sys.executable, "-m", "autotune", "diagnose", "--quiet", "--format", "json", "--"], words)
    found = [one for one in json.loads(out)["findings"] if one["rule"] == rule]
    return f"{found[0]['gain']['high']:.2f}x" if found and found[0]["gain"] else "silent"


def done(folder: Path, words: tuple[str, ...], change: dict[str, object]) -> float:
    as_is, changed = json.loads(_output(folder, [], (*words, "--turns", json.dumps(change))))
    return float(as_is / changed)


def _output(folder: Path, front: list[str], words: tuple[str, ...]) -> str:
    environ = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ended = measuring.run([*front, *WORDS, *words], cwd=folder, environ=environ, limit_s=LIMIT_S)
    if ended.code != 0:
        raise SystemExit(f"{' '.join(words)}: exit code {ended.code}\n{ended.err}")
    return ended.out


if __name__ == "__main__":
    main()
