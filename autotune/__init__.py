"""autotune: where a PyTorch training run spends its time, what would fix it and how much that gains.

In a script: `with autotune.watch(): ...`, `autotune.summary()`, `autotune.hf.Callback()`,
`autotune.lightning.Callback()`; in a notebook `%load_ext autotune` (docs/watch.md).
"""

from typing import Any

__version__ = "0.2.0"

_OF_SCRIPTS = {
    "watch": "in_process",
    "summary": "in_process",
    "drift": "in_process",
    "load_ipython_extension": "ipython_magic",
    "hf": "",
    "lightning": "",
}
"""What a script uses -> the module that has it, "" for a module itself. Imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name not in _OF_SCRIPTS:
        raise AttributeError(f"module 'autotune' has no attribute {name!r}")
    import importlib  # the command needs none of it

    module = importlib.import_module(f"autotune.{_OF_SCRIPTS[name] or name}")
    return getattr(module, name) if _OF_SCRIPTS[name] else module
