"""Files of many styles with known values, and what every edit of one must hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from syntax_builders import flat, of, same

from autotune.model.evidence import Span
from autotune.model.source import DataValue, Document, Path, Scalar, Splice
from autotune.syntax.edit_effect import spliced

Draw = Callable[[st.SearchStrategy[Any]], Any]
Replaced = Callable[[DataValue, Scalar], Splice]
Read = Callable[[bytes], Document]

NAMES = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(lambda name: name not in ("yes", "no", "on", "off"))
ODD = ["", "no", "3e-4", "1_000", "a: b", "x #y", "'", '"', "- a", "*a", "&a", "null", "é", "~", "a\nb", "1:30", "!x"]
TEXTS = st.sampled_from(ODD) | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=6)
NUMBERS = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS: st.SearchStrategy[Any] = st.booleans() | NUMBERS | TEXTS
MAPPINGS: st.SearchStrategy[Any] = st.recursive(
    st.dictionaries(NAMES, SCALARS, max_size=3),
    lambda inner: st.dictionaries(NAMES, SCALARS | inner | st.lists(SCALARS | inner, max_size=3), max_size=4),
    max_leaves=8,
)


def changed(data: bytes, splice: Splice) -> bytes:
    """The file after the edit, once its inverse gave the file back."""
    new = spliced(data, splice)
    end = splice.span.start + len(splice.text.encode())
    old = data[splice.span.start : splice.span.end].decode()
    assert spliced(new, Splice(Span(splice.span.start, end), old)) == data
    return new


def check_changes(data: bytes, read: Read, replaced: Replaced, value: Scalar) -> None:
    """Each value of a file can be changed: nothing else changes, and once more is no change."""
    for one in (each for each in read(data).entries if each.path):
        new = changed(data, replaced(one, value))
        assert same(of(read(new)), {**of(read(data)), one.path: value}), (data, new)
        again = next(other for other in read(new).entries if other.path == one.path)
        assert replaced(again, value) == Splice(again.span, again.text)


def with_value(tree: Any, path: Path, value: Scalar) -> Any:
    """A copy of the tree with `value` at `path`, which is made where it is not there."""
    if not path:
        return value
    if isinstance(tree, list):
        return [with_value(one, path[1:], value) if index == path[0] else one for index, one in enumerate(tree)]
    return {**tree, path[0]: with_value(tree.get(path[0], {}), path[1:], value)}


def parents(tree: Any, path: Path = ()) -> list[Path]:
    """Where every mapping of the tree stands."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    own = [path] if isinstance(tree, dict) else []
    return [*own, *(found for part, inner in parts for found in parents(inner, (*path, part)))]


def check_added(before: Any, after: Any, path: Path, value: Scalar) -> None:
    """What a library reads is the tree with one value more."""
    assert same(flat(after), flat(with_value(before, path, value)))


@st.composite
def json_files(draw: Draw) -> bytes:
    """With indentation or on one line, compact, with comments, with commas at the end, of both line breaks."""
    tree, indent = draw(MAPPINGS), draw(st.sampled_from([None, 2, 4, "\t"]))
    separators = (
        draw(st.sampled_from([(",", ": "), (",", ":")])) if indent else draw(st.sampled_from([None, (",", ":")]))
    )
    text = json.dumps(tree, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    if indent and draw(st.booleans()):
        text = text.replace("\n", draw(st.sampled_from([" // c, {\n", " # ]\n", " /* } */\n"])))
    return ended(text, draw)


@st.composite
def yaml_files(draw: Draw) -> bytes:
    """Block and flow mappings and lists, comments, empty lines, documents that start and end, of both line breaks."""
    step, comment = draw(st.integers(1, 4)), draw(st.sampled_from(["", "  # c: {d", "\n\n# own line"]))
    tree = draw(MAPPINGS)
    text = "\n".join(_yaml_lines(tree, "", step, comment, draw)) if tree else draw(st.sampled_from(["{}", "", "# no"]))
    return ended(draw(st.sampled_from(["", "---\n", "# head\n\n"])) + text, draw)


def _yaml_lines(tree: Any, indent: str, step: int, comment: str, draw: Draw) -> list[str]:
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict) and value and draw(st.booleans()):
            lines += [f"{indent}{key}:{comment}", *_yaml_lines(value, indent + " " * step, step, comment, draw)]
        elif isinstance(value, list) and value and draw(st.booleans()):
            lines += [f"{indent}{key}:", *(f"{indent}- {_yaml_flow(one)}{comment}" for one in value)]
        else:
            lines.append(f"{indent}{key}: {_yaml_flow(value)}{comment}")
    return lines


def _yaml_flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_yaml_flow(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml_flow, value))}]"
    if isinstance(value, float):
        mantissa, sign, exponent = repr(value).partition("e")
        return mantissa if not sign else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in quoted)


@st.composite
def toml_files(draw: Draw) -> bytes:
    """Tables, tables of tables, dotted keys, inline tables, arrays of tables and comments, of both line breaks."""
    return ended("\n".join(_toml_lines(draw(MAPPINGS), (), draw(st.sampled_from(["", " # c = 1"])), draw)), draw)


def _toml_lines(tree: Any, path: tuple[str, ...], comment: str, draw: Draw) -> list[str]:
    lines, tables = [], []
    for key, value in tree.items():
        if isinstance(value, dict) and draw(st.booleans()):
            tables += [f"[{'.'.join((*path, key))}]{comment}", *_toml_lines(value, (*path, key), comment, draw), ""]
        elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            for one in value:
                tables += [f"[[{'.'.join((*path, key))}]]", *(f"{name} = {_toml(each)}" for name, each in one.items())]
        elif isinstance(value, dict) and value and draw(st.booleans()):
            lines += [f"{key}.{name} = {_toml(one)}{comment}" for name, one in value.items()]
        else:
            lines.append(f"{key} = {_toml(value)}{comment}")
    return lines + tables


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def ended(text: str, draw: Draw) -> bytes:
    """With or without a byte order mark and a line break at the end, of one kind of line break."""
    text = draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", "\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()
