"""A script, read without running it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from autotune.model.evidence import Fact
from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.pycode.script_view import TrainingEntryPoint


class ScannedScript(Struct, frozen=True):
    """What a script calls and does.

    `options` are what its command line accepts, with their defaults; `parses` the classes that HfArgumentParser or
    TrlParser fills from it, as the library names them, `stored` what it sets on these afterwards; `imports` the
    modules that it names. `trains` says that it has a training loop, or runs a library's or another module's.
    `entries` are what others call to make it train, `called` the full names of what it certainly calls of others.
    """

    file: str
    calls: tuple[ConsumerCall, ...]
    facts: tuple[Fact, ...]
    imports: frozenset[str]
    options: Mapping[str, WrittenValue]
    parses: tuple[str, ...]
    trains: bool
    stored: Mapping[str, WrittenValue] = field(default_factory=dict)
    entries: tuple[TrainingEntryPoint, ...] = ()
    called: frozenset[str] = frozenset()
