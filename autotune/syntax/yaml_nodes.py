"""The tree of a YAML document, and the values in it with aliases and merges (<<) followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from autotune.model.source import Path, Scalar
from autotune.syntax.text import MAX_VALUES, Leaf, Text


class YamlNode(Struct, frozen=True):
    """A scalar, a list (`items`) or a mapping (`members`: keys and values), from `start` to `end` of the text.

    `written` is a scalar's text without quotes, escapes and folds, `value` what it means; `is_merge` says that it is
    a `<<` that merges when it is a key.
    """

    start: int
    end: int
    written: str = ""
    value: Scalar = None
    is_merge: bool = False
    items: tuple[YamlNode, ...] | None = None
    members: tuple[tuple[YamlNode, YamlNode], ...] | None = None


def leaves(root: YamlNode, text: Text) -> Iterator[Leaf]:
    """All values, in the order of the file. Raises UsageError when aliases make too many or too deep ones."""
    return BoundedWalk(text).leaves(root, (), 0)


class BoundedWalk(Struct):
    """A walk over a tree that ends after so many nodes: aliases of aliases multiply."""

    text: Text
    left: int = MAX_VALUES

    def leaves(self, node: YamlNode, path: Path, depth: int) -> Iterator[Leaf]:
        self._count(node, depth)
        parts: Iterable[tuple[str | int, YamlNode]] = enumerate(node.items or ())
        if node.members is not None:
            parts = self._members(node, depth).items()
        is_empty = True
        for key, value in parts:
            is_empty = False
            yield from self.leaves(value, (*path, key), depth + 1)
        if is_empty:
            is_scalar = node.items is None and node.members is None
            yield Leaf(path, node.value if is_scalar else (), node.start, node.end)

    def _members(self, node: YamlNode, depth: int) -> dict[str, YamlNode]:
        """A mapping's own keys and those that it merges; its own win, then the first that is merged."""
        merged: dict[str, YamlNode] = {}
        own: dict[str, YamlNode] = {}
        for key, value in node.members or ():
            if key.is_merge:
                for source in (value,) if value.items is None else value.items:
                    merged = self._merged(source, depth + 1) | merged
            else:
                own[self._name(key)] = value
        return merged | own

    def _merged(self, source: YamlNode, depth: int) -> dict[str, YamlNode]:
        self._count(source, depth)
        if source.members is None:
            raise self.text.error("only a mapping can be merged by <<", source.start)
        self.left -= len(source.members)
        return self._members(source, depth)

    def _name(self, key: YamlNode) -> str:
        if key.items is not None or key.members is not None:
            raise self.text.error("a key that is a list or a mapping (a template?)", key.start)
        return key.written

    def _count(self, node: YamlNode, depth: int) -> None:
        self.left -= 1
        self.text.bound(node.start, depth, self.left)
