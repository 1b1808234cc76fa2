"""The files below some paths that may say something about training: found, read and nothing more.

Every file is read once and at most up to a limit. Its bytes are searched for words of training before anything parses
them: most files of a repository end there.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import accumulate
from pathlib import Path

from msgspec import Struct, field

from autotune import reading
from autotune.catalogue import frameworks
from autotune.catalogue.launchers import launcher_modules, launchers, training_modules
from autotune.errors import UsageError
from autotune.model.scanned import ScanNote
from autotune.model.source import NOTEBOOK
from autotune.scan.configs import may_be_config

SYNTAXES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".jsonc": "json",
    ".toml": "toml",
    ".sh": "shell",
    ".bash": "shell",
    ".sbatch": "shell",
    ".slurm": "shell",
    ".pbs": "shell",
    ".lsf": "shell",
    ".ipynb": "python",
}
"""What reads a file, by the end of its name."""

KINDS = f"supported file ({', '.join(SYNTAXES)})"

DATA = ("yaml", "json", "toml")

LIMITS = {"python": 500_000, "shell": 1_000_000, "yaml": 300_000, "json": 2_000_000, "toml": 2_000_000}
"""Bytes. Longer files are data or generated code; nobody writes a training script of 10,000 lines.

YAML takes longest: 300 kB are a second or two, as are 500 kB of Python.
"""

NOTEBOOK_LIMIT = 50_000_000
"""Bytes of a notebook: nearly all of a large one are pictures and outputs."""

BUDGET = 2_000_000
"""Bytes of all data files together: a few hundred configs are less."""

MAX_DEPTH = 100
"""Folders in folders; more is no project that a person laid out."""

SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "mlruns", "node_modules", "site-packages", "wandb"})
"""Folders of tools, of past runs (with copies of their configs) and of other people's code; hidden folders and virtual
environments are skipped too, and the folders in which trainer frameworks keep past runs."""

OUTSIDE = "a link out of the checked folder: not followed"

MAX_NEAR = 200
"""Folders in which launch scripts of one script are looked for."""

MANY = 3
"""More files of one folder than this, left out for one reason, are one note."""

_PACKAGES = ("torch", "deepspeed", "peft", "unsloth", "fastai", "ignite", "composer", "timm", "ultralytics")
"""Packages to train with, beside those of the trainer frameworks."""

_TRAINS = ("Loader", "Trainer", "backward", "training_step", "optim", ".train(")
"""Words of a script that trains, beside the classes of the trainer frameworks."""

_SETS = ("set_num_threads", "set_float32_matmul_precision", "allow_tf32", "fp32_precision")
_CONSTANTS = re.compile(rb"^(?:gradient_accumulation_steps|batch_size|block_size|max_iters|eval_interval)[ \t]*=", re.M)
_DESCRIBED = re.compile(rb"^[ \t-]*(?:containers|run|commands)[ \t]*:", re.MULTILINE)
"""The key below which a job has its commands: Kubernetes, SkyPilot, dstack."""

_SHELL_LINE = re.compile(rb'(?:"|\\n)[ \t]*(?:!|%%)')

_INHERITED = re.compile(
    rb"^(?:(?:train_dataloader|optim_wrapper|train_cfg|default_hooks|data) *= *(?:dict *\(|\{)|_base_ *=)"
    rb"|^with read_base\(\)|^_C *= *\w*(?:CN|CfgNode)\(",
    re.MULTILINE,
)
"""What stands in configs of MMEngine and MMCV, and in a project's defaults of yacs."""

_COMPOSED = re.compile(rb"^defaults:", re.MULTILINE)
"""Hydra's list of further files: what the config holds is known with them."""


@cache
def _imports() -> re.Pattern[bytes]:
    packages = _any_of((*_PACKAGES, *frameworks.script_packages()))
    return re.compile(rb"^[ \t]*(?:from[ \t]+|import[ \t]+(?:[\w.]+[ \t]*,[ \t]*)*)[\w.]*?" + packages, re.MULTILINE)


@cache
def _imports_anywhere() -> re.Pattern[bytes]:
    packages = _any_of((*_PACKAGES, *frameworks.script_packages()))
    return re.compile(rb"(?:from[ \t]+|import[ \t]+(?:[\w.]+[ \t]*,[ \t]*)*)[\w.]*?" + packages)


@cache
def _training() -> re.Pattern[bytes]:
    return re.compile(_any_of((*_TRAINS, *_SETS, *frameworks.run_classes())))


@cache
def _commands() -> re.Pattern[bytes]:
    return re.compile(rb"\b" + _any_of((*launchers(), *launcher_modules(), *training_modules())))


def _any_of(words: Iterable[str]) -> bytes:
    return f"(?:{'|'.join(map(re.escape, sorted(words)))})".encode()


class File(Struct, frozen=True):
    """A file as it is stored. `name` is its path below the root, with "/"; `syntax` says what reads it.

    Of a notebook `data` is the script that its cells make and `commands` what they give to a shell, line by line alike;
    `left_out` are notes on cells that are not in them. Of jobs in YAML `commands` are what they start.
    """

    name: str
    syntax: str
    data: bytes
    commands: bytes = b""
    left_out: tuple[ScanNote, ...] = ()


class FileSearch(Struct, frozen=True):
    """The files worth parsing in the order of their names, what was not read, and how many files were looked at.

    `named` are files that the user named: they are worth parsing whatever they hold.
    """

    files: tuple[File, ...]
    notes: tuple[ScanNote, ...]
    num_files: int
    named: frozenset[str] = frozenset()


def find(paths: Sequence[Path], *, root: Path, exclude: Sequence[str] = ()) -> FileSearch:
    """The files that `paths` (files or folders) name, all below `root`; `exclude` are patterns of names to leave out.

    Raises UsageError for a path that does not exist. A link that leads out of `root` is not followed.
    """
    walk = FolderWalk(os.path.realpath(root), tuple(exclude))
    for path in paths:
        walk.start(path)
    files = []
    for name, place in sorted(walk.files.items()):
        read = read_file(place, name)
        if isinstance(read, ScanNote):
            walk.notes.append(read)
        elif name in walk.named or is_relevant(read):
            files.append(read)
    left_out = _beyond_budget(files)
    walk.notes += [ScanNote(name, f"smaller configs hold {_size(BUDGET)} already") for name in sorted(left_out)]
    kept = tuple(file for file in files if file.name not in left_out)
    return FileSearch(kept, tuple(grouped(walk.notes)), len(walk.files), frozenset(walk.named))


def read_file(path: str, name: str, syntax: str = "") -> File | ScanNote:
    """The file at the real `path`, or why it is not read; `syntax` says what its name does not."""
    syntax = syntax or _syntax(name)
    limit = NOTEBOOK_LIMIT if name.endswith(NOTEBOOK) else LIMITS[syntax]
    try:
        data = reading.read(path, most_bytes=limit)
    except OSError as error:
        return ScanNote(name, unread(error, limit))
    if name.endswith(NOTEBOOK):
        return _notebook(name, data)
    return File(name, syntax, data, _job_commands(name, data) if syntax == "yaml" else b"")


def _job_commands(name: str, data: bytes) -> bytes:
    """What the jobs of a YAML file start, as the text of a shell script."""
    if not _DESCRIBED.search(data):
        return b""
    from autotune.scan import job_documents  # most projects have none

    found = job_documents.read(name, data)
    return found.commands if found is not None else b""


def _notebook(name: str, data: bytes) -> File | ScanNote:
    """A notebook as a script; an empty one where nothing in the file imports or starts what trains."""
    if not (_imports_anywhere().search(data) or _SHELL_LINE.search(data)):
        return File(name, "python", b"")
    from autotune.syntax import notebook  # most folders have none

    try:
        if len(data) > LIMITS["python"] and notebook.code_size(data, name) > LIMITS["python"]:
            return ScanNote(name, f"its code is larger than {_size(LIMITS['python'])}")
        read = notebook.read(data, name)
    except UsageError as error:
        return ScanNote(error.where or name, error.what, is_error=True)
    notes = (ScanNote(f"{name}:{one.at.line}", f"cell {one.at.cell} is not read: {one.why}") for one in read.left_out)
    return File(name, "python", read.script, read.commands, tuple(notes))


def unread(error: OSError, limit: int) -> str:
    """Why a file is not read of which `reading.read` was to give at most `limit` bytes."""
    why = {errno.EINVAL: "not a regular file", errno.EFBIG: f"larger than {_size(limit)}"}
    return why.get(error.errno or 0, f"cannot be read: {error.strerror}")


def read_below(root: Path, name: str) -> File | ScanNote:
    """The file `name` below the real folder `root`, or why it is not read."""
    real = os.path.realpath(root / name)
    return read_file(real, name) if Path(real).is_relative_to(root) else ScanNote(name, OUTSIDE)


def sibling_files(root: Path, names: Iterable[str], syntax: str) -> list[str]:
    """The names of the files of one syntax in the folders from those of `names` up to the real folder `root`, and in
    the folders of these, up to MAX_NEAR folders. Nothing outside is read, and no link is followed."""
    above = dict.fromkeys(folder for name in names for folder in _up(posixpath.dirname(name)))
    found: list[str] = []
    for folder in (waiting := list(above)):
        for entry in _entries(root / folder):
            name = posixpath.join(folder, entry.name)
            if entry.is_file(follow_symlinks=False) and _syntax(name) == syntax:
                found.append(name)
            elif entry.is_dir(follow_symlinks=False) and folder in above and not _is_skipped(entry.path):
                waiting += [name] if name not in above and len(waiting) < MAX_NEAR else []
    return sorted(found)


def _up(folder: str) -> Iterator[str]:
    """A folder below the root, and those around it; "" is the root."""
    if folder.startswith(("../", "/")):
        return
    yield folder
    while folder:
        folder = posixpath.dirname(folder)
        yield folder


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []


def is_relevant(file: File) -> bool:
    """Whether the bytes of `file` hold a word without which it says nothing about training."""
    if file.syntax == "python":
        imports = _imports().search(file.data) and _training().search(file.data)
        has_config = _CONSTANTS.search(file.data) or _INHERITED.search(file.data)
        return bool(imports or has_config or _commands().search(file.commands))
    if file.syntax == "shell":
        return _commands().search(file.data) is not None
    is_config = may_be_config(file.data, file.syntax) or _COMPOSED.search(file.data) is not None
    return is_config or _commands().search(file.commands) is not None


def _beyond_budget(files: Iterable[File]) -> set[str]:
    """The names of the largest data files, without which the others are no more than BUDGET."""
    data = sorted((file for file in files if file.syntax in DATA), key=lambda file: len(file.data))
    sizes = accumulate(len(file.data) for file in data)
    return {file.name for file, size in zip(data, sizes, strict=True) if size > BUDGET}


def _size(number: int) -> str:
    """Bytes as "2 MB" or "300 kB"."""
    return f"{number // 1_000_000} MB" if number >= 1_000_000 else f"{number // 1_000} kB"


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether `name` or a folder that it lies in is one of `patterns`: "*.sh", "examples", "old/*/train.py"."""
    parts = name.split("/")
    heads = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    plain = [pattern.strip("/") for pattern in patterns]
    return any(fnmatchcase(one, pattern) for pattern in plain for one in (heads if "/" in pattern else parts))


def _syntax(name: str) -> str:
    """What reads a file of this name; "" for nothing."""
    return SYNTAXES.get(os.path.splitext(name)[1].lower(), "")


class FolderWalk(Struct):
    """A walk below the real folder `root`: `files` are real paths by name.

    A folder or file with two names is seen once.
    """

    root: str
    exclude: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    notes: list[ScanNote] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)

    def start(self, path: Path) -> None:
        """Walk from a path that the user named: it is looked at although its name says to skip it."""
        if not os.path.exists(path):
            raise UsageError("there is no such file or folder", where=str(path), to_do="Check the path.")
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            self._named_file(real)
        elif real not in self.seen:
            self._named_folder(real)

    def _named_folder(self, folder: str) -> None:
        folders, links = [folder], list[str]()
        num_files = len(self.files)
        while folders or links:
            # Links come last, so that what has two names goes by its own.
            if folders:
                self._folder(folders.pop(), folders, links)
            else:
                self._link(links.pop(), folders)
        if len(self.files) == num_files:
            self.notes.append(ScanNote(self._name(folder), f"no {KINDS} in it"))

    def _named_file(self, path: str) -> None:
        name = self._name(path)
        if not _syntax(path):
            self.notes.append(ScanNote(name, f"not a {KINDS}"))
        elif self._is_excluded(path):
            self.notes.append(ScanNote(name, "excluded: it matches `exclude` in the configuration"))
        else:
            self._add(path, path)
            self.named.add(name)

    def _folder(self, folder: str, folders: list[str], links: list[str]) -> None:
        """Add the files of `folder`; its folders and links are left for later."""
        if folder.count("/") - self.root.count("/") > MAX_DEPTH:
            self.notes.append(ScanNote(self._name(folder), f"more than {MAX_DEPTH} folders deep"))
            return
        real = os.path.realpath(folder)
        if real in self.seen:
            return
        self.seen.add(real)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            self.notes.append(ScanNote(self._name(folder), f"cannot be read: {error.strerror}"))
            return
        for entry in entries:
            if entry.is_symlink():
                links.append(entry.path)
            elif entry.is_dir():
                folders += [] if _is_skipped(entry.path) or self._is_excluded(entry.path) else [entry.path]
            elif _syntax(entry.name):
                self._add(entry.path, f"{real}/{entry.name}")

    def _link(self, link: str, folders: list[str]) -> None:
        """Follow a link to a folder or to a kind of file that is read, if it stays inside."""
        is_folder = os.path.isdir(link)
        if self._is_excluded(link) or not (is_folder or _syntax(link)):
            return
        real = os.path.realpath(link)
        if not os.path.exists(real):
            self.notes.append(ScanNote(self._name(link), "a link to nothing"))
        elif not Path(real).is_relative_to(self.root):
            self.notes.append(ScanNote(self._name(link), OUTSIDE))
        elif not is_folder:
            self._add(link, real)
        elif not (_is_skipped(real) or _is_skipped(link)):
            folders.append(link)

    def _add(self, path: str, real: str) -> None:
        if real not in self.seen and not self._is_excluded(path):
            self.seen.add(real)
            self.files[self._name(path)] = real

    def _is_excluded(self, path: str) -> bool:
        return bool(self.exclude) and matches(self._name(path), self.exclude)

    def _name(self, path: str) -> str:
        return Path(os.path.relpath(path, self.root)).as_posix()


def _is_skipped(folder: str) -> bool:
    name = os.path.basename(folder)
    is_tools = name in SKIPPED_FOLDERS or name in frameworks.run_folders()
    return name.startswith(".") or is_tools or os.path.exists(f"{folder}/pyvenv.cfg")


def grouped(notes: Iterable[ScanNote]) -> Iterator[ScanNote]:
    """A folder of a thousand large files is one note."""
    groups: dict[tuple[str, str], list[ScanNote]] = {}
    for note in notes:
        groups.setdefault((note.where.rpartition("/")[0], note.why), []).append(note)
    for (folder, why), group in groups.items():
        yield from group if len(group) <= MANY else [ScanNote(folder or ".", f"{len(group)} files: {why}")]
