"""Reads the code of a notebook's cell as IPython does: Python, with magics, shell lines and help in between.

Both what a cell says in Python and what it gives to a shell are texts of the cell's length with its line breaks: what
belongs to the other one is blank. A magic in the middle of Python is the name `_`, so that the block around it has a
statement. Nothing is run.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from msgspec import Struct

PYTHON_CELLS = frozenset({"capture", "memit", "prun", "time", "timeit"})
"""Cell magics that run the cell's Python in the notebook itself."""

SHELL_CELLS = frozenset({"bash", "sh", "shell", "sx", "system"})
"""Cell magics whose cell a shell runs."""

PLACEHOLDER = "_"

_CELL_MAGIC = re.compile(r"\s*%%(!|\w+)([^\r\n]*)")
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
"""A line of a cell, with its break."""

_NO_BREAK = re.compile(r"[^\r\n]")
_MAGIC = re.compile(
    r"""(?P<indent>[ \t]*)(?:
        (?P<shell>!{1,2})
      | %(?P<name>\w*)
      | (?P<help>\?{1,2}\S* | [\w.*%!]+\?{1,2}[ \t]*$)
      | (?P<automatic>(?:pip3?|conda|mamba|cd|ls|pwd|mkdir|rm|cp|mv|cat)(?:[ \t]+[^=\s(.\[].*)?$)
      | (?P<target>[A-Za-z_][\w.,*\[\]'" \t]*=[ \t]*)(?:(?P<given_shell>!)|%)(?=\w)
    )""",
    re.VERBOSE,
)
_TIMED = re.compile(r"([ \t]*)%time[ \t]+(?!(?:for|while|with|if|def|class|try|async|@)\b)(?=[^-\s])")
_TOKEN = re.compile(
    r"""(?P<long>'{3}|"{3}) | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | \#.* | (?P<open>[(\[{]) | (?P<close>[)\]}])""",
    re.VERBOSE,
)
_FILLED_IN = re.compile(r"(?<![${])\{[^{}\r\n]+\}(?!\})")
"""What IPython puts into a shell line: {expression}."""


class CellCode(Struct, frozen=True):
    """The two texts of a cell. `left_out` says why its Python is blank although it has some, `line` (from 1) where."""

    python: str
    shell: str
    left_out: str = ""
    line: int = 1


def read(text: str) -> CellCode:
    """The Python and the shell commands of a cell; blank for what another program runs or stores."""
    magic, end = _CELL_MAGIC.match(text), 0
    while magic is not None and magic[1] in PYTHON_CELLS:  # one may stand on another
        end = magic.end()
        magic = _CELL_MAGIC.match(text, end)
    inner = _read_body(text[end:], magic)
    if not end:
        return inner
    head = _blank(text[:end])
    above = len(LINE.findall(f"{head}.")) - 1
    return CellCode(head + inner.python, head + inner.shell, inner.left_out, inner.line + above)


def _read_body(text: str, magic: re.Match[str] | None) -> CellCode:
    """The same for a cell without magics that run its Python; `magic` is the cell magic that is left at its head."""
    if magic is not None:
        name, rest = magic[1], magic[2].split()
        size = magic.end() - magic.start()
        head, body = _blank(text[:size]), text[size:]
        if name in SHELL_CELLS or name == "!" or (name == "script" and rest[:1] in (["bash"], ["sh"])):
            return CellCode(_blank(text), head + body)
        why = f"%%writefile stores it as {rest[-1]}: check that file" if _is_stored_python(name, rest) else ""
        return CellCode(_blank(text), _blank(text), why)
    if _mistake(text) is None:
        return CellCode(text, _blank(text))
    python, shell = _without_magics(text)
    mistake = _mistake(python)
    if mistake is None:
        return CellCode(python, shell)
    return CellCode(_blank(text), shell, f"invalid Python: {mistake[0]}", mistake[1])


def _is_stored_python(name: str, rest: list[str]) -> bool:
    return name in ("writefile", "file") and bool(rest) and rest[-1].endswith(".py")


def _mistake(text: str) -> tuple[str, int] | None:
    """What Python says against a text, and the line of it; None where it parses."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the cell's own, such as an escape that Python does not know
            ast.parse(text)
    except SyntaxError as error:
        return error.msg, error.lineno or 1
    except (RecursionError, MemoryError, ValueError) as error:
        return str(error) or "too deeply nested", 1
    return None


def _blank(text: str) -> str:
    return _NO_BREAK.sub(" ", text)


def _without_magics(text: str) -> tuple[str, str]:
    """The Python of a cell with a placeholder for each magic, and the lines that a shell gets."""
    python, shell = list[str](), list[str]()
    is_open, commands = False, ""
    lines = _Lines()
    for line in LINE.findall(text):
        is_start = lines.is_start
        if is_open:  # what stands behind a \ belongs to the magic above
            python.append(_blank(line))
            shell.append(line if commands else _blank(line))
        elif is_start and (magic := _MAGIC.match(line.rstrip("\r\n"))) is not None:
            own, commands = _split(line, magic)
            python.append(own)
            shell.append(commands or _blank(line))
        else:
            lines.add(line)
            python.append(line)
            shell.append(_blank(line))
            continue
        is_open = line.rstrip("\r\n").endswith("\\")
    return "".join(python), _FILLED_IN.sub(lambda found: "$" + "_" * (len(found[0]) - 1), "".join(shell))


def _split(line: str, magic: re.Match[str]) -> tuple[str, str]:
    """A line with a magic as Python, and as a shell gets it, "" where no shell does."""
    if (timed := _TIMED.match(line)) is not None:
        statement = f"{timed[1]}{PLACEHOLDER};".ljust(timed.end())
        return statement + line[timed.end() :], ""
    before = magic["indent"] + (magic["target"] or "")
    python = before + PLACEHOLDER + _blank(line[len(before) + 1 :])
    mark = magic["shell"] or magic["given_shell"]
    command = line[magic.end("shell" if magic["shell"] else "given_shell") :] if mark else ""
    if magic["name"] == "cd":
        command = line[magic.start("name") :]
    elif re.match(r"[ \t]*cd\b[^&;|]*$", command):
        return python, ""  # of a shell of its own: the next line is where it was
    return python, command.rjust(len(line)) if command.strip() else ""


class _Lines:
    """Passes over the lines of a Python text; `is_start` says whether the next one begins a statement."""

    def __init__(self) -> None:
        self.depth, self.quote, self.is_joined = 0, "", False

    @property
    def is_start(self) -> bool:
        return not (self.depth or self.quote or self.is_joined)

    def add(self, line: str) -> None:
        line = line.rstrip("\r\n")
        for token in self._tokens(line):
            self.quote = token["long"] or ""
            self.depth = max(0, self.depth + (token["open"] is not None) - (token["close"] is not None))
        self.is_joined = not self.quote and line.endswith("\\")

    def _tokens(self, line: str) -> Iterator[re.Match[str]]:
        """The tokens of a line outside of long strings; a long string that stays open is the last one."""
        at = 0
        while True:
            if self.quote:
                end = line.find(self.quote, at)
                if end < 0:
                    return
                at, self.quote = end + len(self.quote), ""
            token = _TOKEN.search(line, at)
            if token is None:
                return
            at = token.end()
            yield token
