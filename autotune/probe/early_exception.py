"""The note of a process that an exception ended before torch came: until then nothing of it is recorded.

Only built-in modules: the process has not put the script's folder on sys.path yet.
"""

import os
import sys

from .bug import put
from .early_imports import import_early


def note_at_exit(folder: str) -> None:
    """Let this process write raised-<pid> into `folder` at its end, unless a Recording can tell of it: which exception
    ended it, "" for none. The last of these notes is of the process with which the command ended."""
    import_early("atexit").register(_leave, folder)


def _leave(folder: str) -> None:
    error = getattr(sys, "last_value", None)
    if f"{__package__}.session" in sys.modules:
        return
    # No message: it may quote data.
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    kind = type(error).__name__ if error is not None else ""
    text = "\n".join((kind, module or "", sys.executable or "", ""))
    put(folder, f"raised-{os.getpid()}", text)
