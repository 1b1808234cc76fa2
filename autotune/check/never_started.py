"""Scripts and configs that nothing in the project starts or names, where it says how others are started."""

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

SCRIPT, CONFIGS = ".py", (".yaml", ".yml", ".json", ".toml")

TEXTS = frozenset({
    *(".py", ".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job", ".bat", ".ps1", ".md", ".rst", ".txt", ".ipynb"),
    *(".yaml", ".yml", ".json", ".toml", ".cfg", ".ini", ""),
})  # fmt: skip
"""How the names end of files that may name a script or a config: "" is a Makefile or a Dockerfile."""

COMMANDS = frozenset({".sh", ".bash", ".slurm", ".sbatch", ".pbs", ".job", ".bat", ".ps1", ".md", ".rst", ".txt", ""})
"""Those that say how something is started."""

PYTHON_CONFIGS = frozenset({"mmengine", "mmcv"})
"""Dialects of configs in Python, which are chosen by hand among many."""

TREE = re.compile(r"^.*(?:[├└│]|\|--|`--|\+--).*$", re.MULTILINE)
"""A line of a drawn tree of folders, which names every file."""

STARTS = re.compile(
    r"\b(?:python[\d.]*|torchrun|launch|deepspeed|srun|run)\b[^\n]{0,300}?\s([\w./-]{1,200})\.py\b|-m\s+([\w.]+)"
)
"""What starts a script or a module."""

OPEN_SCRIPT = re.compile(
    r"\bpython[\d.]*[ \t]+(?:-[um][ \t]+)*[\"']?[^\s\"'-]{0,99}?(?:\$\{?(\w+|@)|[*{<])"
    r"|\b(?:python[\d.]*|torchrun|launch|deepspeed|srun|sbatch|in)\s[^\n]{0,300}?[^\s$*{<]{0,99}"
    r"(?:\$\{?(\w+)\S{0,99}|[*{<]\S{0,99})\.py\b"
)
VALUE = r"(?:[ \t=]|[\"'],)[ \t]*[\"']?[^\s\"'\\$*<{]{0,99}(?:\$\{?(\w+)|[*<{])"
OPEN_CONFIGS = {
    "deepspeed": re.compile(rf"--(?:deepspeed(?:_config(?:_file)?)?|ds_config){VALUE}"),
    "accelerate_config": re.compile(rf"--config[_-]file{VALUE}"),
}
"""A script that a variable holds, a pattern means or the reader puts in; and such configs of the dialects that train
nothing alone."""

MOST_FILES, MOST_BYTES = 20_000, 60_000_000
"""Files of a project that are looked through, and their bytes together: in more, any file may be named."""

MOST_OF_ONE = 2_000_000
"""Bytes of one text: a longer one is data, or the outputs of a notebook."""

VISIBLE = (".github", ".vscode", ".devcontainer")
"""Hidden folders that say how something is started."""


def places_unstarted(root: Path, bundles: Sequence[Bundle]) -> Callable[[str], str]:
    """A function of a file: why what stands there is started by nobody, "" if it may be.

    It is said of scripts without a command, and of configs that are part of a launch (DeepSpeed, accelerate), that no
    other text of the project names, where the project's texts start other scripts and none may start any. A notebook
    is started by hand.
    """

    @cache
    def texts() -> dict[str, str] | None:
        return _texts(root)

    @cache
    def started() -> frozenset[str]:
        """The stems of scripts and modules that the texts start."""
        commands = (text for name, text in (texts() or {}).items() if _end(name) in COMMANDS)
        return frozenset(stem for text in commands for stem in _started(text))

    @cache
    def is_open(pattern: re.Pattern[str]) -> bool:
        """Whether a command may start any script, or take any config."""
        return any(_is_open(pattern, text) for text in (texts() or {}).values())

    @cache
    def is_alive(name: str, dialects: tuple[str, ...]) -> bool:
        found = texts()
        if found is None or _stem(name) in _started(found.get(name, "")):
            return True
        if any(map(is_open, [OPEN_SCRIPT] if name.endswith(SCRIPT) else [OPEN_CONFIGS[one] for one in dialects])):
            return True
        return any(_names(text, name) for other, text in found.items() if other != name)

    @cache
    def is_used(file: str) -> bool:
        """Whether a run that may be started has the file, or none has it."""
        of = [each for each in bundles if file in each.files]
        return not of or any(not _is_alone(each) or is_alive(each.name, each.dialects) for each in of)

    def why(file: str) -> str:
        if not any(_is_alone(each) for each in bundles if file in each.files) or is_used(file):
            return ""
        return "no file of the project starts or names it" if started() - {_stem(file)} else ""

    return why


def _stem(file: str) -> str:
    return posixpath.splitext(posixpath.basename(file))[0]


def _end(file: str) -> str:
    return posixpath.splitext(file)[1]


def _started(text: str) -> Iterator[str]:
    """The stems of the scripts and modules that a text starts."""
    return (re.split(r"[./]", script or module)[-1] for script, module in STARTS.findall(text.replace("\\\n", " ")))


def _is_alone(bundle: Bundle) -> bool:
    """Whether the run begins with a script that has no command, or is a config that is part of a launch."""
    if bundle.name.endswith(SCRIPT):
        return not PYTHON_CONFIGS.intersection(bundle.dialects)
    return bundle.name.endswith(CONFIGS) and set(bundle.dialects) <= set(OPEN_CONFIGS)


def _is_open(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a text has a command whose script or config may be any: no line of it says what the variable holds."""
    variables = (next(filter(None, found.groups()), "") for found in pattern.finditer(text))
    return any(not one or not re.search(rf"\b{re.escape(one)}\b[\"']?\s*(?:=|in\b)", text) for one in variables)


def _names(text: str, file: str) -> bool:
    """Whether a text names a file: a script also as a module."""
    stem, end = posixpath.splitext(posixpath.basename(file))
    if stem not in text:
        return False
    word = re.escape(stem)
    if end != SCRIPT:
        folder = re.escape(posixpath.basename(posixpath.dirname(file)))
        return bool(re.search(rf"(?<![\w.-]){word}{re.escape(end)}\b|\b{folder}/[$*{{<\[]", text))
    as_module = rf"(?:[./]|\bimport\s+|-m\s+){word}\b(?!\.\w|-)|\b{word}:\w"
    return bool(re.search(rf"(?<![\w-]){word}\.py\b|{as_module}", text))


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
