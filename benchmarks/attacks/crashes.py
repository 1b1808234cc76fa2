"""Crashes of `apply` and `undo`: kill -9 at random moments, a full disk, two at once.

After a crash every file holds its bytes from before or from after the patch, whole; other verbs change nothing; and
`autotune undo` gives all files their bytes from before.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from autotune import cli
from autotune.apply import apply, undo
from autotune.collect import artefacts
from autotune.model.evidence import Span
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.patch.file import NAME, dumps
from autotune.patch.journal import sha256
from benchmarks.attacks.case import Case

TITLE = "kill -9 and full disks in apply and undo"

KILLS = 300
"""Of each of the two verbs."""

SIZES = (0, 400, 4_000, 100_000)
"""Bytes of the files of the project."""

RACES = 40
_SIZES_OF_DISKS = range(12, 268, 8)
"""KiB: from too little for the journal to enough for all."""


def cases(scratch: Path) -> Iterator[Case]:
    """All crashes; their moments are drawn from a fixed seed over the time that an undisturbed one takes."""
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    os.environ["HOME"] = str(scratch)
    randomly = random.Random(22)
    for what, prepare, act in (("apply", _nothing, _apply), ("undo", _apply, _undo)):
        longest = max(_timed(scratch / "timed" / what / str(index), prepare, act) for index in range(5))
        for number in range(KILLS):
            delay = randomly.uniform(0.0, 1.1 * longest)
            yield _killed(scratch / what / str(number), what, prepare, act, delay)
    for number in range(RACES):
        yield _raced(scratch / "races" / str(number), number)
    for limit in (0, 100, 300, 1_000, 3_000, 90_000):
        yield _limited(scratch / "limit" / str(limit), limit)
    for place in ("project", "state"):
        for kib in _SIZES_OF_DISKS:
            yield _on_full_disk(scratch / "disk" / place / str(kib), place, kib)


def _project(root: Path) -> dict[Path, bytes]:
    """A project with files of several sizes and rights, and a run whose patch edits them all; its contents."""
    root.mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    edits = []
    for index, size in enumerate(SIZES):
        path = root / f"file{index}.py"
        path.write_bytes(b"x = 0\n" + b"#" * size)
        path.chmod((0o644, 0o600, 0o755, 0o640)[index])
        edits.append(Edit(path.name, sha256(path.read_bytes()), "x", Span(0, 1), "0", f"{index + 1}" * 5))
    change = PatchChange(
        "loader.num_workers", "loader#train", 0, 4, ("DL001",), Effect.EQUIVALENT, edits=tuple(edits)
    )  # fmt: skip
    run = artefacts.new_run(root)
    artefacts.write_patch(run / NAME, dumps(Patch(str(root), run.name, ("train.py",), (change,))))
    (run / "run.json").write_text("{}")
    artefacts.mark_last(run)
    return _contents(root)


def _contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(root.iterdir()) if path.is_file()}


def _rights(root: Path) -> list[int]:
    return [path.stat().st_mode for path in sorted(root.iterdir()) if path.is_file()]


def _after(before: dict[Path, bytes]) -> dict[Path, bytes]:
    rows = [path for path in before if path.name.startswith("file")]
    return before | {path: b"x = " + f"{index + 1}".encode() * 5 + before[path][5:] for index, path in enumerate(rows)}


def _nothing(root: Path) -> None:
    pass


def _apply(root: Path) -> None:
    apply.write(apply.plan(apply.ApplyOptions("last"), cwd=root))


def _undo(root: Path) -> None:
    undo.undo(None, cwd=root)


def _timed(root: Path, prepare: Callable[[Path], None], act: Callable[[Path], None]) -> float:
    _project(root)
    prepare(root)
    began = time.monotonic()
    act(root)
    return time.monotonic() - began


def _killed(
    root: Path, what: str, prepare: Callable[[Path], None], act: Callable[[Path], None], delay: float
) -> Case:  # fmt: skip
    before = _project(root)
    rights = _rights(root)
    prepare(root)
    child = os.fork()
    if child == 0:
        try:
            act(root)
        finally:
            os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    failure, state = _recovered(root, before, rights)
    return Case(f"{what} is killed after {delay * 1e3:.2f} ms", failure, state)


def _recovered(root: Path, before: dict[Path, bytes], rights: list[int]) -> tuple[str, str]:
    """What is wrong after a crash, and what the crash left."""
    after, left = _after(before), _contents(root)
    torn = [path.name for path in before if left.get(path) not in (before[path], after[path])]
    is_begun = apply.is_interrupted(root)
    said = _told(root, "check")
    failures = [
        f"torn: {torn}" if torn else "",
        "check changed files" if _contents(root) != left else "",
        "no word of it" if is_begun and "an apply or undo was interrupted here" not in said else "",
    ]
    is_mixed = left != before and left != after
    failures.append("mixed, and not known to be interrupted" if is_mixed and not is_begun else "")
    said = _told(root, "undo")
    failures.append(f"undo did not give all back: {said}" if _contents(root) != before else "")
    failures.append("rights changed" if _rights(root) != rights else "")
    failures.append("a traceback of ours" if "internal error" in said else "")
    shutil.rmtree(root, ignore_errors=True)  # a mount point stays
    return "; ".join(filter(None, failures)), "interrupted" if is_begun else "whole"


def _told(root: Path, *words: str) -> str:
    """What autotune says in the project."""
    out = io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        cli.run(words)
    return out.getvalue()


def _raced(root: Path, number: int) -> Case:
    """Two applies or undos at once: one of them is refused or waits, and nothing is torn."""
    before = _project(root)
    rights = _rights(root)
    acts = (_apply, _apply) if number % 2 else (_undo, _undo)
    if acts[0] is _undo:
        _apply(root)
    children = []
    for act in acts:
        child = os.fork()
        if child == 0:
            try:
                act(root)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    failure, state = _recovered(root, before, rights)
    return Case(f"two {'applies' if number % 2 else 'undos'} at once, {number}", failure, state)


def _limited(root: Path, limit: int) -> Case:
    """No file may be longer than `limit` bytes (RLIMIT_FSIZE): every write over it fails."""
    before = _project(root)
    rights = _rights(root)
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        os._exit(_told_code(root))
    _, status = os.waitpid(child, 0)
    failure, state = _recovered(root, before, rights)
    code = os.waitstatus_to_exitcode(status)
    return Case(
        f"no file over {limit} bytes", failure or ("" if code in (0, 2) else f"exit {code}"), f"{state}, exit {code}"
    )


def _told_code(root: Path) -> int:
    os.chdir(root)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return cli.run(["apply", "--yes"])


FULL = """
import sys
from pathlib import Path
import os
from benchmarks.attacks import crashes
root, place, kib = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
os.environ["XDG_STATE_HOME"] = str(root / "state")
os.environ["HOME"] = str(root)
before = crashes._project(root / "project")
rights = crashes._rights(root / "project")
small = root / place
keep = root / "kept"
small.rename(keep)
small.mkdir(mode=0o700)
size = kib if place == "state" else int(kib) + 140
if os.system(f"mount -t tmpfs -o mode=0700,size={size}k small {small} && cp -a {keep}/. {small}"):
    sys.exit(77)
if place == "project":
    # The register knows the project by device and inode: another file system is another project.
    before = {small / path.name: data for path, data in before.items()}
    from autotune.collect import artefacts
    from autotune import state
    state.register_run(small, next((small / ".autotune" / "runs").iterdir()))
code = crashes._told_code(root / "project")
failure, state = crashes._recovered(root / "project", before, rights)
print(f"{failure}|{state}, exit {code}")
"""


def _on_full_disk(root: Path, place: str, kib: int) -> Case:
    """A file system of a few KiB holds the project, or the state: where the machine allows mount namespaces."""
    root.mkdir(parents=True)
    name = f"a disk of {kib} KiB holds the {place}"
    words = ["unshare", *(["-m"] if os.geteuid() == 0 else ["-r", "-m"]), sys.executable, "-c", FULL]
    try:
        done = subprocess.run([*words, str(root), place, str(kib)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return Case(name, detail="not tried: no unshare")
    if done.returncode == 77 or "unshare:" in done.stderr:
        return Case(name, detail="not tried: no mounts here")
    if done.returncode or "|" not in done.stdout:
        return Case(name, f"exit {done.returncode}: {done.stderr[-300:]}")
    failure, _, detail = done.stdout.strip().partition("|")
    return Case(name, failure, detail)
