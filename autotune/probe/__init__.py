"""The probe: runs inside the user's Python process as `_autotune_probe` and writes one Recording.

It imports the standard library and the user's own torch, nothing else. It is loaded at interpreter start (`load.py`);
until torch has been imported it does nothing but look at the stack now and then. A watched run leaves no Recording.
"""

from __future__ import annotations

import os
import sys

from . import early_exception, imports, startup
from .early_imports import import_early

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .shapes import OnImport, RequestDocument


def start(request_path: str) -> None:
    """Install the import hooks in this process. `request_path` is the Request that the parent wrote.

    Only built-in modules are used until torch arrives, so that no module of the user's is shadowed.
    """
    request = _read(request_path)
    _say_hello(request["run_dir"])
    early_exception.note_at_exit(request["run_dir"])
    callbacks: dict[str, list[OnImport]] = {"torch": [_on_torch]}
    if request["isolate"] is not None:
        from . import effects

        for name, functions in effects.install(request["isolate"]).items():
            callbacks.setdefault(name, []).extend(functions)
    for name in hooked_modules(request):
        callbacks.setdefault(name, []).append(_on_framework)
    cells = request["notebook"]
    if cells is not None:
        from . import notebook

        callbacks.setdefault(notebook.MODULE, []).append(lambda module: notebook.hook(cells, module))
    imports.install(callbacks)
    _request.append(request)
    sampled = startup.StartUp(request)
    sampled.start()
    import_early("atexit").register(sampled.stop)
    _startup.append(sampled)


def start_watch() -> None:
    """Watch this process over its whole run (`watch/`), from the import of torch on."""
    imports.install({"torch": [_on_watched_torch]})


def import_window() -> None:
    """Import all that measures a window of a process that trains already."""
    from .watch import remote  # noqa: F401


def measure_window(asked: dict[str, Any]) -> None:
    """Measure one window of this process, which trains already, from a thread of ours (`watch/remote.py`)."""
    from .watch import remote

    remote.measure(asked)


_request: list[RequestDocument] = []
"""The Request of this process, once started."""

_startup: list[startup.StartUp] = []
"""What it does until its first step, likewise."""

SAVING_AND_LOGGING = {
    "logging": "_hook_logging",
    "safetensors.torch": "_hook_safetensors",
    "torch.utils.tensorboard.writer": "_hook_tensorboard",
    "wandb.sdk.wandb_run": "_hook_wandb",
}
"""Modules that save and log for any script, each with the function of `hooks/frameworks.py` that hooks it."""


def hooked_modules(request: RequestDocument) -> list[str]:
    """Modules that are hooked when they are imported: SAVING_AND_LOGGING, and those of the trainer frameworks."""
    return [*SAVING_AND_LOGGING, *dict.fromkeys(row["module"] for row in request["frameworks"])]


def _read(path: str) -> RequestDocument:
    """The Request. The `json` module may not be imported before the script's folder is on sys.path, as a user's own
    json.py must win; its scanner is a module of its own."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        request: RequestDocument = import_early("_json").make_scanner(_Json)(text, 0)[0]
    except (ValueError, StopIteration, SystemError) as error:  # SystemError: it finds no json.JSONDecodeError
        raise ValueError("the Request is no JSON") from error
    return request


class _Json:
    """What the scanner asks of json.JSONDecoder (CPython 3.9 to 3.14)."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int, parse_constant = float, int, float
    memo: dict[str, str] = {}  # noqa: RUF012 - the scanner wants a dict, and clears it


def _say_hello(run_dir: str) -> None:
    """Tell the parent that this interpreter carries the probe: it maps a file of the run folder as long as it does."""
    descriptor = os.open(os.path.join(run_dir, f"hello-{os.getpid()}"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        os.ftruncate(descriptor, 1)
        _kept.append(import_early("mmap").mmap(descriptor, 1))
    finally:
        os.close(descriptor)


_kept: list[object] = []
"""The mapping of this process."""


def _on_torch(module: Any) -> None:
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False  # our own modules may be cached
    try:
        from . import ending, session
    finally:
        sys.dont_write_bytecode = before
    try:
        _startup[0].stop()
        session.begin(_request[0], _startup[0])
    except Exception as error:  # unmeasured, the script would train for real
        ending.end_by_bug(error)


def _on_watched_torch(module: Any) -> None:
    from .watch import watch

    watch.begin()


def _on_framework(module: Any) -> None:
    session = sys.modules.get(__name__ + ".session")
    if session is not None:
        session.on_framework(module)
