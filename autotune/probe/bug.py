"""The note that a process leaves for its parent when the probe itself failed.

Only built-in modules: `boot/sitecustomize.py` needs it when nothing else may be imported.
"""

import os
import posix

MOST_FRAMES = 12


def leave_note(error: BaseException) -> None:
    """Write the type of `error` and its frames (no message: it may quote data) to bug-<pid> in the run folder."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"  {code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    text = "\n".join([type(error).__name__, *frames[-MOST_FRAMES:], ""])
    put(os.path.dirname(os.environ["AUTOTUNE_REQUEST"]), f"bug-{posix.getpid()}", text)


def put(folder: str, name: str, text: str) -> None:
    """Let the file `name` appear whole in `folder`: the parent reads it as soon as it is there."""
    # Not open(): what failed may be the overlay, which stands in for it.
    part = f"{folder}/part-of-{name}"
    descriptor = posix.open(part, posix.O_CREAT | posix.O_WRONLY | posix.O_TRUNC, 0o644)
    try:
        posix.write(descriptor, os.fsencode(text))
    finally:
        posix.close(descriptor)
    posix.rename(part, f"{folder}/{name}")
