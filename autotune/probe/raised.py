"""The note of a process that an exception ended before torch came: until then nothing of it is recorded.

Only built-in modules: the process has not put the script's folder on sys.path yet.
"""

import os
import sys

from .aside import aside
from .bug import put


def note_at_exit(folder: str) -> None:
    """Let this process write raised-<pid> into `folder` where an exception ends it that no Recording can tell of."""
    aside("atexit").register(_leave, folder)


def _leave(folder: str) -> None:
    error = getattr(sys, "last_value", None)
    if error is None or f"{__package__}.session" in sys.modules:
        return
    # No message: it may quote data.
    module = error.name if isinstance(error, ModuleNotFoundError) else None
    text = "\n".join((type(error).__name__, module or "", sys.executable or "", ""))
    put(folder, f"raised-{os.getpid()}", text)
