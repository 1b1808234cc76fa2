"""What of a project is not its own training: tests, documentation, and other projects' code in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from autotune import reading

ASIDE_FOLDERS = frozenset({
    *("test", "tests", "doc", "docs", "third_party", "thirdparty", "third-party", "vendor", "vendored", "external"),
    *("externals", "submodules", "unsloth_compiled_cache"),
})  # fmt: skip
"""Folders of tests, of documentation, of other projects' code and of code that a library generated."""

LICENSES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "license.txt")

MAX_BYTES = 1_000_000
"""A longer text is no license."""

PACKAGING = ("setup.py", "pyproject.toml", "setup.cfg")

NAME = re.compile(r"""^\s*name\s*=\s*["']?([\w.-]+)""", re.MULTILINE)
"""What a package calls itself in its packaging."""

LIBRARIES = frozenset({
    *("transformers", "trl", "peft", "accelerate", "diffusers", "datasets", "deepspeed", "fairseq", "timm", "vllm"),
    *("open-clip-torch", "sentence-transformers", "lightning", "pytorch-lightning", "llamafactory", "axolotl"),
    *("torch", "torchvision", "torchaudio", "torchtune", "torchtitan", "megatron-core", "detectron2", "mmcv"),
    *("mmdet", "mmengine", "mmsegmentation", "mmpretrain", "apex", "flash-attn", "xformers", "optimum", "verl"),
    *("openrlhf", "llm-foundry", "composer", "mosaicml", "nemo-toolkit", "espnet", "speechbrain"),
})  # fmt: skip
"""Libraries that projects copy into their own folders."""


def places_aside(root: Path) -> Callable[[str], str]:
    """A function of a file: why what stands there is not the project's training, "" if it is."""
    licensed = cache(partial(_has_own_license, root))
    copied = cache(partial(_copied_library, root))

    def why(file: str) -> str:
        folders = file.split("/")[:-1]
        named = next((one for one in folders if one in ASIDE_FOLDERS), None)
        if named is not None:
            return f"in {named}/"
        inner = ["/".join(folders[: end + 1]) for end in range(len(folders))]
        licensed_folder = next((one for one in inner if licensed(one)), None)
        if licensed_folder is not None:
            return f"{licensed_folder}/ has a license of its own"
        return next((f"{one}/ is a copy of {name}" for one in inner if (name := copied(one))), "")

    return why


def _has_own_license(root: Path, folder: str) -> bool:
    """Whether a folder has another license text than the project itself: then it is another project's."""
    inner, outer = _license(root / folder), _license(root)
    return bool(inner) and bool(outer) and inner != outer


def _copied_library(root: Path, folder: str) -> str:
    """The library that a folder is a copy of, by its packaging; "" where it is none, or the project is that library."""
    inner, outer = _packages(root / folder), _packages(root)
    return next((one for one in inner if one in LIBRARIES and one not in outer), "")


def _packages(folder: Path) -> list[str]:
    """What the packaging of a folder is called, in lower case with hyphens."""
    texts = (_text(folder / name) or "" for name in PACKAGING)
    return [one.lower().replace("_", "-") for text in texts for one in NAME.findall(text)]


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
