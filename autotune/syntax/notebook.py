"""Reads a Jupyter notebook (nbformat 3 and 4) as one script, and puts edits of that script back into the notebook.

The code cells follow each other as in a file of Python, and each line of code stands on the line that it has in the
.ipynb file, with blank lines for everything else. Where several lines of code share one line of the file (a cell whose
source is one string, a file without line breaks), what follows moves down: `located` says where it is in the file.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.errors import UsageError
from autotune.model.evidence import Location
from autotune.model.source import Splice
from autotune.syntax import ipython
from autotune.syntax.text import Text, decode

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*+")(\s*:)?|([\[{])|([\]}])|(,)', re.DOTALL)
_STRING, _KEY, _OPENING, _CLOSING, _COMMA = 1, 2, 3, 4, 5
_RUN = re.compile(r"[^\\]+|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u....|\\.", re.DOTALL)


class CellLine(Struct, frozen=True):
    """Where a line of the script is: a line of the file, and a line of a cell (text cells count too). All from 1."""

    line: int
    cell: int
    cell_line: int


class LeftOut(Struct, frozen=True):
    """A cell whose Python is not in the script: where it is, and why."""

    at: CellLine
    why: str


class Notebook(Struct, frozen=True):
    """A notebook as a script.

    `script` is its Python and `commands` what it gives to a shell, both in UTF-8, with the same lines. `lines` are the
    places of the lines with code, by their number in the script. `starts` and `ends` are where each character of the
    script starts and ends in the `text` of the file, `firsts` the characters with which its lines start. `breaks` are
    what the file has between two lines of a cell, "" where a cell is one string, and `sources` the code cells as they
    are, magics included; both by the number of the cell.
    """

    script: bytes
    commands: bytes
    left_out: tuple[LeftOut, ...]
    lines: Mapping[int, CellLine]
    text: Text
    starts: Sequence[int]
    ends: Sequence[int]
    firsts: Sequence[int]
    breaks: Mapping[int, str]
    sources: Mapping[int, str]

    def located(self, at: Location) -> Location:
        """A place of the script as one of the file, with its cell; what stands on no line of code stays."""
        here = self.lines.get(at.line)
        if here is None:
            return at
        end = self.lines.get(at.end_line)
        index = self.firsts[at.line - 1] + at.column - 1
        return replace(
            at,
            line=here.line,
            column=self.text.column(self.starts[index]) if at.column and index < len(self.starts) else 0,
            end_line=end.line if end is not None else 0,
            cell=here.cell,
            cell_line=here.cell_line,
        )

    def script_line(self, cell: int, cell_line: int) -> int | None:
        """The line of the script that is a line of a cell; None where the script has no such line."""
        found = (line for line, at in self.lines.items() if (at.cell, at.cell_line) == (cell, cell_line))
        return next(found, None)

    def splice(self, edit: Splice) -> Splice:
        """The edit of the file that is `edit` in the script: every other byte of the file stays.

        A new line goes into the list of lines as the file writes it, and into a source of one string as an escape.
        Raises UsageError for an edit of several cells.
        """
        start, end = (len(self.script[:at].decode()) for at in (edit.span.start, edit.span.end))
        cells = {self._cell(start), self._cell(max(start, end - 1))}
        if len(cells) > 1 or cells == {None}:
            raise UsageError("the edit is not in one cell", where=self.text.where, to_do="Edit it by hand.")
        first = self.starts[start]
        last = self.ends[end - 1] if end > start else first
        written = json.dumps(edit.text, ensure_ascii=self.text.text.isascii())[1:-1]
        written = written.replace("\\n", f"\\n{self.breaks[cells.pop() or 0]}")
        return Splice(self.text.span(first, last), written)

    def _cell(self, at: int) -> int | None:
        """The cell of a character of the script."""
        here = self.lines.get(bisect_right(self.firsts, at))
        return here.cell if here is not None else None


class _Cell(Struct):
    """A code cell: `strings` are where the texts of its source stand in the file, without their quotes."""

    number: int
    is_list: bool
    strings: list[tuple[int, int]]


class _Script(Struct):
    """A script that grows by cells."""

    text: Text
    script: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=lambda: [0])
    lines: dict[int, CellLine] = field(default_factory=dict)
    breaks: dict[int, str] = field(default_factory=dict)
    sources: dict[int, str] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, cell: _Cell) -> None:
        """Add a cell below the others, each line on its own line of the file if that is still free."""
        source, starts, ends = _characters(self.text.text, cell.strings)
        if source.strip():
            code = ipython.read(source)
            self.breaks[cell.number] = _between(self.text.text, cell)
            self.sources[cell.number] = source
            if len(self.firsts) - 1 in self.lines:
                self._break(self.ends[-1])  # a blank line sets cells off, as other text does in a file with lines
            for number, line in enumerate(ipython.LINE.finditer(source), start=1):
                first, last = line.span()
                at = CellLine(self.text.line(starts[first]), cell.number, number)
                if code.left_out and number == code.line:
                    self.left_out.append(LeftOut(at, code.left_out))
                while len(self.firsts) < at.line:
                    self._break(starts[first])
                self.lines[len(self.firsts)] = at
                self.script.append(code.python[first:last])
                self.commands.append(code.shell[first:last])
                self.starts += starts[first:last]
                self.ends += ends[first:last]
                if line[0][-1] in "\r\n":
                    self.firsts.append(len(self.starts))
                else:
                    self._break(ends[last - 1])

    def _break(self, place: int) -> None:
        """End a line that has no break in the file."""
        self.script.append("\n")
        self.commands.append("\n")
        self.starts.append(place)
        self.ends.append(place)
        self.firsts.append(len(self.starts))


def read(data: bytes, where: str) -> Notebook:
    """The notebook in `data`. Raises UsageError, which says where, for what is no notebook."""
    text = decode(data, where)
    document = _document(text)
    made = _Script(text)
    for cell in _code_cells(text.text, document) if _language(document) == "python" else ():
        made.add(cell)
    return Notebook(
        "".join(made.script).encode(),
        "".join(made.commands).encode(),
        tuple(made.left_out),
        made.lines,
        text,
        made.starts,
        made.ends,
        made.firsts,
        made.breaks,
        made.sources,
    )


def code_size(data: bytes, where: str) -> int:
    """The bytes of the code cells' sources, before any is read. Raises UsageError for what is no notebook."""
    document = _document(decode(data, where))
    sources = (cell.get(_source_key(document)) for _, _, cell in _cells(document))
    lines = (one if isinstance(one, list) else [one] for one in sources)
    return sum(len(line.encode(errors="replace")) for one in lines for line in one if isinstance(line, str))


def _document(text: Text) -> dict[str, Any]:
    try:
        document = json.loads(text.text)
    except json.JSONDecodeError as error:
        raise text.error(f"not a notebook: {error.msg}", error.pos) from None
    except (RecursionError, ValueError) as error:
        raise text.error(f"not a notebook: {error}", 0) from None
    if not isinstance(document, dict) or not isinstance(document.get("cells", document.get("worksheets")), list):
        raise text.error("not a notebook: it has no cells", 0)
    return document


def _language(document: Mapping[str, Any]) -> str:
    """The language of the kernel; Python where none is named."""
    metadata = document.get("metadata")
    about = metadata if isinstance(metadata, dict) else {}
    for table, key in (("kernelspec", "language"), ("language_info", "name")):
        named = about.get(table)
        if isinstance(named, dict) and isinstance(named.get(key), str):
            return "python" if "python" in named[key].lower() else str(named[key])
    return "python"


def _code_cells(text: str, document: Mapping[str, Any]) -> Iterator[_Cell]:
    """The cells with Python in their order; before nbformat 4 they are parts of worksheets, and called otherwise."""
    key = _source_key(document)
    strings = _sources(text, ("cells", key) if "cells" in document else ("worksheets", "cells", key))
    for number, place, cell in _cells(document):
        yield _Cell(number, isinstance(cell.get(key), list), strings.get(place, []))


def _source_key(document: Mapping[str, Any]) -> str:
    return "source" if "cells" in document else "input"


def _cells(document: Mapping[str, Any]) -> Iterator[tuple[int, tuple[int, int], Mapping[str, Any]]]:
    """The cells with Python: the number of each, from 1, its worksheet (0 without any) and place, and the cell."""
    number = 0
    for at, sheet in enumerate([document] if "cells" in document else document["worksheets"]):
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for place, cell in enumerate(cells if isinstance(cells, list) else ()):
            number += 1
            if isinstance(cell, dict) and _is_python(cell):
                yield number, (at, place), cell


def _is_python(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is code of the kernel's language; an editor may have given it another one."""
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId", "python") if isinstance(editor, dict) else cell.get("language", "python")
    return cell.get("cell_type") == "code" and language == "python"


def _sources(text: str, keys: Sequence[str]) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Where the strings of each cell's source stand, by worksheet (0 without any) and cell; `keys` lead there. The last
    source counts where a cell has two."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    path: list[str | int] = []
    for token in _TOKEN.finditer(text):
        kind = token.lastindex
        if kind == _OPENING:
            path.append(0 if token[0] == "[" else "")
        elif kind == _CLOSING:
            path.pop()
        elif kind == _COMMA:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else last
        elif kind == _KEY:
            path[-1] = token[1][1:-1]
            if len(path) == 2 * len(keys) - 1 and (cell := _cell_of(path, keys)) is not None:
                found[cell] = []
        elif 0 <= len(path) + 1 - 2 * len(keys) <= 1 and (cell := _cell_of(path, keys)) is not None:
            found.setdefault(cell, []).append((token.start() + 1, token.end() - 1))
    return found


def _cell_of(path: Sequence[str | int], keys: Sequence[str]) -> tuple[int, int] | None:
    """The worksheet and the cell of a path: keys with a place in a list after each, ("cells", 3, "source")."""
    numbers = path[1 : 2 * len(keys) - 1 : 2]
    if tuple(path[: 2 * len(keys) : 2]) != tuple(keys) or not all(isinstance(one, int) for one in numbers):
        return None
    return int(numbers[-2]) if len(numbers) > 1 else 0, int(numbers[-1])


def _characters(text: str, strings: Sequence[tuple[int, int]]) -> tuple[str, list[int], list[int]]:
    """What strings of JSON say one after another, and where each character starts and ends; half of a character is a
    question mark."""
    said: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in strings:
        for run in _RUN.finditer(text, start, end):
            if run[0][0] != "\\":
                said.append(run[0])
                starts += range(run.start(), run.end())
                ends += range(run.start() + 1, run.end() + 1)
            else:
                said.append(str(json.loads(f'"{run[0]}"')).encode(errors="replace").decode())
                starts.append(run.start())
                ends.append(run.end())
    return "".join(said), starts, ends


def _between(text: str, cell: _Cell) -> str:
    """What stands between two strings of a cell's source, quotes included; "" where it is one string.

    The list of a single string has the next one below it, if the string stands on a line of its own.
    """
    if not cell.is_list:
        return ""
    if len(cell.strings) > 1:
        return text[cell.strings[0][1] : cell.strings[1][0]]
    quote = cell.strings[0][0] - 1
    indent = text[max(text.rfind("\n", 0, quote), text.rfind("\r", 0, quote)) + 1 : quote]
    newline = "\r\n" if "\r\n" in text[:quote] else "\n"
    return '", "' if indent.strip() or not quote else f'",{newline}{indent}"'
