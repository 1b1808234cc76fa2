"""Connections that Python makes: named by host and port, never blocked. Compiled code connects unseen here."""

from __future__ import annotations

import os

from ..patches import standing_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches
    from ..shapes import AfterImport, Function
    from .isolated import Isolated

MOST_HOSTS = 10_000


def callbacks(patches: Patches, isolated: Isolated) -> AfterImport:
    """{"socket": ...}"""

    def on_socket(module: Any) -> None:
        names: dict[str, str] = {}
        patches.set(module, "getaddrinfo", _remembering(module.getaddrinfo, names))
        for method in ("connect", "connect_ex", "sendto"):
            patches.set(module.socket, method, _named(getattr(module.socket, method), names, isolated))

    return {"socket": on_socket}


def _remembering(original: Function, names: dict[str, str]) -> Function:
    """getaddrinfo that keeps the host's name for each address: a connection is made to the address."""

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(host, *args, **kwargs)
        if isinstance(host, (str, bytes)) and len(names) < MOST_HOSTS:
            text = host if isinstance(host, str) else host.decode("ascii", "replace")
            names.update((row[4][0], text) for row in found)
        return found

    return standing_for(original, getaddrinfo)


def _named(original: Function, names: dict[str, str], isolated: Isolated) -> Function:
    def method(self: Any, *args: Any) -> Any:
        address = args[-1] if args else None
        if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[0], str):
            place = f"{names.get(address[0], address[0])}:{address[1]}"
            if place != _meeting_place():
                isolated.not_isolated(f"connection to {place}")
        return original(self, *args)

    return standing_for(original, method)


def _meeting_place() -> str:
    """Where the ranks of this job meet."""
    return f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
