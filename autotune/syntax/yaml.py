"""Reads YAML: the first document of a file. The only door to ruamel.yaml, of which only the parser is used.

Nothing is constructed: a tag such as !!python/object never does anything. Where a key is given twice, the last one
counts, as for PyYAML. Where a value stands that an alias repeats:
- `key: *alias` of a scalar or of something empty stands at the alias, which can be replaced by itself;
- what is inside an aliased or merged (<<) mapping or list stands where it is written: two entries share that place.
A value that is missing (`key:`) is None; its span is empty and right behind the colon.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.source import Comment, Document
from autotune.syntax.text import MAX_VALUES, Text, decode, document
from autotune.syntax.yaml_nodes import YamlNode, leaves
from autotune.syntax.yaml_types import plain, tagged

_PROPERTIES = re.compile(r"(?:[&!]\S*+(?:\s|#[^\r\n]*+)*+)*+")
_COLON = re.compile(r"(?:\s|#[^\r\n]*+)*+:")
_COMMENT = re.compile(r"(?:^|(?<=[ \t\r\n]))#[^\r\n]*")


def read(data: bytes, where: str, *, version: str = "1.1") -> Document:
    """The values of a YAML file, typed as `version` says ("1.1": PyYAML, "1.2": ruamel.yaml). Raises UsageError."""
    composer = Composer(decode(data, where), version)
    root = composer.document()
    return document(composer.text, leaves(root, composer.text) if root else (), composer.comments())


class Composer(Struct):
    """Makes nodes of the parser's events.

    `place` is where the last event ended, `left` how many nodes may still come (keys and values), `scalars` where all
    scalars and aliases stand.
    """

    text: Text
    version: str
    place: int = 0
    left: int = 2 * MAX_VALUES
    anchors: dict[str, YamlNode] = field(default_factory=dict)
    scalars: list[tuple[int, int]] = field(default_factory=list)

    def document(self) -> YamlNode | None:
        """The first document; None when the file has none."""
        self.place = len(self.text.text)
        events = _events(self.text)
        if _kind(next(events)) == "StreamEnd":
            return None
        root = self._node(next(events), events, 0)
        self.place = next(events).start_mark.index
        next(events)  # the parser complains of what follows and starts no document
        return root

    def comments(self) -> list[Comment]:
        """The comments of the document: what looks like one and stands in no scalar."""
        found = _COMMENT.finditer(self.text.text, 0, self.place)
        return [self.text.comment(match.start(), match[0]) for match in found if not self._is_in_scalar(match.start())]

    def _is_in_scalar(self, place: int) -> bool:
        before = bisect_right(self.scalars, (place, len(self.text.text))) - 1
        return before >= 0 and place < self.scalars[before][1]

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> YamlNode:
        """The node that starts with `event`; takes all `events` of it."""
        kind, start, self.place = _kind(event), event.start_mark.index, event.end_mark.index
        self.left -= 1
        self.text.bound(start, depth, self.left)
        if kind == "Alias":
            return self._repeated(event.anchor, start)
        if event.anchor is not None or event.ctag is not None:
            start = _PROPERTIES.match(self.text.text, start, self.place).end()  # type: ignore[union-attr]
        node = self._scalar(event, start) if kind == "Scalar" else self._collection(kind, events, start, depth)
        if event.anchor is not None:
            self.anchors[event.anchor] = node
        return node

    def _repeated(self, anchor: str, start: int) -> YamlNode:
        if anchor not in self.anchors:
            raise self.text.error(f"the alias *{anchor} without an anchor before it", start)
        self.scalars.append((start, self.place))
        return replace(self.anchors[anchor], start=start, end=self.place)

    def _scalar(self, event: Any, start: int) -> YamlNode:
        end = start + len(self.text.text[start : self.place].rstrip())
        if start == end:
            start = end = self._behind_colon(start)
        self.scalars.append((start, end))
        written, tag = event.value, event.tag
        if not _is_text(written):
            raise self.text.error("an escape that is half of a character", start)
        if tag in (None, "!"):
            value = plain(written, self.version) if event.implicit[0] else written
        else:
            value = tagged(written, tag, self.version)
        return YamlNode(start, end, written, value, is_merge=written == "<<" and event.style is None)

    def _behind_colon(self, start: int) -> int:
        """Where a missing value stands: behind the colon of its key, of which the parser's event does not know."""
        colon = _COLON.match(self.text.text, self.scalars[-1][1]) if self.scalars else None
        return colon.end() if colon else start

    def _collection(self, kind: str, events: Iterator[Any], start: int, depth: int) -> YamlNode:
        parts: list[YamlNode] = []
        for event in events:
            if _kind(event) in ("SequenceEnd", "MappingEnd"):
                self.place = event.end_mark.index
                break
            parts.append(self._node(event, events, depth + 1))
        if kind == "SequenceStart":
            return YamlNode(start, self.place, items=tuple(parts))
        return YamlNode(start, self.place, members=tuple(zip(parts[::2], parts[1::2], strict=True)))


def _kind(event: Any) -> str:
    return type(event).__name__.removesuffix("Event")


def _events(text: Text) -> Iterator[Any]:
    """The parser's events from the first document on."""
    from ruamel.yaml import YAML

    try:
        events = YAML(typ="safe", pure=True).parse(text.text)
        next(events)
        yield from events
    except Exception as error:  # its parser fails with its own errors, and on some files with errors of Python
        raise _broken(text, error) from None


def _broken(text: Text, error: Exception) -> UsageError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = mark.index if mark else getattr(error, "position", 0)
    said = (getattr(error, name, None) for name in ("problem", "reason", "context"))
    what = next(filter(None, said), "invalid YAML")
    return text.error(what, place, "Indent with spaces." if text.text[place : place + 1] == "\t" else "")


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
