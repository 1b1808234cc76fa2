"""The parts of a command's words: what stands in front of the launcher, its own flags, and what it starts.

No file is read: a word that is not known yet ("$ARGS" in a script) is judged by its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from autotune.catalogue.frameworks import Launcher
from autotune.catalogue.launchers import PREFIXES, SHELLS, Prefix, launcher_modules, launchers
from autotune.model.source import SCRIPTS

FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)

PYTHON = re.compile(r"(python|pypy)\d*(\.\d+)*t?(\.exe)?")

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)

_PYTHONS_MODULE = re.compile(r"-[^WXcm-]*m")
_NO_SCRIPT = re.compile(r"-[^WXcm-]*[cm].*|-")
_TAKES_VALUE = re.compile(r"-[^WXcm-]*[WX]|--check-hash-based-pycs")
_ENDINGS = (*SCRIPTS, ".sh", ".bash")


class Shape(Struct, frozen=True):
    """Indices into the words of a command.

    `program` is the command behind every prefix (uv run, env, nohup); `own` are the launcher's own flags, from and to;
    `target` is what it starts: a script, with `is_module` a module or the verb of a program. None: there is no such.
    """

    program: int
    launcher: Launcher | None = None
    own: tuple[int, int] = (0, 0)
    target: int | None = None
    is_module: bool = False


def shape(words: Sequence[str]) -> Shape | None:
    """The parts of `words`, in front of which no assignment stands any more; None where a prefix has no command."""
    at = 0
    while at < len(words) and (prefix := PREFIXES.get(name(words[at]))) is not None:
        behind = _with_verb(prefix, words, at) if prefix.verb else _without_verb(words, at)
        if behind is None:
            return None
        at = behind
    if at >= len(words):
        return None
    if words[at] in ("-m", "--module"):  # `autotune diagnose -m pkg.train`, `uv run -m pkg.train`
        return Shape(at, launchers()["python"], (at, at + 1), _present(at + 1, words), is_module=True)
    if words[at].endswith(SCRIPTS):
        return Shape(at, launchers()["python"], (at, at), at)
    return _launched(words, at)


def name(word: str) -> str:
    """The program that a word names, without its folder; every Python is "python"."""
    plain = PurePosixPath(word).name
    return "python" if PYTHON.fullmatch(plain) else plain


def key(flag: str) -> str:
    """A flag's name as launchers' tables have it."""
    return flag.replace("-", "_")


def script_of_python(words: Sequence[str], at: int = 0) -> int | None:
    """The index of the script in the words of the Python at `at`; None when there is none (-m, -c, standard input)."""
    place = at + 1
    while place < len(words) and words[place].startswith("-"):
        if _NO_SCRIPT.fullmatch(words[place]):
            return None
        place += 2 if _TAKES_VALUE.fullmatch(words[place]) else 1
    return _present(place, words)


def assigned(words: Sequence[str]) -> tuple[Mapping[str, str], Sequence[str]]:
    """The variables that are assigned in front of a command, and the words behind them."""
    variables: dict[str, str] = {}
    for at, word in enumerate(words):
        found = ASSIGNMENT.fullmatch(word)
        if found is None:
            return variables, words[at:]
        variables[found[1]] = found[2]
    return variables, ()


def _launched(words: Sequence[str], at: int) -> Shape:
    launcher = launchers().get(name(words[at]))
    if launcher is None or not _has_verb(launcher, words, at):
        return Shape(at)
    if launcher.name == "python":
        return _of_python(words, at)
    if launcher.is_program:
        behind = at + _verb(launcher, words, at)
        return Shape(at, launcher, (behind, behind), max(at, behind - 1), is_module=True)
    return _with_flags(launcher, words, at, at + (2 if launcher.verbs else 1))


def _of_python(words: Sequence[str], at: int) -> Shape:
    """`python -m torch.distributed.run` is torchrun; `python -c` starts nothing that can be read."""
    python, script = launchers()["python"], script_of_python(words, at)
    if script is not None:
        return Shape(at, python, (at + 1, script), script)
    flags = (place for place, word in enumerate(words[at + 1 :], at + 1) if _NO_SCRIPT.fullmatch(word))
    switch = next(flags, len(words))
    if switch + 1 >= len(words) or not _PYTHONS_MODULE.fullmatch(words[switch]):
        return Shape(at, python)
    if (launcher := launcher_modules().get(words[switch + 1])) is not None:
        return _with_flags(launcher, words, at, switch + 2)
    return Shape(at, python, (at + 1, switch + 1), switch + 1, is_module=True)


_SHELLS_VALUES = ("--rcfile", "--init-file")


def of_shell(words: Sequence[str], at: int) -> tuple[int, bool] | None:
    """Where what the shell at `at` runs stands among the words, and whether it is a line (-c) or the name of a file."""
    place, is_line = at + 1, False
    while place < len(words) and len(words[place]) > 1 and words[place][0] in "-+":
        word, is_bundle = words[place], not words[place].startswith("--")
        is_line = is_line or (is_bundle and word[0] == "-" and "c" in word)
        place += 2 if word in _SHELLS_VALUES or (is_bundle and word[-1] in "oO") else 1
        if word == "--":
            break
    return (place, is_line) if place < len(words) else None


def _with_flags(launcher: Launcher, words: Sequence[str], program: int, first: int) -> Shape:
    """A launcher whose own flags begin at `first`: what it starts is the first word that is none of them."""
    end, has_module = first, launcher.name == "tune"
    while end < len(words) and (found := FLAG.fullmatch(words[end])):
        if key(found[1]) == "no_python":  # what follows is any program
            return Shape(program, launcher, (first, end))
        has_module = has_module or key(found[1]) in ("m", "module")
        end += 2 if found[2] is None and key(found[1]) not in launcher.switches else 1
    own = (first, min(end, len(words)))
    target = end + 1 if words[end : end + 1] == ["--"] else end
    return Shape(program, launcher, own, _present(target, words), is_module=has_module)


def _with_verb(prefix: Prefix, words: Sequence[str], at: int) -> int | None:
    """Behind the verb of a runner and its flags; its -m is a word of the command."""
    if prefix.verb not in words[at + 1 :]:
        return None
    place = words.index(prefix.verb, at + 1) + 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "--module"):
        if words[place] == "--":
            return _present(place + 1, words)
        found = FLAG.fullmatch(words[place])
        place += 2 if found is not None and found[2] is None and key(found[1]) in prefix.values else 1
    return _present(place, words)


def _without_verb(words: Sequence[str], at: int) -> int | None:
    """The first word behind a prefix that is known to start something, else the first that is no flag of it."""
    behind = [place for place in range(at + 1, len(words)) if not ASSIGNMENT.fullmatch(words[place])]
    known = (place for place in behind if _starts_something(words, place))
    plain = (place for place in behind if not words[place].startswith("-"))
    return next(known, next(plain, None))


def _starts_something(words: Sequence[str], at: int) -> bool:
    program = name(words[at])
    if program in PREFIXES or program in SHELLS or program.endswith(_ENDINGS):
        return True
    return program in launchers() and _has_verb(launchers()[program], words, at)


def _has_verb(launcher: Launcher, words: Sequence[str], at: int) -> bool:
    return not launcher.verbs or _verb(launcher, words, at) > 1


def _verb(launcher: Launcher, words: Sequence[str], at: int) -> int:
    """The words of the program with its verb, which may be several: "segment train"."""
    said = (verb.split() for verb in launcher.verbs)
    return 1 + max((len(verb) for verb in said if list(words[at + 1 : at + 1 + len(verb)]) == verb), default=0)


def _present(at: int, words: Sequence[str]) -> int | None:
    return at if at < len(words) else None
