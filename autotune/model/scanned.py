"""What scan reads from files without running anything."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from autotune.model.evidence import Fact, Location, Setting, Value

TYPED = "<command line>"
"""The file of words that a person typed, and that stand in no file."""


class Pin(Struct, frozen=True):
    """A requirement that bounds a package from above ("transformers==4.40"), and where: "requirements.txt:3"."""

    requirement: str
    place: str


class WrittenValue(Struct, frozen=True):
    """A value that a file gives to an argument of a call, a flag of a command or a key of a config.

    `value` is typed as the file's consumer reads it, None when it is null there; `known` is False when it could not be
    followed, and then `value` says nothing. `location` is where a person would edit it. `is_default` says that it is
    the default of an option (argparse, click, a dataclass field), which a command line may replace. `text` is the word
    of a command line that `value` is taken from, None elsewhere and for a flag that stands alone. `doubt` says why an
    edit at `location` might change nothing or break the run, "" when it does what it says.
    """

    key: str
    value: Value | None
    location: Location
    known: bool = True
    is_default: bool = False
    text: str | None = None
    doubt: str = ""


class ConsumerCall(Struct, frozen=True):
    """Arguments that reach one consumer: a call in a script, a config file, or the flags of a command.

    `dialect` says in whose words the keys of `arguments` are ("hf_trainer", "torch", "deepspeed" ...), `name` what is
    called ("DataLoader", "TrainingArguments"; "" for a config file). `is_open` says that more arguments may come from
    where nothing can be read (**kwargs, a command line that is not known): then a missing key is unknown, not default.
    `asks_release` says that the code around the call chooses it by the release of a library. `keywords` are where a
    call in a script names the arguments whose values stand elsewhere.
    """

    dialect: str
    name: str
    subject: str
    arguments: Mapping[str, WrittenValue]
    location: Location
    is_open: bool = False
    asks_release: bool = False
    keywords: Mapping[str, Location] = field(default_factory=dict)


class ScanNote(Struct, frozen=True):
    """A file, or a part of it, that was not read: where and why.

    `is_error` says that the file is broken or too complex, `is_bug` that reading it failed by a mistake of autotune.
    """

    where: str
    why: str
    is_error: bool = False
    is_bug: bool = False


class IgnoreComment(Struct, frozen=True):
    """A comment `# autotune: ignore[DL001] reason` at `line` of `file`, for what stands there and up to `end_line`.

    Line 0 means the whole file.
    """

    file: str
    line: int
    end_line: int
    rule: str
    reason: str


class Bundle(Struct, frozen=True):
    """Files that make one training run: a script, its configs and the command that starts it; `name` is the main one.

    `dialects` are those that its files were recognised as. `is_module` says that the script is one of a package, by its
    imports (`from . import data`): it is started with -m, from the folder `home` where the imports say which one.
    `ignored` are the rules that a comment silences. `calls` are what the settings come from, in the order in which they
    win.
    """

    name: str
    files: tuple[str, ...]
    dialects: tuple[str, ...]
    facts: tuple[Fact, ...]
    settings: tuple[Setting, ...]
    ignored: tuple[IgnoreComment, ...] = ()
    calls: tuple[ConsumerCall, ...] = ()
    is_module: bool = False
    home: str = ""


class Scanned(Struct, frozen=True):
    """All bundles under the paths that were asked for, and what was left out of `num_files` files."""

    bundles: tuple[Bundle, ...]
    notes: tuple[ScanNote, ...]
    num_files: int
