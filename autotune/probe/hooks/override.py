"""Runs the script with other arguments than it gives: those that the Request names, at the calls that it names.

An argument is replaced when the call is made, so that everything behind it sees the new value: workers, samplers,
and what a framework derives from it.
"""

from __future__ import annotations

import functools
import inspect
import os

from .. import call_sites

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..session import ProbeSession
    from ..shapes import CallSite, OverrideArguments, Row

TORCH_FILES = ("torch/utils/data", "torch/optim", "torch/_")
"""Parts of torch's files between a call of the user's and the constructor, as `loader_files` of the Request; other
libraries' own calls keep theirs."""


def install(session: ProbeSession) -> None:
    """Replace what torch's own calls get. Framework calls are replaced when their module arrives (on_import)."""
    import torch

    wanted = _by_call(session)
    # The CallSite of the call, of whoever makes it.
    direct = functools.partial(call_sites.caller, skip=(*TORCH_FILES, *session.request["loader_files"]))
    if "loader" in wanted:
        _replace(session, torch.utils.data.DataLoader, wanted["loader"], direct)
    if "optimizer" in wanted:
        for kind in _optimizers(torch.optim):
            _replace(session, kind, wanted["optimizer"], direct)
    for override in wanted.get("threads", ()):
        _fix_threads(session, torch, next(iter(override["arguments"].values())))


def on_import(session: ProbeSession, module: Any) -> None:
    """Replace what the calls of a framework get, right after the probe hooked its module."""
    for row in session.request["frameworks"]:
        wanted = _by_call(session).get(row["object"])
        if row["module"] != module.__name__ or not row["override"] or not wanted:
            continue
        owner = getattr(module, row["type"])
        if row["override"] == "fields":
            _set_fields(session, owner, wanted, row["after"])
        else:
            _replace(session, owner, wanted, call_sites.user_caller)


def _by_call(session: ProbeSession) -> dict[str, list[OverrideArguments]]:
    found: dict[str, list[OverrideArguments]] = {}
    for override in session.request["overrides"]:
        found.setdefault(override["at"], []).append(override)
    return found


def _optimizers(module: Any) -> list[Any]:
    """Optimizer classes with a constructor of their own; a subclass of one gets its arguments through that."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    return [
        kind for kind in dict.fromkeys(kinds) if issubclass(kind, module.Optimizer) and kind is not module.Optimizer
    ]


def _replace(
    session: ProbeSession, owner: Any, overrides: list[OverrideArguments], caller: Callable[[], CallSite]
) -> None:
    """`owner(...)` gets the arguments of the overrides that are of the calling line, which `caller()` tells."""
    init = owner.__init__
    names = list(inspect.signature(init).parameters)[1:]

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        arguments = _arguments(overrides, caller())
        if arguments:
            # A positional argument that is replaced, and those behind it, become keywords.
            first = min([names.index(name) for name in arguments if name in names[: len(args)]], default=len(args))
            kwargs = {**dict(zip(names[first:], args[first:])), **kwargs, **arguments}
            args = args[:first]
        init(self, *args, **kwargs)

    session.patches.set(owner, "__init__", __init__)


def _set_fields(session: ProbeSession, owner: Any, overrides: list[OverrideArguments], method: str) -> None:
    """A class and its subclasses: the fields are set before `method` derives anything from them."""
    derive = getattr(owner, method)

    @functools.wraps(derive)
    def derived(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, value in _arguments(overrides, call_sites.user_caller()).items():
            setattr(self, name, value)
        derive(self, *args, **kwargs)

    session.patches.set(owner, method, derived)


def _arguments(overrides: list[OverrideArguments], site: CallSite) -> Row:
    """What the overrides of the line at `site` give."""
    found = {}
    for override in overrides:
        if site["file"] == override["file"] and override["first_line"] <= site["line"] <= override["last_line"]:
            found.update(override["arguments"])
    return found


def _fix_threads(session: ProbeSession, torch: Any, count: Any) -> None:
    """Whatever the script says later; loader workers (other processes) still get their single thread."""
    native, pid = torch.set_num_threads, os.getpid()

    @functools.wraps(native)
    def set_num_threads(wanted: int) -> None:
        native(count if os.getpid() == pid else wanted)

    native(count)
    session.patches.set(torch, "set_num_threads", set_num_threads)
