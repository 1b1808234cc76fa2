"""Hostile repositories and state folders: what a clone holds must not make any verb write, hang, or run something.

Each kind of clone is tried with each verb in a process of its own, started in the clone. Afterwards every file of the
clone, of the home folder and beside them is as it was: only a real `.autotune` of the clone may have new entries.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.attacks.case import Case

TITLE = "hostile clones and state folders, every verb"

LIMIT_S = 60.0
BEFORE, AFTER = b"workers = 0\n", b"import os; os.system('touch CANARY')\n"
RUN = "20260101-000000-abcdef"
NOBODY = 65534

VERBS = (
    ("--version",),
    ("--help",),
    ("check",),
    ("check", "train.py"),
    ("check", "--format", "github"),
    ("rules",),
    ("explain", "DL001"),
    ("diagnose", "--no-lock", "train.py"),
    ("report", "last"),
    ("report", RUN),
    ("tune", "--no-lock", "--trials", "1", "train.py"),
    ("tune", "--no-lock", "--trials", "1", "--resume", "train.py"),
    ("apply",),
    ("apply", "--yes"),
    ("apply", "--yes", RUN),
    ("apply", "--yes", "--allow", "altering", f".autotune/runs/{RUN}/patch.yaml"),
    ("apply", "--diff"),
    ("undo",),
    ("undo", "1"),
    ("verify", "--no-lock", "train.py"),
    ("verify", "--no-lock", "--patch", RUN, "train.py"),
    ("verify", "--no-lock", "--patch", "1", "train.py"),
)


@dataclass(frozen=True, slots=True)
class Clone:
    """One hostile clone. `outside` is what its author is after; `environ` is given to autotune."""

    root: Path
    home: Path
    outside: Path
    environ: dict[str, str]

    @property
    def own(self) -> Path:
        """Its `.autotune`."""
        return self.root / ".autotune"


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _journal(clone: Clone, target: Path, state: str, folder: Path | None = None) -> None:
    """A journal that says of `target` that autotune was at work on it; `before-0` is what the author wants there."""
    own = folder or clone.own / "patches" / "1"
    own.mkdir(parents=True, exist_ok=True)
    now = target.read_bytes() if target.exists() else b""
    (own / "before-0").write_bytes(AFTER)
    (own / "after-0").write_bytes(now)
    row = {"path": str(target), "before": _sha(AFTER), "after": _sha(now)}
    text = {"schema": 1, "state": state, "title": RUN, "left": [], "changes": [], "files": [row]}
    (own / "journal.json").write_text(json.dumps(text))


def _lock(make: Callable[[Path, Clone], None]) -> Callable[[Clone], None]:
    def build(clone: Clone) -> None:
        (clone.own / "patches").mkdir(parents=True)
        make(clone.own / "patches" / "lock", clone)

    return build


def _place(name: str, make: Callable[[Path, Clone], None]) -> Callable[[Clone], None]:
    """Make something odd at `name` of the clone."""

    def build(clone: Clone) -> None:
        path = clone.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            path.unlink()
        make(path, clone)

    return build


def _socket(path: Path, clone: Clone) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have 100 bytes
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


ODD: Mapping[str, Callable[[Path, Clone], None]] = {
    "a link to a file": lambda path, clone: path.symlink_to(clone.outside / "secret.txt"),
    "a link to a file of the clone": lambda path, clone: path.symlink_to(clone.root / ".git" / "config"),
    "a link to nothing": lambda path, clone: path.symlink_to(clone.outside / "made.txt"),
    "a link to a folder": lambda path, clone: path.symlink_to(clone.outside),
    "a link to home": lambda path, clone: path.symlink_to(clone.home),
    "a link to itself": lambda path, clone: path.symlink_to(path.name),
    "a link to /dev/zero": lambda path, clone: path.symlink_to("/dev/zero"),
    "a FIFO": lambda path, clone: os.mkfifo(path),
    "a socket": _socket,
    "a folder": lambda path, clone: path.mkdir(),
    "a file": lambda path, clone: path.write_text("x"),
    "a hard link": lambda path, clone: os.link(clone.outside / "secret.txt", path),
}


def _patch(clone: Clone, file: str = "train.py", root: str = "", old: bytes = BEFORE, new: str = "9") -> None:
    """A whole run of somebody else, with a patch for a file as it is now."""
    run = clone.own / "runs" / RUN
    run.mkdir(parents=True, exist_ok=True)
    (clone.own / "last").write_text(RUN + "\n")
    (run / "run.json").write_text("{}")
    (run / "patch.yaml").write_text(
        f"schema: 2\nroot: {json.dumps(root or str(clone.root))}\nrun: {RUN}\ncommand: [train.py]\n"
        f"files: {{{json.dumps(file)}: {_sha(old)}}}\nchanges:\n"
        "- setting: loader.num_workers\n  subject: loader#train\n  old: 0\n  new: 4\n  effect: equivalent\n"
        "  rules: [DL001]\n  edits:\n"
        f'  - {{file: {json.dumps(file)}, key: workers, old: "0", new: {json.dumps(new)}}}\n'
    )


def _patched(**fields: str) -> Callable[[Clone], None]:
    return lambda clone: _patch(clone, **{name: text.format(clone=clone) for name, text in fields.items()})


def _linked_file(clone: Clone) -> None:
    """The edited file is a link out of the clone."""
    (clone.root / "train.py").unlink()
    (clone.outside / "theirs.py").write_bytes(BEFORE)
    (clone.root / "train.py").symlink_to(clone.outside / "theirs.py")
    _patch(clone)


def _linked_run(clone: Clone) -> None:
    _patch(clone)
    shutil.move(clone.own / "runs" / RUN, clone.outside / RUN)
    (clone.own / "runs" / RUN).symlink_to(clone.outside / RUN)


def _scratch_list(clone: Clone) -> None:
    """A dead run that names folders of the user as its scratch."""
    _patch(clone)
    run = clone.own / "runs" / RUN
    (run / "run.json").write_text(json.dumps({"pid": 2**22 - 7, "process_start": 1.0, "host": socket.gethostname()}))
    for name in (f"x.autotune-scratch-{RUN}", "atmp-1234"):
        (clone.outside / name).mkdir()
        (clone.outside / name / "thesis.txt").write_text("thesis")
    (run / "scratch-folders").write_text(f"1 {clone.outside}/x.autotune-scratch-{RUN}\n1 {clone.outside}\n")
    (run / "sockets-folder").write_text(f"{clone.outside}/atmp-1234")


def _study(clone: Clone) -> None:
    _patch(clone)
    run = clone.own / "runs" / RUN
    row = {"study": "*", "diagnosed": RUN, "ended": False, "shared": False}
    (run / "run.json").write_text(json.dumps({"search": row}))
    with sqlite3.connect(run / "study.db") as database:
        database.execute("create table trials (x)")


def _request(clone: Clone) -> None:
    run = clone.own / "runs" / RUN
    run.mkdir(parents=True)
    (run / "request.json").write_text("__import__('os').system('touch CANARY')")
    clone.environ["AUTOTUNE_REQUEST"] = str(run / "request.json")


def _shadow(name: str) -> Callable[[Clone], None]:
    """A module of the clone with the name of one that autotune imports."""

    def build(clone: Clone) -> None:
        text = "import os, pathlib; pathlib.Path(os.environ['CANARY']).write_text('ran')\n"
        if "/" in name:
            (clone.root / name).parent.mkdir(parents=True, exist_ok=True)
        (clone.root / name).write_text(text)

    return build


def _other_owner(clone: Clone) -> None:
    """Somebody else's project marks in a folder above, in which anybody may write."""
    above = clone.root.parent
    above.chmod(0o1777)
    clone_above = Clone(above, clone.home, clone.outside, clone.environ)
    (above / ".git").mkdir()
    shutil.rmtree(clone.root / ".git")
    _patch(clone_above, file="clone/train.py", root=str(above))
    _journal(clone_above, clone.root / "train.py", "writing")
    if os.geteuid() == 0:
        for path in (above / ".git", above / ".autotune", *above.joinpath(".autotune").rglob("*")):
            os.chown(path, NOBODY, NOBODY)


def _owned_above(clone: Clone) -> None:
    """The folder above belongs to somebody else."""
    _other_owner(clone)
    clone.root.parent.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(clone.root.parent, NOBODY, NOBODY)


def _state(make: Callable[[Path, Clone], None]) -> Callable[[Clone], None]:
    """Something odd in place of the user's state folder, and a tempting clone."""

    def build(clone: Clone) -> None:
        _patch(clone)
        _journal(clone, clone.root / ".git" / "config", "writing")
        place = clone.home / "state"
        place.rmdir()
        make(place, clone)

    return build


def _state_journal(clone: Clone) -> None:
    """The folder of this project's state was readable for others, and a journal lies in it."""
    from autotune import state

    _patch(clone)
    folder = state.project(clone.root, clone.environ)
    _journal(clone, clone.root / ".git" / "config", "writing", folder / "patches" / "1")
    folder.chmod(0o777)


def _foreign_state(clone: Clone) -> None:
    from autotune import state

    _patch(clone)
    folder = state.project(clone.root, clone.environ)
    _journal(clone, clone.root / ".git" / "config", "writing", folder / "patches" / "1")
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    else:
        folder.chmod(0o770)


def _moved_state(clone: Clone) -> None:
    """A journal of the project that was at this path before: the clone came into its place."""
    from autotune import state

    folder = state.project(clone.root, clone.environ)
    _journal(clone, clone.root / ".git" / "config", "writing", folder / "patches" / "1")
    other = clone.root.with_name("other")
    shutil.copytree(clone.root, other)
    shutil.rmtree(clone.root)
    other.rename(clone.root)


def _led_out(clone: Clone) -> None:
    """An own journal of a crash whose file's folder is, since a pull, a link out of the project."""
    from autotune import state

    (clone.root / "conf").mkdir()
    (clone.root / "conf" / "secret.txt").write_text("secret")
    folder = state.project(clone.root, clone.environ)
    _journal(clone, clone.root / "conf" / "secret.txt", "writing", folder / "patches" / "1")
    shutil.rmtree(clone.root / "conf")
    (clone.root / "conf").symlink_to(clone.outside)


KINDS: Mapping[str, Callable[[Clone], None]] = {
    **{
        f"a journal in state {state} of {what}": (lambda clone, state=state, name=name: _journal(
            clone, Path(name.format(clone=clone)), state))
        for state in ("writing", "undoing", "written", "left")
        for what, name in {
            ".git/config": "{clone.root}/.git/config", "train.py": "{clone.root}/train.py",
            "a file outside": "{clone.outside}/secret.txt", "a file of home": "{clone.home}/.bashrc",
            "a file that is not there": "{clone.root}/.git/hooks/post-checkout",
        }.items()
    },
    **{f"the patches' lock is {what}": _lock(make) for what, make in ODD.items()},
    **{f".autotune is {what}": _place(".autotune", make) for what, make in ODD.items()},
    **{f".autotune/runs is {what}": _place(".autotune/runs", make) for what, make in ODD.items()},
    **{f".autotune/last is {what}": _place(".autotune/last", make) for what, make in ODD.items()},
    **{f".autotune/.gitignore is {what}": _place(".autotune/.gitignore", make) for what, make in ODD.items()},
    **{f"a run is {what}": _place(f".autotune/runs/{RUN}", make) for what, make in ODD.items()},
    **{
        f"{name} of a run is {what}": (lambda clone, name=name, make=make: (
            _patch(clone), _place(f".autotune/runs/{RUN}/{name}", make)(clone)))
        for name in ("patch.yaml", "run.json", "rank-0.json")
        for what, make in ODD.items()
    },
    **{f"pyproject.toml is {what}": _place("pyproject.toml", make) for what, make in ODD.items()},
    **{f"train.py is {what}": _place("train.py", make) for what, make in ODD.items() if what != "a file"},
    **{
        f"last names {text!r:.40}": _place(".autotune/last", lambda path, clone, text=text: path.write_bytes(text))
        for text in (b"..", b"../..", b"/etc", b"", b"\0", b"\xff\xfe", b"a" * 5000, b"x\n::error::y", b"..\n")
    },
    "a patch of train.py": _patched(),
    "a patch of .git/config": _patched(file=".git/config"),
    "a patch of a file above": _patched(file="../outside/secret.txt"),
    "a patch of an absolute path": _patched(file="{clone.outside}/secret.txt"),
    "a patch of another root": _patched(root="{clone.outside}", file="secret.txt"),
    "a patch of the root /": _patched(root="/", file="etc/hosts"),
    "a patch of a home file": _patched(root="{clone.home}", file=".bashrc"),
    "a patch of a link's file": _linked_file,
    "a patch that writes escapes": _patched(new="\x1b]52;c;eA==\x07"),
    "a linked run with a patch": _linked_run,
    "lists of scratch folders": _scratch_list,
    "a study": _study,
    "a Request that is code": _request,
    "marks of another in a sticky folder above": _other_owner,
    "marks in a folder above of another": _owned_above,
    **{f"a module {name}": _shadow(name) for name in (
        "json.py", "click.py", "tomllib.py", "yaml.py", "autotune/__init__.py", "sitecustomize.py", "usercustomize.py",
        "psutil.py", "optuna.py", "conftest.py", "setup.py", "ruamel/yaml.py", "select.py", "_json.py")},
    "the state folder is open to all": _state(lambda path, clone: (path.mkdir(), path.chmod(0o777))),
    "the state folder is a link to where all may write": _state(
        lambda path, clone: (clone.outside.chmod(0o777), (clone.outside / "autotune").mkdir(),
                             (clone.outside / "autotune").chmod(0o777), path.symlink_to(clone.outside))),
    "the state folder is a file": _state(lambda path, clone: path.write_text("x")),
    "the state folder is a FIFO": _state(lambda path, clone: os.mkfifo(path)),
    "the state folder has no rights": _state(lambda path, clone: path.mkdir(0o000)),
    "the state folder is relative": lambda clone: clone.environ.update(XDG_STATE_HOME="state"),
    "the state of the project is open to all": _state_journal,
    "the state of the project belongs to another": _foreign_state,
    "the state is of another folder at this path": _moved_state,
    "a crash's file leads out by now": _led_out,
}  # fmt: skip


def cases(scratch: Path) -> Iterator[Case]:
    """Every kind with every verb; the project of each is made anew."""
    tries = [(number, name, verb) for number, name in enumerate(KINDS) for verb in VERBS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda one: _tried(scratch / str(one[0]) / str(VERBS.index(one[2])), one[1], one[2]), tries)


def _tried(folder: Path, name: str, verb: tuple[str, ...]) -> Case:
    clone = _clone(folder)
    try:
        KINDS[name](clone)
    except OSError as error:  # a device that only root may make
        return Case(f"{' '.join(verb)} in: {name}", detail=f"cannot be made here: {error}")
    before = _contents(folder)
    code, output = _run(clone, verb)
    allowed = clone.own if not clone.own.is_symlink() and clone.own.is_dir() else None
    now = _contents(folder)
    changed = sorted(
        path
        for path in now.keys() | before.keys()
        if now.get(path) != before.get(path) and not _is_ours(Path(path), path in before, clone, allowed)
    )
    failures = (
        f"took over {LIMIT_S:g} s" if code is None else "",
        f"changed {[str(Path(path).relative_to(folder)) for path in changed[:5]]}" if changed else "",
        "a traceback of ours" if code == 4 or "internal error" in output else "",
    )
    shutil.rmtree(folder, ignore_errors=True)
    return Case(f"{' '.join(verb)} in: {name}", "; ".join(filter(None, failures)), f"exit {code}")


def _clone(folder: Path) -> Clone:
    root, home, outside = folder / "above" / "clone", folder / "home", folder / "outside"
    for place in (root / ".git" / "hooks", home / "state", outside):
        place.mkdir(parents=True)
    (root / ".git" / "config").write_bytes(BEFORE)
    (root / "train.py").write_bytes(BEFORE)
    (root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (outside / "secret.txt").write_text("secret")
    (home / ".bashrc").write_bytes(BEFORE)
    environ = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "CANARY": str(outside / "canary"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return Clone(root, home, outside, environ)


def _run(clone: Clone, verb: tuple[str, ...]) -> tuple[int | None, str]:
    """The installed command, as a user types it; nobody answers its questions."""
    try:
        done = subprocess.run(
            [str(Path(sys.executable).parent / "autotune"), *verb],
            cwd=clone.root,
            env=clone.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def _is_ours(path: Path, was_there: bool, clone: Clone, allowed: Path | None) -> bool:
    """What autotune may write: new entries of a real `.autotune`, its cache, and its own state."""
    if path.is_relative_to(clone.home / "cache") or path.is_relative_to(clone.root / "state"):
        return True
    if path.is_relative_to(clone.home / ".local"):  # the state folder where XDG_STATE_HOME names none
        return True
    if path.is_relative_to(clone.home / "state" / "autotune") and not (clone.home / "state").is_symlink():
        return True
    return allowed is not None and path.is_relative_to(allowed) and (not was_there or path.name == "last")


def _contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Of every path the type and rights, and the content of what is a file; links are not followed."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            about = path.lstat()
            data = str(path.readlink()).encode() if path.is_symlink() else b""
            found[str(path)] = about.st_mode, path.read_bytes() if path.is_file() and not data else data
    return found
