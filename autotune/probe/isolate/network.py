"""Connections that Python makes: named by host and port, never blocked. Compiled code connects unseen here."""

import os

MOST_HOSTS = 10_000


def callbacks(patches, isolated) -> dict:
    """{"socket": ...}"""

    def on_socket(module) -> None:
        names = {}
        patches.set(module, "getaddrinfo", _remembering(module.getaddrinfo, names))
        for method in ("connect", "connect_ex", "sendto"):
            patches.set(module.socket, method, _named(getattr(module.socket, method), names, isolated))

    return {"socket": on_socket}


def _remembering(original, names: dict):
    """getaddrinfo that keeps the host's name for each address: a connection is made to the address."""

    def getaddrinfo(host, *args, **kwargs):
        found = original(host, *args, **kwargs)
        if isinstance(host, (str, bytes)) and len(names) < MOST_HOSTS:
            text = host if isinstance(host, str) else host.decode("ascii", "replace")
            names.update((row[4][0], text) for row in found)
        return found

    getaddrinfo.__wrapped__ = original
    getaddrinfo.__doc__ = original.__doc__
    return getaddrinfo


def _named(original, names: dict, isolated):
    def method(self, *args):
        address = args[-1] if args else None
        if isinstance(address, tuple) and len(address) >= 2 and isinstance(address[0], str):
            place = f"{names.get(address[0], address[0])}:{address[1]}"
            if place != _meeting_place():
                isolated.not_isolated(f"connection to {place}")
        return original(self, *args)

    method.__wrapped__ = original
    method.__name__ = original.__name__
    method.__doc__ = original.__doc__
    return method


def _meeting_place() -> str:
    """Where the ranks of this job meet."""
    return f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
