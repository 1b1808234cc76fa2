"""Damaged artefacts: whatever a recording, manifest, patch, journal, lock or rule file holds, no verb has a traceback.

Each is what autotune itself made of a run of a small script, damaged in one way drawn from a fixed seed. The verbs that
read it run in this process.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from autotune import cli
from autotune.collect import lock
from autotune.engine.load import load_rules, rules_folder
from autotune.errors import AutotuneError, BusyError
from benchmarks.attacks.case import Case

TITLE = "damaged recordings, manifests, patches, journals, rules"

MOST_S = 10.0
COUNTS = {
    "recording": 260,
    "manifest": 80,
    "patch": 120,
    "journal": 60,
    "register": 40,
    "baseline": 40,
    "rule": 80,
    "lock": 40,
}
SCRIPT = """import time
import torch
from torch.utils.data import DataLoader
class Data:
    def __len__(self): return 4000
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.randn(64)
def main():
    loader = DataLoader(Data(), batch_size=8)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        print(model[0].weight.sum().item())
main()
"""

WRONG: Sequence[Any] = (
    None, True, -1, 0, 2**40, 10**30, -(10**18), 0.5, -1e300, "", "x", "\x00", "\udcff", "\x1b[31m", "::error::x",
    "a" * 100_000, "../../../etc/passwd", [], [None], [[]], {}, {"": ""}, {"a": {"b": []}},
)  # fmt: skip
RAW = (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"1" * 5000, b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"\0")


def cases(scratch: Path) -> Iterator[Case]:
    """The damage, by artefact."""
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    project = scratch / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text("")
    (project / "train.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "autotune", "diagnose", "--no-lock", "--quiet", "train.py"]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(words, cwd=project, env=environ, capture_output=True, check=True)
    (run,) = (project / ".autotune" / "runs").iterdir()
    randomly = random.Random(22)
    recording = next(run.glob("recording-*.json"))
    verbs = (["report", "last"], ["report", "last", "--format", "json"])
    yield from _damaged("recording", recording, verbs, randomly)
    yield from _damaged("manifest", run / "run.json", (*verbs, ["apply", "--diff"]), randomly)
    yield from _damaged("patch", run / "patch.yaml", (["apply", "--diff"], verbs[0]), randomly)
    _run(project, ["apply", "--yes"])
    (journal,) = (scratch / "state").rglob("journal.json")
    yield from _damaged("journal", journal, (["undo"], ["rules"], ["apply", "--diff"]), randomly, project)
    _run(project, ["apply", "--yes"])
    register = next((scratch / "state").rglob("runs"))
    yield from _damaged("register", register, (["report", "last"], ["apply", "--diff"]), randomly, project)
    _run(project, ["check", "--write-baseline", "baseline.json"])
    baseline = project / "baseline.json"
    yield from _damaged("baseline", baseline, (["check", "--baseline", "baseline.json"],), randomly, project)
    yield from _rules(scratch / "rules", randomly)
    yield from _locks(scratch / "locks", randomly)


def _damaged(
    kind: str, file: Path, verbs: Sequence[list[str]], randomly: random.Random, project: Path | None = None
) -> Iterator[Case]:
    root = project or file.parents[3]
    whole, folder = file.read_bytes(), file.parent
    kept = folder.with_name(f"{folder.name}.kept")
    shutil.copytree(folder, kept)
    for number in range(COUNTS[kind]):
        what, data = _damage(whole, randomly, file.suffix == ".json")
        file.write_bytes(data)
        failures = []
        for verb in verbs:
            code, output, took_s = _run(root, verb)
            is_bug = code == 4 or "internal error" in output
            failures += [f"{' '.join(verb)}: {output.strip()[-300:]}"] if is_bug else []
            failures += [f"{' '.join(verb)}: took {took_s:.0f} s"] if took_s > MOST_S else []
        _restore(folder, kept)
        yield Case(f"{kind} {number}: {what}", "; ".join(failures))
    shutil.rmtree(kept)


def _restore(folder: Path, kept: Path) -> None:
    """The contents of `folder` as in `kept`; the folder stays the same one, by whose inode it is known."""
    aside = folder.with_name(f"{folder.name}.damaged")
    if aside.exists():
        aside.rename(folder)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.copytree(kept, folder, dirs_exist_ok=True)


def _damage(whole: bytes, randomly: random.Random, is_json: bool) -> tuple[str, bytes]:
    """What was done, and the bytes after it."""
    kind = randomly.choice(
        ("cut", "flip", "raw", "swap", *(("value",) * 6 + ("key", "twice") if is_json else ("line",) * 4))
    )
    at = randomly.randrange(len(whole) + 1)
    if kind == "cut":
        return f"cut at {at}", whole[:at]
    if kind == "flip":
        spots = [randomly.randrange(len(whole)) for _ in range(randomly.choice((1, 3, 30)))] if whole else []
        data = bytearray(whole)
        for spot in spots:
            data[spot] = randomly.randrange(256)
        return f"{len(spots)} bytes replaced", bytes(data)
    if kind == "raw":
        raw = randomly.choice(RAW)
        return f"{raw[:10]!r} at {at}", whole[:at] + raw + whole[at:]
    if kind == "swap":
        return "another file", randomly.choice(
            (b"", b"{}", b"[]", b"null", b"1", b'"x"', b"\n" * 1000, os.urandom(500))
        )
    if kind == "line":
        return _line(whole, randomly)
    return _value(json.loads(whole), randomly, kind)


def _line(whole: bytes, randomly: random.Random) -> tuple[str, bytes]:
    """One line of a text file deleted, doubled, or with another value."""
    lines = whole.split(b"\n")
    index = randomly.randrange(len(lines))
    how = randomly.choice(("deleted", "doubled", "value"))
    if how == "deleted":
        del lines[index]
    elif how == "doubled":
        lines.insert(index, lines[index])
    else:
        value = json.dumps(randomly.choice(WRONG)).encode("ascii")
        head = lines[index].partition(b": ")[0].partition(b" = ")[0]
        lines[index] = head + (b": " if b": " in lines[index] else b" = ") + value
    return f"line {index + 1} {how}: {lines[min(index, len(lines) - 1)][:60]!r}", b"\n".join(lines)


def _value(tree: Any, randomly: random.Random, kind: str) -> tuple[str, bytes]:
    """One value of a JSON file replaced, or its key deleted, or twice there."""
    tree = copy.deepcopy(tree)
    where, name = [], ""
    node: Any = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = randomly.choice(keys)
        where.append((node, key))
        name += f"[{key!r}]"
        if not isinstance(node[key], dict | list) or not node[key] or randomly.random() < 0.25:
            break
        node = node[key]
    if not where:
        return "empty", json.dumps(tree).encode()
    node, key = where[-1]
    if kind == "key":
        del node[key]
        return f"{name} deleted", json.dumps(tree).encode()
    if kind == "twice" and isinstance(node, list):
        node.insert(key, node[key])
        return f"{name} twice", json.dumps(tree).encode()
    node[key] = randomly.choice(WRONG)
    return f"{name} = {node[key]!r:.40}", json.dumps(tree).encode()


def _rules(folder: Path, randomly: random.Random) -> Iterator[Case]:
    """A folder of rules, one of them damaged."""
    shutil.copytree(rules_folder(), folder)
    files = sorted(folder.glob("*/*.toml"))
    for number in range(COUNTS["rule"]):
        file = randomly.choice(files)
        whole = file.read_bytes()
        what, data = _damage(whole, randomly, is_json=False)
        file.write_bytes(data)
        began = time.monotonic()
        failure = _load(folder)
        took_s = time.monotonic() - began
        file.write_bytes(whole)
        yield Case(
            f"rule {number}: {file.name}, {what}", failure or (f"took {took_s:.0f} s" if took_s > MOST_S else "")
        )


def _locks(folder: Path, randomly: random.Random) -> Iterator[Case]:
    """The measurement lock, held by somebody who wrote something odd into it."""
    folder.mkdir()
    path = folder / f"autotune-{os.getuid()}.lock"
    holder = json.dumps({"pid": 7, "started": time.time(), "what": "train.py"}).encode()
    for number in range(COUNTS["lock"]):
        what, data = _damage(holder, randomly, is_json=True)
        path.write_bytes(data)
        with path.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            try:
                with lock.one_measurement("x", folder):
                    failure = "two held it"
            except BusyError as error:
                failure = "" if str(error) else "no word"
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
        yield Case(f"lock {number}: {what}", failure)


def _load(folder: Path) -> str:
    try:
        load_rules(folder)
    except AutotuneError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _run(root: Path, words: Sequence[str]) -> tuple[int, str, float]:
    out = io.StringIO()
    began = time.process_time()
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cli.run(words)
    return code, out.getvalue(), time.process_time() - began
