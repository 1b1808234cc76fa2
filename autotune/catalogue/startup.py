"""startup.toml: the causes of start-up time, and the functions of libraries by which they are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from msgspec import Struct, convert

from autotune.catalogue.vocabulary import read


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """Functions of a module, and of those below it. The keys are described at the head of startup.toml."""

    module: str
    functions: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    waits: str = ""


class Cause(Struct, frozen=True, forbid_unknown_fields=True):
    """What takes time before the first step, in words, and how it is known."""

    title: str
    entries: tuple[Entry, ...] = ()


@cache
def causes() -> Mapping[str, Cause]:
    """Every cause by its name, in the order of the file."""
    return convert(read("startup.toml"), dict[str, Cause])


def entries() -> Iterator[tuple[str, Entry]]:
    """(cause, entry) of all of them."""
    for name, cause in causes().items():
        for entry in cause.entries:
            yield name, entry
