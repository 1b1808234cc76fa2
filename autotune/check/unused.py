"""What nothing of a project uses: configs that none of its texts names, and scripts that cannot start and that nobody
starts.

A project that states no command keeps all: there a person starts what the files do not name.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, field

from autotune import reading
from autotune.catalogue.frameworks import frameworks
from autotune.model.scanned import Bundle
from autotune.model.source import NOTEBOOK

PRESETS = frozenset({"accelerate_config", "deepspeed"})
"""Dialects of files that train nothing by themselves: a command or a script names them."""

CONFIGS = (".yaml", ".yml", ".json", ".toml")

NAMING = (
    *(".md", ".rst", ".txt", ".sh", ".bash", ".slurm", ".sbatch", ".py", ".ipynb", ".cfg", ".bat", ".ps1"),
    *("Makefile", "makefile", "justfile", "Justfile", "Dockerfile"),
    *CONFIGS,
)
"""Ends of files that may name others."""

NAMING_FOLDERS = (".github", ".vscode")

TREE = re.compile("[\u2500-\u257f]")
"""What a tree of folders is drawn with."""

MAX_FILES, MAX_BYTES = 5_000, 4_000_000
"""Files of a project that are searched. What is larger may name anything, unless it holds data."""

DATA = (".json", ".txt")

COMMAND = re.compile(
    r"\b(?:torchrun|deepspeed|accelerate[ \t]+launch|python[\d.]*|uv[ \t]+run|llamafactory-cli|swift|trl)[ \t]"
    r"(?![^\n]*\b(?:setup\.py|-m[ \t]+(?:pip|venv|build|http)))[^\n]*(?:\.py\b|-m[ \t]+\w|\btrain\b|\bsft\b|\\$)",
    re.MULTILINE,
)
"""A command that starts something of the project."""

GIVEN = re.compile(
    r"--(?:deepspeed(?:_config(?:_file)?)?|ds_config|config(?:[_-]file)?)(?:[ \t=]|[\"'],)[ \t]*[\"']?"
    r"(?:\$\{?(\w+)[^\s\"'\\]*|[<{][^\s\"'\\]*|(?<=, )\w+\b(?![\"'=]))"
)
"""A config that a variable names ($CONFIG, in the group), or the reader (<config>), or code."""

OPEN = re.compile(r"\$\{[^}]*\}|\$\w+|\$\([^)]*\)|\{[^}]*\}|<[^>]*>|%\w|\*|\$.*|[{<%].*")
"""What in a path may be any text."""


class Cell(Struct):
    """A cell of a notebook, without its outputs."""

    source: str | list[str] = ""


class Notebook(Struct):
    """The cells of a notebook."""

    cells: list[Cell] = field(default_factory=list)


class Mention(Struct, frozen=True):
    """A line of the file `text` that holds a name which is looked for."""

    text: str
    line: str


class Mentions(Struct, frozen=True):
    """What the texts of a project say. `names_any` says that a command takes a config that no text names."""

    found: tuple[Mention, ...]
    has_commands: bool
    names_any: bool


def why_unused(root: Path, bundles: tuple[Bundle, ...]) -> Callable[[Bundle], str]:
    """A function of a bundle: why nothing of the project uses it, "" where something may."""
    asked = [one.name for one in bundles if _is_config(one) or _lacking(one)]

    @cache
    def mentions() -> Mentions | None:
        return _mentions(root, asked)

    @cache
    def reason(name: str, lacking: str) -> str:
        said = mentions()
        if said is None or not said.has_commands:
            return ""
        if lacking:
            return "" if _is_started(name, said) else f"it imports {lacking}, which is not there, and nothing starts it"
        return "" if said.names_any or _is_named(root, name, said) else "no file of the project names it"

    return lambda bundle: reason(bundle.name, _lacking(bundle)) if bundle.name in asked else ""


def _is_config(bundle: Bundle) -> bool:
    """Configs alone that train nothing by themselves, or hold what the parser of a script would fill."""
    named = PRESETS | {name for name, one in frameworks().items() if one.parsed}
    return bool(bundle.dialects) and named.issuperset(bundle.dialects) and all(map(_has_config_name, bundle.files))


def _has_config_name(file: str) -> bool:
    return file.endswith(CONFIGS)


def _lacking(bundle: Bundle) -> str:
    """The module of the project that a script imports and that is not there."""
    return next((str(fact.value) for fact in bundle.facts if fact.name == "code.lacks_module"), "")


def _mentions(root: Path, files: list[str]) -> Mentions | None:
    """The lines that may name these files; None where not every text could be read."""
    looked_for = {part for file in files for part in (*file.split("/")[:-1], _stem(file))}
    pattern = re.compile("|".join(map(re.escape, sorted(looked_for, key=len, reverse=True))) or r"(?!)")
    found: list[Mention] = []
    has_commands = names_any = False
    for number, (name, text) in enumerate(_texts(root)):
        if text is None or number >= MAX_FILES:
            return None
        has_commands = has_commands or (not name.endswith(".py") and bool(COMMAND.search(text)))
        names_any = names_any or any(_is_any(given, text) for given in GIVEN.finditer(text))
        if pattern.search(text):
            lines = (_said(name, line) for line in text.splitlines() if pattern.search(line))
            found += (Mention(name, line) for line in lines if not TREE.search(line))
    return Mentions(tuple(found), has_commands, names_any)


def _is_any(given: re.Match[str], text: str) -> bool:
    """Whether a config that a variable names may be any: nothing of the text says what the variable holds."""
    variable = given[1]
    return variable is None or not re.search(rf"\b{variable}=[\"']?[^\s\"']*\.(?:ya?ml|json|toml)\b", text)


def _said(name: str, line: str) -> str:
    """A line without its comment, in files whose comments are no commands."""
    return re.sub(r"(?:^|\s)#.*", "", line) if name.endswith((".yaml", ".yml", ".toml")) else line


def _is_named(root: Path, config: str, said: Mentions) -> bool:
    """Whether a text names a config, or what may be any file of one of its folders."""
    base, folders = posixpath.basename(config), config.split("/")[:-1]
    name = re.compile(rf"(?<![\w.-]){re.escape(base)}(?![\w-])")
    rests = [(folder, "/".join((*folders[at + 1 :], base))) for at, folder in enumerate(folders)]
    apart = _apart(config, said)
    return any(
        any(_means(root, config, one, found.start(), one.text in apart) for found in name.finditer(one.line))
        or (one.text not in apart and any(_is_any_of(folder, rest, one.line) for folder, rest in rests))
        for one in said.found
        if one.text != config
    )


def _apart(config: str, said: Mentions) -> frozenset[str]:
    """The texts of the project's other folders that do not speak of the one with the config."""
    top = config.partition("/")[0] if "/" in config else ""
    folder = re.compile(rf"(?<![\w-]){re.escape(top)}(?![\w-])")
    speaking = {one.text for one in said.found if folder.search(one.line)}
    others = {one.text for one in said.found if "/" in one.text and one.text.partition("/")[0] != top}
    return frozenset(others - speaking) if top else frozenset()


def _means(root: Path, config: str, mention: Mention, start: int, is_apart: bool) -> bool:
    """Whether the file that a text names by the config's name may be that config, and not its namesake."""
    before, own = mention.line[:start], posixpath.dirname(mention.text)
    prefix = re.search(r"[^\s\"'`=,;:()\[\]]*$", before)
    path = (prefix[0] if prefix is not None else "") + posixpath.basename(config)
    above = [own, *(own.rsplit("/", end)[0] for end in range(1, own.count("/") + 1)), ""]
    places = (posixpath.normpath(posixpath.join(folder, path)) for folder in above)
    there = next((one for one in places if (root / one).is_file()), None)
    if there is not None:
        return there == config
    is_joined = "/" in path or re.search(r"(?:/|,)\s*f?[\"']$", before) is not None
    return is_joined or not is_apart


def _is_any_of(folder: str, rest: str, line: str) -> bool:
    """Whether a line names the folder of a config, or a path in it with an open part (`$NAME`, `{name}`, `*`) that may
    mean `rest`, the path of the config below that folder."""
    for found in re.finditer(rf"(?<![\w-]){re.escape(folder)}(?:/([^\s\"'`]*)|(?=[\"']))", line):
        path = (found[1] or "").rstrip(").,;:\\")
        if not path and "/" not in rest and line[found.end() :][:1] in ("'", '"'):
            return True
        pattern, last = "", 0
        for part in OPEN.finditer(path):
            pattern += re.escape(path[last : part.start()]) + ".*"
            last = part.end()
        if last and re.fullmatch(pattern + re.escape(path[last:]), rest):
            return True
    return False


def _is_started(script: str, said: Mentions) -> bool:
    """Whether a text speaks of a script: it may start or import it."""
    name = re.compile(rf"(?<![\w-]){re.escape(_stem(script))}(?![\w-])")
    return any(one.text != script and name.search(one.line) for one in said.found)


def _stem(file: str) -> str:
    return posixpath.basename(file).rpartition(".")[0]


def _texts(root: Path) -> Iterator[tuple[str, str | None]]:
    """The files that may name others, each with its text, None where that cannot be read; hidden folders are left out
    but for those of CI and editors, and so is data."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith(".") or one in NAMING_FOLDERS)
        for name in sorted(name for name in names if name.endswith(NAMING)):
            path = Path(folder, name)
            text = _text(path)
            if text is not None or not name.endswith(DATA):
                yield path.relative_to(root).as_posix(), text


def _text(path: Path) -> str | None:
    try:
        text = reading.read(path, most_bytes=MAX_BYTES).decode(errors="replace")
    except OSError:
        return None
    return _cells(text) if path.name.endswith(NOTEBOOK) else text


def _cells(text: str) -> str:
    """The sources of a notebook's cells; the whole text where it cannot be read as a notebook."""
    try:
        cells = msgspec.json.decode(text, type=Notebook).cells
    except msgspec.MsgspecError:
        return text
    return "\n".join(one.source if isinstance(one.source, str) else "".join(one.source) for one in cells)
