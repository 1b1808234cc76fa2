"""The edits that splice_corpus tries on a file, and what its consumers should read after each.

Nothing of a file is run, except for a shell script when bash is asked for: its programs only print their arguments.
"""

from __future__ import annotations

import ast
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from splice_consumers import FORMATS, Format, put, trees

from autotune.catalogue.dialects import readings
from autotune.catalogue.vocabulary import kinds
from autotune.errors import UsageError
from autotune.model import source as records
from autotune.model.evidence import Span
from autotune.model.scanned import ConsumerCall
from autotune.model.source import Document, Scalar, ShellWord, Splice
from autotune.scan.configs import read_config
from autotune.scan.constants import read_constants
from autotune.scan.launch import Launch, dialect_of, launches
from autotune.scan.read_script import read_script
from autotune.syntax import edit_python, edit_shell, python, shell

EXAMPLES: Mapping[str, tuple[Scalar, ...]] = {
    "bool": (True, False),
    "int": (48, 3),
    "float": (3e-4, 0.25),
    "text": ("bf16-mixed", "no"),
}
"""Values to write; the first that the file does not have."""

PROGRAMS = ("python", "python3", "torchrun", "accelerate", "deepspeed")
PRINT = '#!/bin/sh\nprintf "%s\\n" "${0##*/}" "$@"\n'

Edit = Callable[[bytes, Splice | None], Splice]
"""Makes an edit of some bytes; the second argument is the splice that made them, when the edit is made once more."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One edit to try, and whether (old bytes, new bytes, splice) is what the consumers should read."""

    name: str
    is_added: bool
    edit: Edit
    is_right: Callable[[bytes, bytes, Splice], bool]


def another(old: object) -> Scalar:
    """A value of the type of `old` that is not `old`."""
    kind = {bool: "bool", int: "int", float: "float"}.get(type(old), "text")
    return next(value for value in EXAMPLES[kind] if value != old)


def wanted(dialect: str, name: str = "") -> Mapping[str, Scalar]:
    """A value for every key of the dialect's settings, or of those that the call `name` takes."""
    rows = [row for row in readings(dialect, {}) if "*" not in row.keys[0] and kinds()[row.setting] in EXAMPLES]
    own = [row for row in rows if ((row.call == name or row.is_main) if name else row.is_config)]
    return {row.keys[0]: EXAMPLES[kinds()[row.setting]][0] for row in own}


Tried = tuple[str, Iterator[Attempt]]
"""The dialect of a file ("" for none), and the edits to try on it."""


def attempts(path: Path, data: bytes, bash: bool) -> Tried:
    """The edits of a file of any syntax."""
    if path.suffix in FORMATS:
        return of_data(data, path.name, FORMATS[path.suffix])
    return of_shell(data, path.name, bash) if path.suffix == ".sh" else of_python(data, path.name)


def of_data(data: bytes, name: str, form: Format) -> Tried:
    document = form.read(data, name)
    call = read_config(document, name, form.name)
    return (call.dialect, in_data(document, form, call.dialect)) if call else ("", in_data(document, form, ""))


def in_data(document: Document, form: Format, dialect: str) -> Iterator[Attempt]:
    """Every value of a data file (of a list its first), and every setting that it could have."""
    entries = {entry.key: entry for entry in document.entries}
    for entry in entries.values():
        if not isinstance(entry.value, tuple) and not any(isinstance(part, int) and part for part in entry.path):
            yield value_of(form, entry.path, another(entry.value))
    for key, value in wanted(dialect).items() if dialect else ():
        if key not in entries:
            yield value_of(form, tuple(key.split(".")), value, is_added=True)


def value_of(form: Format, path: records.Path, value: Scalar, *, is_added: bool = False) -> Attempt:
    def edit(data: bytes, before: Splice | None) -> Splice:
        if is_added and before is None:
            return form.editor.inserted(data, "", path[:-1], str(path[-1]), value)
        return form.editor.replaced(next(one for one in form.read(data, "").entries if one.path == path), value)

    def is_right(old: bytes, new: bytes, splice: Splice) -> bool:
        loaded = [(load, tree) for load in form.loaders for tree in trees(load, old)]
        return bool(loaded) and all(repr(put(tree, path, value)) == repr(load(new)) for load, tree in loaded)

    return Attempt(".".join(map(str, path)), is_added, edit, is_right)


def of_python(data: bytes, name: str) -> Tried:
    source = python.read(data, name)
    constants = read_constants(source, name)
    calls = [*read_script(source, name).calls, *((constants,) if constants else ())]
    return " ".join(sorted({call.dialect for call in calls})), in_python(calls)


def in_python(calls: Sequence[ConsumerCall]) -> Iterator[Attempt]:
    """Every known argument and constant where it stands, and every keyword that could be added."""
    spans: set[Span] = set()
    for call in calls:
        for given in call.arguments.values():
            span = given.location.span
            if given.known and span is not None and span not in spans:
                spans.add(span)
                yield literal(f"{call.name}.{given.key}", span, another(given.value))
        for key, value in wanted(call.dialect, call.name).items() if call.name else ():
            if key not in call.arguments:
                yield keyword(call, key, value)


def literal(name: str, span: Span, value: Scalar) -> Attempt:
    def edit(data: bytes, before: Splice | None) -> Splice:
        own = Span(span.start, span.start + len(before.text)) if before else span
        return edit_python.replaced(data[own.start : own.end].decode(), own, value)

    def is_right(old: bytes, new: bytes, splice: Splice) -> bool:
        (before, _), (after, read) = marked(old, span), marked(new, Span(span.start, span.start + len(splice.text)))
        return before == after and repr(ast.literal_eval(read)) == repr(value)

    return Attempt(name, False, edit, is_right)


def marked(data: bytes, span: Span) -> tuple[str, str]:
    """The tree with a mark instead of the expression at `span`, and what that expression is."""
    source = python.read(data, "")
    for outer in ast.walk(source.tree):
        for name, value in ast.iter_fields(outer):
            items = value if isinstance(value, list) else [value]
            for at, node in enumerate(items):
                if isinstance(node, ast.expr) and source.span(node) == span:
                    text, items[at] = ast.unparse(node), ast.Name("marked")
                    setattr(outer, name, items if isinstance(value, list) else items[0])
                    return ast.dump(source.tree), text
    return "", ""


def keyword(call: ConsumerCall, key: str, value: Scalar) -> Attempt:
    def edit(data: bytes, before: Splice | None) -> Splice:
        source = python.read(data, call.location.file)
        node = edit_python.call_at(source, call.location.line, call.location.call)
        if node is None:
            raise UsageError("no one call at this line")
        return edit_python.keyword(source, node, key, value)

    def is_right(old: bytes, new: bytes, splice: Splice) -> bool:
        before, after = (Counter(ast.dump(node) for node in parts(one)) for one in (old, new))
        head, *below = key.split(".")
        node: ast.expr = ast.Constant(value)
        for part in reversed(below):
            node = ast.Dict([ast.Constant(part)], [node])
        return list((after - before).elements())[-1:] == [ast.dump(ast.keyword(head, node))]

    return Attempt(f"{call.name}.{key}", True, edit, is_right)


def parts(data: bytes) -> list[ast.AST]:
    """The keywords of the calls of a script."""
    return [node for node in ast.walk(ast.parse(data)) if isinstance(node, ast.keyword)]


def of_shell(data: bytes, name: str, bash: bool) -> Tried:
    started = launches(shell.read(data, name), name)
    return " ".join(sorted({dialect_of(launch) or "" for launch in started})), in_shell(started, bash)


def in_shell(started: Sequence[Launch], bash: bool) -> Iterator[Attempt]:
    """Every flag of the commands that start a training, and every flag that they could get."""
    for launch in started:
        for given in (*launch.flags.values(), *launch.own.values()):
            if given.known and not given.key.startswith("--no_"):
                yield word(given.location.span, given.key, another(given.value), bash)
        for key, value in wanted(dialect_of(launch) or "").items():
            if key not in launch.flags:
                yield flag(launch.line, f"--{key}", value, bash)


def word(span: Span | None, name: str, value: Scalar, bash: bool) -> Attempt:
    def edit(data: bytes, before: Splice | None) -> Splice:
        found = next(one for one in words(data) if one.span.start == (span or one.span).start)
        return edit_shell.replaced(found, value)

    def is_right(old: bytes, new: bytes, splice: Splice) -> bool:
        return new.splitlines() != old.splitlines() and all(
            sum((Counter(runs(one)) - Counter(runs(other))).values()) == 1 for one, other in ((old, new), (new, old))
        )

    runs = started if bash else texts
    return Attempt(name, False, edit, is_right)


def flag(line: int, name: str, value: Scalar, bash: bool) -> Attempt:
    def edit(data: bytes, before: Splice | None) -> Splice:
        command = next(one for one in shell.read(data, "").commands if one.line == line)
        return edit_shell.flag(data, command, name, value)

    def is_right(old: bytes, new: bytes, splice: Splice) -> bool:
        before, after = Counter(runs(old)), Counter(runs(new))
        return not before - after and sorted(after - before) in ([name], sorted([name, str(value)]))

    runs = started if bash else texts
    return Attempt(name, True, edit, is_right)


def words(data: bytes) -> list[ShellWord]:
    return [word for command in shell.read(data, "").commands for word in command.words]


def texts(data: bytes) -> list[str]:
    """All words of a script, as they are read here."""
    return [word.text if word.value is None else word.value for word in words(data)]


def started(data: bytes) -> list[str]:
    """The programs that bash starts, with their arguments; each only prints them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in PROGRAMS:
            Path(folder, name).write_text(PRINT)
            Path(folder, name).chmod(0o755)
        Path(folder, "script.sh").write_bytes(data)
        ended = subprocess.run(["/bin/bash", "script.sh"], cwd=folder, env={"PATH": folder}, capture_output=True)
    return ended.stdout.decode().splitlines()
