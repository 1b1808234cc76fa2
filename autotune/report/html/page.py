"""A note as one HTML file. Every text is escaped by jinja2; shapes and classes are ours."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from autotune import requirements
from autotune.outlet import clean, escape_marks, plain
from autotune.report.note.blocks import Code, Inline, Note, Text

if TYPE_CHECKING:
    from markupsafe import Markup

_HERE = Path(__file__).parent


def write(note: Note) -> str:
    """The whole file. Raises UsageError where jinja2 is not installed."""
    if find_spec("jinja2") is None:
        requirements.check_packages(("jinja2",))
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {
        "shown": clean,
        "words": _words,
        "lines": _lines,
        "number": _number,
        "diff_class": _diff_class,
    }
    template = environment.get_template("page.html.jinja")
    style = _style()
    return plain(template.render(note=note, style=style, parts=_parts, is_code=lambda part: isinstance(part, Code)))


def _style() -> Markup:
    from markupsafe import Markup

    return Markup((_HERE / "page.css").read_text(encoding="utf-8"))


def _parts(text: Text) -> Iterable[Inline]:
    return text if isinstance(text, tuple) else (text,)


def _words(text: str) -> str:
    """Blanks at the ends, which separate it from what is beside it, stay."""
    inner = clean(text)
    if not inner:
        return " " if text else ""
    return f"{' ' if text[0] == ' ' else ''}{inner}{' ' if text[-1] == ' ' else ''}"


def _lines(text: str) -> list[str]:
    return [escape_marks(line) for line in text.split("\n") if line] if text else []


def _number(value: float) -> str:
    """Two places are less than a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _diff_class(line: str) -> Markup:
    from markupsafe import Markup

    kinds = {"+": "plus", "-": "minus", "@": "hunk"}
    kind = kinds.get(line[:1], "")
    return Markup(f' class="{kind}"' if kind else "")
