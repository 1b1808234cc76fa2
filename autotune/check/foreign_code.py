"""What of a project is not its own training: other projects' code in it, and presets that nothing of it names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from autotune import reading
from autotune.catalogue.frameworks import frameworks
from autotune.model.scanned import Bundle

ASIDE_FOLDERS = frozenset({
    *("test", "tests", "doc", "docs", "third_party", "thirdparty", "third-party", "vendor", "vendored", "external"),
    *("externals", "submodules", "unsloth_compiled_cache"),
})  # fmt: skip
"""Folders of tests, of documentation, of other projects' code and of code that a library generated."""

LICENSES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "license.txt")

PRESETS = frozenset({"accelerate_config", "deepspeed"})
"""Dialects of files that train nothing by themselves: a command names them."""

NAMING = (
    ".md",
    ".rst",
    ".txt",
    ".sh",
    ".bash",
    ".slurm",
    ".sbatch",
    ".py",
    ".yaml",
    ".yml",
    ".json",
    ".toml",
    ".ipynb",
    "Makefile",
    "justfile",
)
"""Ends of files that may name a preset."""

NAMING_FOLDERS = (".github", ".vscode")

TREE = re.compile("[\u2500-\u257f]")
"""What a tree of folders is drawn with."""

MAX_FILES, MAX_BYTES = 5_000, 1_000_000
"""Files of a project that are searched for names of presets; larger ones are not."""


def places_aside(root: Path, bundles: Iterable[Bundle]) -> Callable[[Bundle, str], str]:
    """A function of a bundle and one of its files: why what stands there is not the project's training, "" if it is."""
    unused = cache(lambda: frozenset(_unused_presets(root, bundles)))
    licensed = cache(partial(_has_own_license, root))
    unread = cache(partial(_is_unread, root))

    def why(bundle: Bundle, file: str) -> str:
        folders = file.split("/")[:-1]
        named = next((one for one in folders if one in ASIDE_FOLDERS), None)
        if named is not None:
            return f"in {named}/"
        inner = ("/".join(folders[: end + 1]) for end in range(len(folders)))
        licensed_folder = next((one for one in inner if licensed(one)), None)
        if licensed_folder is not None:
            return f"{licensed_folder}/ has a license of its own"
        if _is_preset(bundle) and bundle.name in unused():
            return "no command names it"
        return "no file of the project reads it" if _is_of_parser(bundle) and unread(bundle.name) else ""

    return why


def _has_own_license(root: Path, folder: str) -> bool:
    """Whether a folder has another license text than the project itself: then it is another project's."""
    inner, outer = _license(root / folder), _license(root)
    return bool(inner) and bool(outer) and inner != outer


def _license(folder: Path) -> str:
    """The words of the license in a folder; "" where none lies there."""
    return next((text for name in LICENSES if (text := _without_years(_text(folder / name) or ""))), "")


def _without_years(text: str) -> str:
    """The words of a license but for whose it is and since when: a package of the project may have its own line."""
    return " ".join(word for line in text.splitlines() if "copyright" not in line.lower() for word in line.split())


def _text(path: Path) -> str | None:
    """What a file holds; None where it cannot be read."""
    try:
        return reading.read(path, most_bytes=MAX_BYTES).decode(errors="replace")
    except OSError:
        return None


def _is_preset(bundle: Bundle) -> bool:
    """A config alone, which no command of the project that was read names."""
    return len(bundle.files) == 1 and bool(bundle.dialects) and PRESETS.issuperset(bundle.dialects)


def _is_of_parser(bundle: Bundle) -> bool:
    """A config alone that holds what the parser of a script would fill."""
    parsed = {name for name, one in frameworks().items() if one.parsed}
    is_config = bundle.name.endswith((".yaml", ".yml", ".json", ".toml"))
    return is_config and len(bundle.files) == 1 and bool(bundle.dialects) and parsed.issuperset(bundle.dialects)


def _is_unread(root: Path, config: str) -> bool:
    """Whether no text of the project names a config, but for a tree of its folders, or names its folder with what may
    be any of its files."""
    folder, base = config.rpartition("/")[0].rpartition("/")[2], re.escape(config.rpartition("/")[2])
    any_of = rf"(?<![\w-]){re.escape(folder)}(?:/[^\s\"'`]*[$*{{<%]|/?[\"'])" if folder else r"(?!)"
    pattern = re.compile(rf"(?<![\w.-]){base}|{any_of}")
    for number, path in enumerate(_texts(root)):
        text = _text(path)
        if text is None or number >= MAX_FILES:
            return False
        lines = text.splitlines() if pattern.search(text) else ()
        if path != root / config and any(pattern.search(line) and not TREE.search(line) for line in lines):
            return False
    return True


def _unused_presets(root: Path, bundles: Iterable[Bundle]) -> Iterator[str]:
    """The presets that no text of the project names, where it names another one of their folder."""
    presets = [one.name for one in bundles if _is_preset(one)]
    by_name = {os.path.basename(name): name for name in presets}  # noqa: PTH119
    if len(presets) < 2:
        return
    pattern = re.compile("|".join(map(re.escape, sorted(by_name, key=len, reverse=True))))
    said: set[str] = set()
    for number, path in enumerate(_texts(root)):
        text = _text(path)
        if text is None or number >= MAX_FILES:
            return  # what was not read may name each of them
        said |= {one for one in pattern.findall(text) if one != path.name}
    used = {os.path.dirname(by_name[one]) for one in said}  # noqa: PTH120
    for base, name in by_name.items():
        if base not in said and os.path.dirname(name) in used:  # noqa: PTH120
            yield name


def _texts(root: Path) -> Iterator[Path]:
    """The files that may name a preset, hidden folders left out but for those of CI and editors."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith(".") or one in NAMING_FOLDERS)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(NAMING))
