"""What took long to work out from the files of this installation, kept in the user's cache folder as JSON.

A kept value is named by the contents that it was made of, as Python names what it compiles: it is never out of date.
Where no cache can be written, everything is worked out anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib.util import source_hash
from pathlib import Path
from typing import TypeVar

from msgspec import json

from autotune import __version__

Made = TypeVar("Made")


def kept(name: str, contents: Iterable[bytes], make: Callable[[], Made], of: type[Made]) -> Made:
    """What `make()` gives, of the type `of`, from the cache when it was made of the same `contents` before.

    `make` may raise: then nothing is kept.
    """
    whole = b"\0".join([__version__.encode(), *contents])
    file = cache_folder() / f"{name}-{source_hash(whole).hex()}.json"
    try:
        return json.decode(file.read_bytes(), type=of)
    except (OSError, ValueError):
        value = make()
    _keep(file, name, value)
    return value


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/autotune, by default ~/.cache/autotune."""
    base = os.environ.get("XDG_CACHE_HOME")
    return Path(base, "autotune") if base else Path("~/.cache/autotune").expanduser()


def write(file: Path, data: bytes) -> None:
    """Write a file of the cache at once or not at all."""
    import tempfile  # only a cache that is out of date needs it

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=file.parent)
        with os.fdopen(descriptor, "wb") as written:
            written.write(data)
        Path(temporary).replace(file)
    except OSError:
        pass  # a folder that cannot be written: the next process works it out again


def _keep(file: Path, name: str, value: object) -> None:
    """Write `file`, and remove what was kept under `name` before."""
    write(file, json.encode(value))
    try:
        for one in file.parent.glob(f"{name}-*.json"):
            if one != file:
                one.unlink(missing_ok=True)
    except OSError:
        pass
