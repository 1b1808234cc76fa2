"""Python environments of a project and of its user, and what is installed in them. Nothing of them is run."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from autotune import reading
from autotune.invocation import Invocation

NAMES = (".venv", "venv", ".env", "env")
"""Folders of virtual environments, as tools and tutorials call them."""

_MARKS = (".git", "pyproject.toml")
_MOST_BYTES = 65_536
_MOST = 50


def of_project(called: Invocation) -> Iterator[Path]:
    """Environments beside the script or in a folder above it, up to its project's; poetry's and uv's are found too.

    The search ends below a folder of another owner, or one that others may write.
    """
    start = Path(os.path.realpath(called.file)).parent if called.file is not None else called.cwd
    for folder in (start, *start.parents):
        if not reading.may_hold_project(folder, start):
            return
        yield from (place for name in NAMES if _is_environment(place := folder / name))
        if any((folder / mark).exists() for mark in _MARKS):
            yield from _of_poetry(folder)
            return


def of_user(environ: Mapping[str, str]) -> Iterator[Path]:
    """Environments that conda, virtualenvwrapper and poetry made for this user."""
    home = Path(environ.get("HOME") or "~").expanduser()
    yield from [Path(line) for line in _lines(home / ".conda" / "environments.txt") if line.startswith("/")][:_MOST]
    for folder in (home / ".virtualenvs", home / ".pyenv" / "versions", _cache_of_poetry(home)):
        yield from sorted(folder.glob("*"))[:_MOST]


def has(python: str, module: str) -> bool:
    """Whether the packages of an interpreter's environment hold `module`, or others that it uses beside them."""
    name, prefix = module.partition(".")[0], Path(python).parent.parent
    config = "\n".join(_lines(prefix / "pyvenv.cfg"))
    places = [*prefix.glob("lib/python3*/site-packages"), *prefix.glob("lib/python3*/dist-packages")]
    if not config or "include-system-site-packages = true" in config:
        places += [*prefix.glob("local/lib/python3*/dist-packages"), Path("/usr/lib/python3/dist-packages")]
    lists = [file for place in places for file in sorted(place.glob("*.pth"))]
    places += [Path(line) for file in lists for line in _lines(file) if line.startswith("/")]
    return any(_holds(place, name) for place in places)


def _holds(place: Path, name: str) -> bool:
    return (place / name).is_dir() or (place / f"{name}.py").is_file() or any(place.glob(f"{name}.*.so"))


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file() or (folder / "conda-meta").is_dir()


def _of_poetry(project: Path) -> Iterator[Path]:
    """poetry keeps environments in its cache, by the name of the project and a digest of its path."""
    if not (project / "poetry.lock").is_file():
        return
    folder = _cache_of_poetry(Path.home())
    digest = hashlib.sha256(os.path.normcase(project).encode()).digest()
    mark = base64.urlsafe_b64encode(digest).decode()[:8]
    yield from sorted(folder.glob(f"*-{mark}-py*"))


def _cache_of_poetry(home: Path) -> Path:
    return home / ".cache" / "pypoetry" / "virtualenvs"


def _lines(file: Path) -> list[str]:
    try:
        return reading.read(file, follow=True, most_bytes=_MOST_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
