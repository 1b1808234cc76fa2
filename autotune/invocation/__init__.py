"""A command as a person names it: what is started, with which variables, in which folder, and the file behind it.

Who starts the command and who reads its files ask the same function, so that both mean the same.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.catalogue.launchers import SHELLS
from autotune.invocation.modules import entry_module, first_line, is_of_python, module_file, search_path
from autotune.invocation.shape import Shape, assigned, name, of_shell, shape

_OF_SHELL = (".sh", ".bash")


class Invocation(Struct, frozen=True):
    """A command behind the assignments in front of it, which are in `variables`, and behind an `env` that only assigns:
    `front` are those words.

    `words` are what is started in `cwd`; `parts` are the places in them. `file` is the script, or the file of the
    module, that the word at `at` names, as the run names it (links kept): a script that does not exist is named all the
    same, a module's file is None then. `is_shell` says that it is a script of the shell, and `line` is the text that a
    shell is given in place of a file. `module` is the module of -m or of a console tool.
    """

    words: tuple[str, ...]
    cwd: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    parts: Shape | None = None
    file: Path | None = None
    at: int = 0
    is_shell: bool = False
    line: str | None = None
    module: str | None = None
    front: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The word of the program behind every prefix."""
        return self.words[self.parts.program if self.parts is not None else 0]

    @property
    def has_prefix(self) -> bool:
        """Whether another program runs the command: it decides which Python that is."""
        return self.parts is None or self.parts.program > 0

    @property
    def title(self) -> str:
        """What is started, without its folder: for whoever waits for it."""
        return self.file.name if self.file is not None else Path(self.program).name

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words behind the one that names the file; all behind the program where none does."""
        start = self.at if self.file is not None or self.module else self.parts.program if self.parts is not None else 0
        return self.words[start + 1 :]

    def read_as(self) -> tuple[str, ...]:
        """The words with the real path of the Python file in them, for who reads the files: -m is taken out, and a
        console tool is the Python that runs its module."""
        if self.file is None or self.parts is None or self.is_shell or not self.file.is_file():
            return self.words
        path, behind = os.path.realpath(self.file), self.words[self.at + 1 :]
        launcher, (first, last) = self.parts.launcher, self.parts.own
        if launcher is None or launcher.name == "python":
            return (*self.words[: self.parts.program], "python", path, *behind)
        own = (word for word in self.words[first:last] if word not in ("-m", "--module"))
        return (*self.words[:first], *own, path, *behind)


def typed(words: Sequence[str]) -> str:
    """`words` as a line for a shell. Assignments in front stay assignments: NAME='some words'."""
    variables, rest = assigned(words)
    return " ".join([*(f"{name}={shlex.quote(value)}" for name, value in variables.items()), *map(shlex.quote, rest)])


def invoked(words: Sequence[str], cwd: Path, environ: Mapping[str, str] = os.environ) -> Invocation:
    """What `words` start in `cwd`: a script and its arguments, a module behind -m, or any command."""
    variables, rest, folder = _placed(words, cwd)
    front = tuple(words[: len(words) - len(rest)])
    parts = shape(rest) if rest else None
    made = Invocation(tuple(rest), folder, variables, parts, front=front)
    if parts is None:
        return made
    if parts.launcher is None:
        return _by_program(made, {**environ, **variables})
    if parts.target is None:
        return made
    target, launcher = rest[parts.target], parts.launcher
    if not parts.is_module:
        return replace(made, file=folder / target, at=parts.target)
    if launcher.is_program or launcher.name == "tune":  # a verb, or a recipe of torchtune's
        return replace(made, at=parts.target)
    found = module_file(target, search_path(folder, {**environ, **variables}), is_run=True)
    return replace(made, file=found, at=parts.target, module=target)


def _placed(words: Sequence[str], cwd: Path) -> tuple[Mapping[str, str], Sequence[str], Path]:
    """The variables in front, the command, and its folder: `env A=1 python x.py` is `A=1 python x.py`."""
    variables, rest = assigned(words)
    while rest and name(rest[0]) == "env":
        folder, at = cwd, 1
        if rest[1:2] in (["-C"], ("-C",)) and len(rest) > 2:
            folder, at = cwd / rest[2], 3
        more, behind = assigned(rest[at:])
        if not behind or behind[0].startswith("-"):
            break
        variables, rest, cwd = {**variables, **more}, behind, folder
    return variables, rest, cwd


def _by_program(made: Invocation, environ: Mapping[str, str]) -> Invocation:
    """A shell, a script with a first line, or a console tool."""
    word = made.program
    at = made.words.index(word)
    if name(word) in SHELLS and at + 1 < len(made.words):
        return _of_shell(made, at)
    file, is_path = made.cwd / word, "/" in word or word.endswith(_OF_SHELL)
    if is_path and not _is_console_tool(file):
        line = first_line(file)
        is_shell = word.endswith(_OF_SHELL) or any(name(one) in SHELLS for one in line)
        is_script = is_shell or is_of_python(line)
        return replace(made, file=file, at=at, is_shell=is_shell) if is_script else made
    tool = shutil.which(str(file) if "/" in word else word, path=environ.get("PATH"))
    module = entry_module(Path(tool)) if tool is not None else None
    if tool is None or module is None:
        return made
    found = module_file(module, search_path(made.cwd, environ, Path(tool)), is_run=False)
    return replace(made, file=found, at=at, module=module)


def _is_console_tool(file: Path) -> bool:
    """Whether an installer wrote it: its first line is the Python beside it."""
    here = Path(os.path.realpath(file)).parent
    return entry_module(file) is not None and any(Path(word).parent == here for word in first_line(file))


def _of_shell(made: Invocation, at: int) -> Invocation:
    found = of_shell(made.words, at)
    if found is None:
        return made
    place, is_line = found
    if is_line:
        return replace(made, line=made.words[place])
    return replace(made, file=made.cwd / made.words[place], at=place, is_shell=True)
