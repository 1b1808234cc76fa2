"""What took long to work out from the files of this installation, kept in the user's cache folder as JSON.

A kept value is named by the contents that it was made of, so that it is never out of date. Where no cache can be
written, everything is worked out anew.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from autotune import __version__


def kept(name: str, contents: Iterable[bytes], make: Callable[[], Any]) -> Any:
    """The JSON value of `make()`, from the cache when it was made of the same `contents` before.

    `make` may raise: then nothing is kept.
    """
    digest = sha256(__version__.encode())
    for content in contents:
        digest.update(len(content).to_bytes(8, "big") + content)
    folder = cache_folder()
    file = folder / f"{name}-{digest.hexdigest()[:20]}.json"
    try:
        return json.loads(file.read_bytes())
    except (OSError, ValueError):
        value = make()
    _keep(file, name, value)
    return value


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/autotune, by default ~/.cache/autotune."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118
    return Path(base, "autotune")


def _keep(file: Path, name: str, value: Any) -> None:
    """Write `file` at once or not at all, and remove what was kept under `name` before."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=file.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            json.dump(value, written, separators=(",", ":"))
        older = [one for one in file.parent.glob(f"{name}-*.json") if one != file]
        Path(temporary).replace(file)
        for one in older:
            one.unlink(missing_ok=True)
    except OSError:
        pass  # a folder that cannot be written: the next process works it out again
