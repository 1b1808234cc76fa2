"""The folder of the sockets by which worker processes hand over tensors: the parent's, who deletes it."""

from __future__ import annotations

import os
import sys


def use(run_dir: str) -> None:
    """Let multiprocessing, here and in the processes that this one starts, make its sockets where the parent said.

    Of its own accord it makes a folder pymp-* in each worker, which stays behind where the worker is killed. Children
    inherit the setting (multiprocessing.process.BaseProcess copies its parent's, CPython 3.11). A folder that the
    script has in use already stays.
    """
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return
    try:
        with open(os.path.join(run_dir, "sockets-folder"), encoding="utf-8") as file:
            folder = file.read()
    except OSError:
        return
    if os.path.isdir(folder):  # it is not on another machine of the job
        process.current_process()._config.setdefault("tempdir", folder)
