"""What a script of Hydra's puts together: the config that @hydra.main names, and one file of each group.

https://hydra.cc/docs/advanced/defaults_list: "- data: mnist" of a defaults list is data/mnist.yaml, whose keys stand
under `data`; a command says `data=cifar` for another file, and `data.num_workers=4` for another value.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from autotune.model.scanned import Call, Given
from autotune.model.source import Document
from autotune.scan.configs import givens, read_config
from autotune.scan.library import Library

MAX_DEPTH = 5
"""Defaults lists that are followed one after another."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A config file, and the key that its own keys stand under ("" at the top)."""

    file: str
    package: str


def hydra_calls(library: Library, script: str, flags: Mapping[str, Given]) -> list[Call]:
    """The configs of a script that `flags` start, as Calls; what the command says instead is left out of them."""
    named = _main(library, script)
    if named is None:
        return []
    folder, primary = named
    calls = []
    for part in dict.fromkeys(_parts(library, folder, _Part(primary, ""), flags, MAX_DEPTH)):
        document = library.document(part.file)
        call = read_config(document, part.file, "yaml") if document is not None else None
        if call is not None:
            calls.append(_under(call, part.package, flags))
    return calls


def hydra_values(library: Library, script: str, flags: Mapping[str, Given]) -> dict[str, Given]:
    """What Hydra puts together for a script, by dotted key: a group's file over the primary one, unless that says
    `_self_` behind it."""
    named = _main(library, script)
    if named is None:
        return {}
    folder, primary = named
    parts = list(dict.fromkeys(_parts(library, folder, _Part(primary, ""), flags, MAX_DEPTH)))
    found: dict[str, Given] = {}
    for part in (*parts[1:], *parts[:1]) if _is_own_last(library, parts[:1]) else parts:
        document = library.document(part.file)
        given = library.attempt(part.file, partial(givens, document, part.file)) if document is not None else None
        found |= {f"{part.package}.{key}".lstrip("."): one for key, one in (given or {}).items()}
    return found


def _is_own_last(library: Library, primary: Sequence[_Part]) -> bool:
    """Whether the values of the primary config win: `_self_` stands at the end of its defaults list."""
    document = library.document(primary[0].file) if primary else None
    stated = [entry.value for entry in document.entries if entry.path[0] == "defaults"] if document is not None else []
    return bool(stated) and stated[-1] == "_self_"


def _main(library: Library, script: str) -> tuple[str, str] | None:
    """The folder of configs and the primary one, as the decorator of the script names them."""
    source = library.python(script)
    for node in ast.walk(source.tree) if source is not None else ():
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            said = {one.arg: one.value.value for one in node.keywords if isinstance(one.value, ast.Constant)}
            folder, name = said.get("config_path"), said.get("config_name")
            if isinstance(folder, str) and isinstance(name, str):
                at = posixpath.normpath(posixpath.join(posixpath.dirname(script), folder))
                return at, f"{at}/{name.removesuffix('.yaml')}.yaml"
    return None


def _parts(library: Library, folder: str, part: _Part, flags: Mapping[str, Given], depth: int) -> Iterator[_Part]:
    """The file and those of its defaults list; a file that says nothing about training is none."""
    found = library.find(part.file, "", ("yaml",), is_wanted=True)
    document = library.document(found) if found is not None else None
    if document is None or depth == 0:
        return
    yield part
    for group, option in _defaults(document):
        inner = "/".join(filter(None, (part.package.replace(".", "/"), group)))
        chosen = flags.get(inner)
        name = str(chosen.value) if chosen is not None and isinstance(chosen.value, str) else option
        file = posixpath.join(folder, inner, f"{name.removesuffix('.yaml')}.yaml")
        yield from _parts(library, folder, _Part(file, inner.replace("/", ".")), flags, depth - 1)


def _defaults(document: Document) -> Iterator[tuple[str, str]]:
    """The groups and files of the defaults list; "" for a file of the same folder."""
    for entry in document.entries:
        if entry.path[0] == "defaults" and isinstance(entry.value, str) and entry.value != "_self_":
            group = str(entry.path[-1]) if len(entry.path) > 2 else ""
            yield group.removeprefix("override ").removeprefix("optional ").lstrip("/"), entry.value


def _under(call: Call, package: str, flags: Mapping[str, Given]) -> Call:
    """The call without what the command says instead; Hydra's own keys stand under their package."""
    kept = {key: given for key, given in call.arguments.items() if f"{package}.{key}".lstrip(".") not in flags}
    if call.dialect == "hydra" and package:
        kept = {f"{package}.{key}": replace(given, key=f"{package}.{key}") for key, given in kept.items()}
    return replace(call, arguments=kept, is_open=True)
