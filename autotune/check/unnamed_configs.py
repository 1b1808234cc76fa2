"""Configs of DeepSpeed and accelerate that no other file of the project names."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from autotune import reading
from autotune.model.scanned import Bundle
from autotune.scan.files import SKIPPED_FOLDERS

CONFIGS = (".yaml", ".yml", ".json", ".toml")

COMMANDS = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job", ".bat", ".ps1", ".md", ".rst", ".txt", ""})
"""How the names of texts end that say how something is started: "" is a Makefile or a Dockerfile."""

TEXTS = COMMANDS | {".py", ".ipynb", ".cfg", ".ini", *CONFIGS}
"""How the names of files end that may name a config."""

TREE = re.compile(r"^.*(?:[├└│]|\|--|`--|\+--).*$", re.MULTILINE)
"""A line of a drawn tree of folders, which names every file."""

STARTS = re.compile(
    r"\b(?:python[\d.]*|torchrun|launch|deepspeed|srun)\b[^\n]{0,300}?(?:\s[\w./-]{1,200}\.py\b|\s-m\s)"
)
"""A command that starts a script or a module."""

PASSES_ON = re.compile(r"\b(?:python[\d.]*|torchrun|launch|deepspeed|srun)\b[^\n]{0,300}?\s[\"']?\$(?:[@*]|\{@)")
"""A command that takes over words which a person types."""

VALUE = r"(?:[ \t=]|[\"'],)[ \t]*[\"']?[^\s\"'\\$*<{]{0,99}(?:\$\{?(\w+)|[*<{])"
OPEN = {
    "deepspeed": re.compile(rf"--(?:deepspeed(?:_config(?:_file)?)?|ds_config){VALUE}"),
    "accelerate_config": re.compile(rf"--config[_-]file{VALUE}"),
}
"""By dialect an option whose config a variable holds, a pattern means or the reader puts in."""

MOST_FILES, MOST_BYTES = 20_000, 60_000_000
"""Files of a project that are looked through, and their bytes together: in more, any file may be named."""

MOST_OF_ONE = 2_000_000
"""Bytes of one text: a longer one is data, or the outputs of a notebook."""

VISIBLE = (".github", ".vscode", ".devcontainer")
"""Hidden folders that say how something is started."""


def places_unnamed(root: Path, bundles: Sequence[Bundle]) -> Callable[[str], str]:
    """A function of a file: why nothing of the project uses it, "" where something may.

    It is said of configs that train nothing alone (DeepSpeed, accelerate) and are in no run with a script, where the
    project says how its scripts are started and no command of it may take any config.
    """

    @cache
    def texts() -> dict[str, str] | None:
        return _texts(root)

    @cache
    def says_how() -> bool:
        return any(STARTS.search(_joined(text)) for name, text in (texts() or {}).items() if _end(name) in COMMANDS)

    @cache
    def is_open(dialect: str) -> bool:
        return any(_is_open(dialect, _joined(text)) for text in (texts() or {}).values())

    @cache
    def why(file: str) -> str:
        of = [each for each in bundles if file in each.files]
        if not of or not all(map(_is_part, of)) or not says_how():
            return ""
        may_be_used = any(map(is_open, of[0].dialects)) or any(
            _names(text, file) for name, text in (texts() or {}).items() if name != file
        )
        return "" if may_be_used else "no file of the project names it"

    return why


def _is_part(bundle: Bundle) -> bool:
    """Whether it is a config alone, of a dialect that trains nothing by itself."""
    return bundle.name.endswith(CONFIGS) and set(bundle.dialects) <= set(OPEN)


def _end(file: str) -> str:
    return posixpath.splitext(file)[1]


def _joined(text: str) -> str:
    """With each command on one line."""
    return text.replace("\\\n", " ")


def _is_open(dialect: str, text: str) -> bool:
    """Whether a text has a command whose config may be any: no line of it says what the variable holds."""
    variables = [found[1] or "" for found in OPEN[dialect].finditer(text)]
    is_said = (one and re.search(rf"\b{re.escape(one)}\b[\"']?\s*(?:=|in\b)", text) for one in variables)
    return not all(is_said) or bool(PASSES_ON.search(text))


def _names(text: str, file: str) -> bool:
    """Whether a text names a config, or any config of its folder."""
    base, folder = posixpath.basename(file), posixpath.basename(posixpath.dirname(file))
    if base in text and re.search(rf"(?<![\w.-]){re.escape(base)}\b", text):
        return True
    patterns = re.findall(rf"\b{re.escape(folder)}/[$*{{<\[]\S{{0,99}}", text) if folder else []
    return any(_end(file) in one or not any(end in one for end in CONFIGS) for one in patterns)


def _texts(root: Path) -> dict[str, str] | None:
    """The texts of a project by name, without drawn trees of folders; None where there are too many."""
    names = list(islice(_files(root), MOST_FILES + 1))
    if len(names) > MOST_FILES:
        return None
    found, num_bytes = dict[str, str](), 0
    for name in names:
        text = _text(root / name)
        num_bytes += len(text)
        if num_bytes > MOST_BYTES:
            return None
        found[name] = TREE.sub("", text) if _end(name) in COMMANDS else text
    return found


def _files(root: Path) -> Iterator[str]:
    for folder, inner, names in os.walk(root):
        inner[:] = [one for one in inner if one not in SKIPPED_FOLDERS and (one[0] != "." or one in VISIBLE)]
        below = "" if folder == str(root) else f"{os.path.relpath(folder, root).replace(os.sep, '/')}/"
        yield from (f"{below}{name}" for name in names if name[0] != "." and _end(name) in TEXTS)


def _text(path: Path) -> str:
    try:
        return reading.read(path, most_bytes=MOST_OF_ONE).decode(errors="replace")
    except OSError:
        return ""
