"""The files of one scan: each is parsed at most once, and found by the words with which other files name it."""

from __future__ import annotations

import importlib
import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import source_hash
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct, field

from autotune.errors import UsageError
from autotune.model.scanned import ConsumerCall, IgnoreComment, ScanNote
from autotune.model.source import Document
from autotune.pycode.work_budget import STEPS, Work, attempt
from autotune.scan.comments import ignore_comments
from autotune.scan.files import SYNTAXES, File, is_relevant, matches, read_below, sibling_files

if TYPE_CHECKING:
    from autotune.pycode.index import Index, Nodes
    from autotune.scan.module_graph import ModuleGraph
    from autotune.syntax import python, shell
    from autotune.syntax.python import Source

Made = TypeVar("Made")

ANYTHING = "*"
"""Stands among the names that were looked for where what is found depends on more than files."""

BUNDLE_STEPS = 3 * STEPS
"""Steps of work for all files of one bundle: about 100,000 lines."""


class Library(Struct):
    """Files by name below the real folder `root`; those that a pattern of `exclude` matches are not read.

    `notes` say what could not be read; `ignored` are comments, by file, `told` the notes
    on each file that was parsed. `main` is the work that is left for the file
    whose bundles are being gathered: a command, or a script or config that no command names. `reading` is what is left
    for the file that is being read now: all files that are read together spend of it. `followed` counts the modules
    that scripts follow, `module_graph` is what these know of each other. `of_project` are calls that count for several
    bundles, by dialect, and `inherited` what Python configs say with their bases, by file.
    """

    root: Path
    files: dict[str, File]
    exclude: Sequence[str] = ()
    notes: list[ScanNote] = field(default_factory=list)
    ignored: dict[str, tuple[IgnoreComment, ...]] = field(default_factory=dict)
    told: dict[str, tuple[ScanNote, ...]] = field(default_factory=dict)
    main: Work = field(default_factory=lambda: Work(BUNDLE_STEPS))
    reading: Work = field(default_factory=Work)
    nodes: Nodes | None = None
    module_graph: ModuleGraph | None = None
    followed: int = 0
    of_project: dict[str, ConsumerCall | None] = field(default_factory=dict)
    inherited: dict[str, tuple[Any, tuple[str, ...]]] = field(default_factory=dict)
    _indexes: dict[str, Index | None] = field(default_factory=dict)
    _parsed: dict[str, Any] = field(default_factory=dict)
    _commands: dict[str, shell.ShellScript | None] = field(default_factory=dict)
    _others: set[str] = field(default_factory=set)
    _aside: set[str] = field(default_factory=set)
    _missing: set[str] = field(default_factory=set)
    _asked: list[dict[str, None]] = field(default_factory=list)
    _unread: set[str] = field(default_factory=set)

    def with_commands(self) -> Iterator[str]:
        """The names of all shell scripts, and of the notebooks and jobs with commands, in their order."""
        files = (name for name, file in list(self.files.items()) if file.syntax == "shell" or file.commands.strip())
        return (name for name in files if name not in self._others | self._aside)

    def named(self, syntax: str) -> Iterator[str]:
        """The names of all files of one syntax, in their order."""
        files = (name for name, file in list(self.files.items()) if file.syntax == syntax)
        return (name for name in files if name not in self._others | self._aside)

    def python(self, name: str) -> python.Source | None:
        """The script `name`; None when it cannot be read."""
        return cast("python.Source | None", self._read(name))

    def shell(self, name: str) -> shell.ShellScript | None:
        """The shell script `name`, or what the notebook or job of that name starts; None when it cannot be read."""
        if self.files[name].syntax == "shell":
            return cast("shell.ShellScript | None", self._read(name))
        if name not in self._commands:
            self._commands[name] = self.attempt(name, partial(self._parse_commands, self.files[name]))
        return self._commands[name]

    def document(self, name: str) -> Document | None:
        """The data file `name`; None when it cannot be read."""
        return cast("Document | None", self._read(name))

    def attempt(self, name: str, make: Callable[[], Made]) -> Made | None:
        """What `make` gives for the file `name`.

        None when it takes too much or fails: the file is noted, and not read again.
        """
        return attempt(name, make, self._leave)

    def begun(self, name: str, make: Callable[[], Made]) -> Made | None:
        """As `attempt`, for the file with which a bundle begins: all its files together have an end too."""
        self.main = Work(BUNDLE_STEPS)
        return self.attempt(name, make)

    def tracked(self, make: Callable[[], Made]) -> tuple[Made, tuple[str, ...]]:
        """What `make` gives, and the names that it looked for, found or not: what it gives depends on nothing else."""
        self._asked.append({})
        try:
            made = make()
        finally:
            asked = self._asked.pop()
            self.note_asked(asked)
        return made, tuple(asked)

    def note_asked(self, names: Iterable[str]) -> None:
        """Names on which depends what is being worked out: of files, of folders ("conf/data/"), or ANYTHING."""
        if self._asked:
            self._asked[-1].update(dict.fromkeys(names))

    def has_folder(self, name: str) -> bool:
        """Whether there is a folder of this name below the root."""
        self.note_asked((f"{name}/",))
        # Path.is_dir raises an error for a name that the system does not allow.
        return os.path.isdir(self.root / name)  # noqa: PTH112

    def state(self, name: str) -> str:
        """What a name that was looked for stands for now: the same text as long as nothing there has changed."""
        if name.endswith("/"):
            return "folder" if os.path.isdir(self.root / name) else ""  # noqa: PTH112
        file = self.files.get(name)
        if file is None and os.path.exists(f"{self.root}/{name}"):  # noqa: PTH110
            read = read_below(self.root, name)
            file = read if isinstance(read, File) else None
        return source_hash(file.data).hex() if file is not None else ""

    def add(self, name: str) -> None:
        """Have a file that an earlier scan has found."""
        self._has(name, is_wanted=True)

    def add_told(self, name: str, told: tuple[tuple[IgnoreComment, ...], tuple[ScanNote, ...]]) -> None:
        """Have the comments of a file, and the notes on it, that an earlier scan has found."""
        if name not in self.told:
            self.ignored[name], self.told[name] = told
            self.notes += told[1]

    def worked(self, name: str, make: Callable[[Work], Made]) -> Made | None:
        """As `attempt`, with the work that may be spent on the file; what is spent counts for the main file too."""
        outer, self.reading.left = self.reading.left, STEPS
        try:
            made = self.attempt(name, partial(make, self.reading))
        finally:
            spent, self.reading.left = STEPS - self.reading.left, outer
        self.main.spend(spent)
        return made

    def index(self, name: str, source: Source) -> Index | None:
        """The index of a Python file, made once; None when that takes too much."""
        if name not in self._indexes:
            walk = importlib.import_module("autotune.pycode.build_index")
            self.nodes = self.nodes or importlib.import_module("autotune.pycode.index").Nodes()
            self._indexes[name] = self.worked(name, lambda work: walk.build(source.tree, work, self.nodes))
        return self._indexes[name]

    def _leave(self, note: ScanNote) -> None:
        self.notes.append(note)
        self._parsed[note.where] = None
        self._unread.add(note.where)
        self.note_asked((ANYTHING,))

    def find(
        self,
        reference: str,
        beside: str,
        syntaxes: Iterable[str],
        *,
        is_wanted: bool = False,
        is_beside: bool = False,
    ) -> str | None:
        """The file that `reference` means in file `beside`: seen from its folder, or from one above it up to the root.

        A file that was not asked for is read now. None for anything outside the root, and for what says nothing about
        training, unless it `is_wanted` whatever it holds. With `is_beside` no folder above is searched.
        """
        if "\0" in reference:
            return None
        is_read = os.path.splitext(reference)[1].lower() in SYNTAXES  # noqa: PTH122
        folder = posixpath.dirname(beside)
        while True:
            name = self._name(posixpath.join(folder, reference))
            if (is_read or name in self.files) and self._has(name, is_wanted=is_wanted):
                return name if self.files[name].syntax in syntaxes else None
            if is_beside or folder.rpartition("/")[2] in ("", ".."):
                return None
            folder = posixpath.dirname(folder)

    def beside(self, names: Sequence[str], syntax: str) -> list[str]:
        """The files of one syntax in the folders from these files up to the root, and in the folders of these."""
        found = sibling_files(self.root, names, syntax)
        return [one for name in found if (one := self.find(name, "", (syntax,))) is not None]

    def _name(self, path: str) -> str:
        """The name below the root of a path that is seen from there, or whole; one that leads out and in again too."""
        name = posixpath.normpath(path)
        if not name.startswith(("../", "/")):
            return name
        real = os.path.realpath(self.root / name)
        return Path(real).relative_to(self.root).as_posix() if Path(real).is_relative_to(self.root) else name

    def set_aside(self, names: Iterable[str]) -> None:
        """Files that were read to see whether they belong to what is asked, and do not: nothing is said of them."""
        self._aside |= set(names)

    def is_relevant(self, name: str) -> bool:
        """Whether a file that was read may say something about training."""
        return is_relevant(self.files[name])

    def _has(self, name: str, *, is_wanted: bool = False) -> bool:
        self.note_asked((name,))
        if name in self.files:
            return is_wanted or name not in self._others
        if name.startswith(("../", "/")) or matches(name, self.exclude):
            return False
        if name in self._missing:
            return False
        # Most of what is looked for is not there: a name is looked for in every folder up to the root.
        is_there = os.path.exists(f"{self.root}/{name}")  # noqa: PTH110
        read = read_below(self.root, name) if is_there else None
        if not isinstance(read, File):
            self._missing.add(name)
            return False
        if not is_relevant(read):
            if not is_wanted:
                return False
            self._others.add(name)
        self.files[name] = read
        return True

    def _read(self, name: str) -> Any:
        self.note_asked((name, ANYTHING) if name in self._unread else (name,))
        if name not in self._parsed:
            self._parsed[name] = self.attempt(name, partial(self._parse, self.files[name]))
        return self._parsed[name]

    def _parse(self, file: File) -> Any:
        # A syntax is imported for its first file: without YAML, nothing of its parser is loaded.
        reader = importlib.import_module(f"autotune.syntax.{file.syntax}")
        try:
            parsed = reader.read(file.data, file.name)
        except UsageError as error:
            self._tell(file.name, [ScanNote(error.where or file.name, error.what, is_error=True)])
            return None
        self.ignored[file.name], notes = ignore_comments(parsed.comments, file.name)
        self._tell(file.name, (*file.left_out, *notes))
        return parsed

    def _parse_commands(self, file: File) -> Any:
        """The commands of a notebook or a job. Their comments are those of the file, and read with it."""
        reader = importlib.import_module("autotune.syntax.shell")
        try:
            return reader.read(file.commands, file.name)
        except UsageError as error:
            self.notes.append(ScanNote(error.where or file.name, f"its shell lines are not read: {error.what}"))
            return None

    def _tell(self, name: str, notes: Iterable[ScanNote]) -> None:
        """Leave the notes on a file, unless they came with what was kept of it."""
        if name not in self.told:
            self.told[name] = tuple(notes)
            self.notes += self.told[name]
