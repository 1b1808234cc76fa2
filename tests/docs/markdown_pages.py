"""The Markdown of the repository: its blocks of code, its commands, its links and what these can lead to."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
COMMAND_LINES = "sh"
"""Of a block that is indented, or fenced as `sh`: every line of it is for a shell."""

SESSION = "console"
"""Commands behind `$ `, and what they print."""

NO_COMMANDS = ("csv", "diff", "dockerfile", "ini", "json", "markdown", "python", "text", "toml", "{toctree}")
_SEPARATORS = (";", "&&", "||", "|", "&")
_REDIRECTIONS = (">", ">>", "<")
_LOOP = ("do", "done", "then", "fi")
_RUN_BY_YAML = re.compile(r"^\s*(?:- )?(?:run: )?((?:autotune|pip) .+)$", re.MULTILINE)
"""A step of a CI: `- autotune check`, `run: autotune check`."""


@dataclass(frozen=True)
class Block:
    """A block of code: its page, the line where it begins, its language and its text."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def shell_lines(self) -> Iterator[str]:
        """The lines of it that are for a shell; a backslash at the end joins two."""
        text = self.text.replace("\\\n", " ")
        if self.language == COMMAND_LINES:
            yield from text.splitlines()
        elif self.language == SESSION:
            yield from (line[2:] for line in text.splitlines() if line.startswith("$ "))
        elif self.language == "yaml":
            yield from _RUN_BY_YAML.findall(text)

    def commands(self) -> Iterator[tuple[str, ...]]:
        """The words of each simple command, without redirections and variables in front of it."""
        for line in self.shell_lines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            yield from _simple_commands(list(lexer))


def _simple_commands(words: list[str]) -> Iterator[tuple[str, ...]]:
    command: list[str] = []
    rest = iter([*words, ";"])
    for word in rest:
        if word in _REDIRECTIONS:
            next(rest)  # the name of its file
        elif word not in _SEPARATORS:
            command.append(word)
        else:
            while command and (command[0] in _LOOP or re.match(r"\w+=", command[0])):
                del command[0]
            if command and command[0] != "for":
                yield tuple(command)
            command = []


def pages() -> list[str]:
    """Every Markdown page that people read; fixtures and golden files that only have its form are none."""
    folders = ("*.md", "docs/**/*.md", "skills/**/*.md", "fixtures/**/*.md", "benchmarks/**/*.md", ".github/**/*.md")
    return sorted({str(file.relative_to(ROOT)) for folder in folders for file in ROOT.glob(folder)})


@cache
def tokens(page: str) -> tuple[Token, ...]:
    """The page, parsed as GitHub does."""
    return tuple(MarkdownIt("gfm-like", {"linkify": False}).parse((ROOT / page).read_text(encoding="utf-8")))


def blocks(page: str) -> list[Block]:
    """Its blocks of code; an indented one has no name for its language, and is for a shell."""
    found = [token for token in tokens(page) if token.type in ("fence", "code_block")]
    return [
        Block(
            page,
            token.map[0] + 1 if token.map else 0,
            token.info.strip().split(" ")[0] if token.type == "fence" else COMMAND_LINES,
            token.content,
        )
        for token in found
    ]


def code_spans(page: str) -> Iterator[str]:
    """What stands in backticks within its sentences."""
    for token in tokens(page):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def links(page: str) -> Iterator[str]:
    """The targets of its links and pictures."""
    for token in tokens(page):
        for child in token.children or ():
            target = child.attrGet("href" if child.type == "link_open" else "src")
            if target is not None:
                yield str(target)


@cache
def anchors(page: str) -> frozenset[str]:
    """The anchors of its headings, as GitHub makes them."""
    seen: dict[str, int] = {}
    made = set()
    found = tokens(page)
    for index, token in enumerate(found):
        if token.type == "heading_open":
            base = anchor("".join(child.content for child in found[index + 1].children or ()))
            count = seen.get(base, 0)
            seen[base] = count + 1
            made.add(f"{base}-{count}" if count else base)
    return frozenset(made)


def anchor(heading: str) -> str:
    """Lower case, without punctuation, blanks as hyphens."""
    return re.sub(r"[^\w\- ]", "", html.unescape(heading).strip().lower()).replace(" ", "-")
