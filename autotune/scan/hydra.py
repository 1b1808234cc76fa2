"""What a script of Hydra's puts together: the config that @hydra.main names, and the files that defaults lists choose.

https://hydra.cc/docs/advanced/defaults_list: "- data: mnist" of a defaults list is data/mnist.yaml, whose keys stand
under `data`; of two files that give a key the later one in the list counts, and a file counts after those of its own
list unless that says `_self_` before them. A command chooses other files (`data=cifar`, `+experiment=fast`) and gives
values (`data.num_workers=4`); a file chooses for others (`override /data: cifar`), and where its keys stand
(`# @package _global_`). Where something else decides, nothing of the config is known.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.model.scanned import ConsumerCall, WrittenValue
from autotune.model.source import Document
from autotune.scan.configs import as_written, read_config, resolve_reference
from autotune.scan.library import Library

MAX_DEPTH = 10
"""Defaults lists that are followed one after another."""

OWN = "_self_"

HEADER = re.compile(r"@package\s+(\S+)")

PLAIN = re.compile(r"[\w./-]+")
"""Text of an override that Hydra takes as it is."""

CHOOSES = frozenset(
    {"config_name", "cn", "config_path", "cp", "config_dir", "cd", "multirun", "m", "experimental_rerun"}
)
"""Flags of Hydra's with which another config is the primary one, or several runs are started."""


class _Part(Struct, frozen=True):
    """A config file, and the key that its own keys stand under ("" at the top). Without a `file` it is one that is not
    there to be read: a config that the script's code registers."""

    file: str
    package: str


class _Entry(Struct, frozen=True):
    """An entry of a defaults list: `group` is as it is written ("" for a file), `options` are the files of it."""

    group: str
    options: tuple[str, ...]
    is_override: bool = False
    is_optional: bool = False


class _UnknownError(Exception):
    """What is put together is decided where it cannot be read."""


def hydra_calls(library: Library, script: str, flags: Mapping[str, WrittenValue]) -> list[ConsumerCall]:
    """The configs of a script that `flags` start, as Calls; what others say instead is left out of them."""
    parts = _composed_files(library, script, flags)
    written = _with_overrides(library, script, flags, _values_of_files(library, parts))
    values = resolve_reference(written)
    calls = []
    for part in dict.fromkeys(parts):
        document = library.document(part.file) if part.file else None
        call = read_config(document, part.file, "yaml") if document is not None else None
        if document is not None and call is not None:
            own = as_written(document, part.file)
            counted = {
                key for key, one in own.items() if written.get(_key(part.package, key)) == _in_package(part, one)
            }
            calls.append(_under(call, part.package, {key: values[_key(part.package, key)] for key in counted}))
    return calls


def hydra_values(library: Library, script: str, flags: Mapping[str, WrittenValue]) -> dict[str, WrittenValue]:
    """What Hydra puts together for a script, by dotted key: interpolations are followed in the whole."""
    parts = _composed_files(library, script, flags)
    return resolve_reference(_with_overrides(library, script, flags, _values_of_files(library, parts))) if parts else {}


def _values_of_files(library: Library, parts: Sequence[_Part]) -> dict[str, WrittenValue]:
    """What the files say together, by dotted key, as it is written there."""
    found: dict[str, WrittenValue] = {}
    for part in parts:
        document = library.document(part.file) if part.file else None
        if document is None:
            start = f"{part.package}." if part.package else ""
            found = {key: _unknown(one) if key.startswith(start) else one for key, one in found.items()}
            continue
        given = library.attempt(part.file, partial(as_written, document, part.file)) or {}
        own = {key: one for key, one in given.items() if key.partition(".")[0] != "defaults"}
        found |= {_key(part.package, key): _in_package(part, one) for key, one in own.items()}
    return found


def _in_package(part: _Part, given: WrittenValue) -> WrittenValue:
    return replace(given, key=_key(part.package, given.key))


def _with_overrides(
    library: Library, script: str, flags: Mapping[str, WrittenValue], written: Mapping[str, WrittenValue]
) -> dict[str, WrittenValue]:
    """`written` with what the command says instead; below a key that it sets nothing is known."""
    named = _main(library, script)
    groups = dict(_choices(library, named[0], flags)) if named is not None else {}
    said = {key: _override_value(one) for key, one in flags.items() if key not in groups}
    below = {key for key in written if any(key.startswith(f"{one}.") for one in said)}
    return {key: _unknown(one) if key in below else one for key, one in written.items()} | said


def _override_value(given: WrittenValue) -> WrittenValue:
    """The value of an override; words that Hydra reads in its own way ("null", "[1,2]", "${k}") are not known."""
    is_plain = not isinstance(given.value, str) or (PLAIN.fullmatch(given.value) and given.value.lower() != "null")
    return given if is_plain else _unknown(given)


def _unknown(given: WrittenValue) -> WrittenValue:
    return replace(given, value=None, known=False)


def _key(package: str, key: str) -> str:
    return f"{package}.{key}" if package else key


def _main(library: Library, script: str) -> tuple[str, str] | None:
    """The folder of configs and the primary one, as the decorator of the script names them."""
    source = library.python(script) if b"hydra" in library.files[script].data else None
    for node in ast.walk(source.tree) if source is not None else ():
        if isinstance(node, ast.Call) and _is_hydra_main(node.func):
            said = {one.arg: one.value.value for one in node.keywords if isinstance(one.value, ast.Constant)}
            folder, name = said.get("config_path"), said.get("config_name")
            if isinstance(folder, str) and isinstance(name, str):
                return posixpath.normpath(posixpath.join(posixpath.dirname(script), folder)), name.removesuffix(".yaml")
    return None


def _is_hydra_main(node: ast.expr) -> bool:
    base = node.value if isinstance(node, ast.Attribute) and node.attr == "main" else None
    return isinstance(base, ast.Name) and base.id == "hydra"


def _composed_files(library: Library, script: str, flags: Mapping[str, WrittenValue]) -> tuple[_Part, ...]:
    """The files in the order in which a later one counts; nothing where that is not known."""
    named = _main(library, script)
    if named is None or flags.keys() & CHOOSES or any((one.text or "").startswith("{") for one in flags.values()):
        return ()
    choices = dict(_choices(library, named[0], flags))
    listed = _Composer(library, named[0], dict(choices))
    try:
        parts = listed.parts(named[1], "", "", 0)
        # What no list has (`+experiment=fast`) stands at the end of the primary one.
        more = tuple(_Entry(group, options) for group, options in choices.items() if group not in listed.met)
        return tuple(_Composer(library, named[0], choices, more).parts(named[1], "", "", 0) if more else parts)
    except _UnknownError:
        return ()


def _choices(library: Library, folder: str, flags: Mapping[str, WrittenValue]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The groups for which the command chooses a file: those that are folders of the configs."""
    for group, given in flags.items():
        plain = group.partition("@")[0]
        if library.has_folder(posixpath.join(folder, plain)):
            text = str(given.text if given.text is not None else given.value) if given.known else ""
            is_list = text.startswith("[") and text.endswith("]")
            # `data=a,b` starts several runs.
            is_one = bool(text) and plain == group and (is_list or "," not in text)
            names = text.strip("[]").split(",") if is_list else [text]
            yield group, tuple(name.strip() for name in names if name.strip()) or ("null",) if is_one else ()


class _Composer(Struct):
    """`choices` are the files of groups that the command and the files read so far choose, `more` are entries behind
    those of the primary config, `met` the groups of defaults lists, `around` the files that are being followed."""

    library: Library
    folder: str
    choices: dict[str, tuple[str, ...]]
    more: tuple[_Entry, ...] = ()
    met: set[str] = field(default_factory=set)
    around: list[str] = field(default_factory=list)

    def parts(self, name: str, group: str, package: str, depth: int, *, is_optional: bool = False) -> list[_Part]:
        """The config `name` of a group with those of its defaults list."""
        path = posixpath.normpath(posixpath.join(self.folder, group, f"{name.removesuffix('.yaml')}.yaml"))
        found = self.library.find(path, "", ("yaml",), is_wanted=True) if path not in self.around else path
        document = self.library.document(found) if found is not None else None
        if depth > MAX_DEPTH or path in self.around:
            return []
        if found is None or document is None:
            is_hydras = group.partition("/")[0] == "hydra" or name == "hydra"
            return [] if is_optional or is_hydras else [_Part("", package)]
        package = _package(document, package)
        inner = posixpath.dirname(posixpath.join(group, name))
        entries = list(_defaults(document))
        for entry in entries:
            if entry.is_override:
                self.choices.setdefault(_absolute(entry.group, inner), entry.options)
        rest = [entry for entry in entries if not entry.is_override]
        own = _Entry("", (OWN,))
        rest += [*([own] if own not in rest else []), *(self.more if depth == 0 else ())]
        self.around.append(path)
        # From the last one on: what a later file chooses counts for those before it.
        found_parts = [self.of_entry(one, inner, package, depth, path) for one in reversed(rest)]
        self.around.pop()
        return [part for parts in reversed(found_parts) for part in parts]

    def of_entry(self, entry: _Entry, inner: str, package: str, depth: int, path: str = "") -> list[_Part]:
        """The files of one entry of a defaults list in the folder `inner`; `path` is the file that has the list."""
        if entry.options == (OWN,) and not entry.group:
            return [_Part(path, package)]
        group, options = _absolute(entry.group, inner), entry.options
        if entry.group:
            self.met.add(group)
            options = self.choices.get(group, options)
            package = _key(package, entry.group.lstrip("/").replace("/", "."))
        if not options or any("$" in one or "?" in one or "@" in one for one in (*options, entry.group)):
            raise _UnknownError
        found = []
        for option in (one for one in options if one != "null"):
            at = "" if option.startswith("/") else group if entry.group else inner
            head, _, last = option.lstrip("/").rpartition("/")
            beside = _key(package, head.replace("/", ".")) if head else package
            found += self.parts(last, posixpath.join(at, head), beside, depth + 1, is_optional=entry.is_optional)
        return found


def _absolute(group: str, inner: str) -> str:
    return group.lstrip("/") if group.startswith("/") else posixpath.normpath(posixpath.join(inner, group))


def _package(document: Document, package: str) -> str:
    """Where the keys of a file stand: as its first comments say, else where its group does."""
    said = next((found[1] for one in document.comments if (found := HEADER.match(one.text.strip()))), "_group_")
    if said == "_global_":
        return ""
    if said != "_group_":
        raise _UnknownError
    return package


def _defaults(document: Document) -> Iterator[_Entry]:
    """The entries of the defaults list, each with all options of its group."""
    found: dict[int, tuple[str, list[str]]] = {}
    for entry in document.entries:
        if entry.path[0] == "defaults" and len(entry.path) > 1:
            group = str(entry.path[2]) if len(entry.path) > 2 else ""
            value = "null" if entry.value is None else entry.value
            names = found.setdefault(int(entry.path[1]), (group, []))[1]
            names += [str(value)] if value != () else []
    for group, options in found.values():
        words = group.split()
        name = words[-1] if words else ""
        # A list that is empty chooses nothing.
        yield _Entry(name, tuple(options) or ("null",), "override" in words[:-1], "optional" in words[:-1])


def _under(call: ConsumerCall, package: str, values: Mapping[str, WrittenValue]) -> ConsumerCall:
    """The call with those of its values that count in the end; Hydra's own keys stand under their package."""
    named = {_key(package, key) if call.dialect == "hydra" else key: given for key, given in values.items()}
    return replace(call, arguments={key: replace(given, key=key) for key, given in named.items()}, is_open=True)
