"""The types that the probe's modules share, for the type checker alone: nothing imports this module at run time.

The Request and the sections of the Recording are those that the parent declares.
"""

from __future__ import annotations

from typing import Any, Callable, Protocol

from autotune.collect.request_document import FitRequest as FitRequest
from autotune.collect.request_document import HookedClass as HookedClass
from autotune.collect.request_document import IsolateSettings as IsolateSettings
from autotune.collect.request_document import LibraryEntry as LibraryEntry
from autotune.collect.request_document import NotebookRequest as NotebookRequest
from autotune.collect.request_document import OverrideArguments as OverrideArguments
from autotune.collect.request_document import RequestDocument as RequestDocument
from autotune.collect.request_document import WindowRequest as WindowRequest
from autotune.model.recording_sections import CallSite as CallSite

from .session import ProbeSession

Row = dict[str, Any]
"""An object of the Recording. Rows of loaders, optimizers and models also hold a weak reference, `object`."""

Event = tuple[str, int, int, int, int]
"""Kind, start, end, ref, flag."""

Phase = tuple[str, Row]
"""Name and arguments of a what-if."""

Leaf = tuple[str, Any]
"""Name and tensor."""

Place = tuple[int, int]
"""A line and a module, by their ids."""

Function = Callable[..., Any]
Undo = Callable[[], object]

OnImport = Callable[[Any], None]
"""Called with a module right after its import."""

AfterImport = dict[str, OnImport]

Samples = dict[tuple[Any, ...], int]
"""How often the sampler saw (phase, leaf file, leaf function, user file, user line, user function, ...)."""


class LivePhase(Protocol):
    """A phase in which the script goes on as it is; making one starts it."""

    def on_step(self) -> bool:
        """An optimizer step has ended; whether the phase is over."""

    def table(self) -> Row | None:
        """What it brought; it ends here."""


class ModuleWatch(Protocol):
    """An object that the hook of Module.__call__ hands each call to."""

    def calling(self, module: Any, call: Function, args: tuple[Any, ...], kwargs: Row) -> Any:
        """`call(module, *args, **kwargs)`, noted."""


class PassWatch(Protocol):
    """An object that the hook of backward hands each pass to."""

    def calling(self, backward: Function, args: tuple[Any, ...], kwargs: Row) -> Any:
        """`backward(*args, **kwargs)`, noted."""


class TorchHook(Protocol):
    """A module of hooks/ that patches torch."""

    def install(self, session: ProbeSession) -> None:
        """Patch torch by `session.patches`, so that a detached session leaves it as it was."""


class FrameworkHook(Protocol):
    """A module of hooks/ that patches what a framework's module defines."""

    def on_import(self, session: ProbeSession, module: Any) -> None:
        """Patch `module`, which was just imported, by `session.patches`; leave a module that it does not know alone."""
