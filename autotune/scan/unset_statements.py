"""Settings that one statement would make, where no file gives them: where a person would write its line."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from autotune import catalogue
from autotune.catalogue.dialects import Version
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Location, Setting
from autotune.model.scanned import Bundle
from autotune.scan.library import Library
from autotune.syntax import edit_statement
from autotune.syntax.python import Source

NAMES: Mapping[str, tuple[str, ...]] = {
    "train.num_threads": ("set_num_threads", "OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    "train.matmul_precision": (
        "set_float32_matmul_precision",
        "allow_tf32",
        "fp32_precision",
        "NVIDIA_TF32_OVERRIDE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    ),
}
"""Settings that torch has without being told, and the names by which a file tells it.

What only a call turns on (anomaly detection, deterministic algorithms) is changed where that call stands.
"""


def unset_settings(found: Bundle, script: str, library: Library, versions: Mapping[str, Version]) -> Iterator[Setting]:
    """A Setting without a value for each that the bundle's files do not give: with the place of its statement in
    `script`, which is an empty span, or with the reason why it has none.

    A framework that has a word of its own for the setting is told by that.
    """
    framework = next((str(fact.value) for fact in found.facts if fact.name == "run.framework"), "")
    known = {setting.name for setting in found.settings}
    for name, words in NAMES.items():
        spelling = catalogue.spelling(framework, name, versions)
        if spelling is None or spelling.call or name in known:
            continue
        place, why = _place(found, script, library, spelling.key, words)
        yield Setting(name, RUN, None, "default", place, why_not=why, spelling=spelling.key)


def _place(
    found: Bundle, script: str, library: Library, function: str, words: Sequence[str]
) -> tuple[Location | None, str]:
    for file in found.files:
        line, word = _first_line_with(library, file, words)
        if word:
            return None, f"what {file}:{line} makes of {word} is not known"
    source = library.python(script)
    if source is None:
        return None, f"{script} cannot be read"
    try:
        at = edit_statement.insertion_point(source, function.partition(".")[0])
    except UsageError as error:
        return None, error.what
    return Location(script, at.line, span=source.text.span(at.end, at.end)), ""


def _first_line_with(library: Library, file: str, words: Sequence[str]) -> tuple[int, str]:
    """The first line of a file that has one of the words, and the word; "" where none has."""
    if file not in library.files:  # the command line
        return 0, ""
    source = library.python(file) if library.files[file].syntax == "python" else None
    if source is not None:
        return min(_of_script(source, words), default=(0, ""))
    lines = library.files[file].data.decode(errors="replace").splitlines()
    rows = ((number, word) for number, line in enumerate(lines, 1) for word in words if word in line)
    return next(rows, (0, ""))


def _of_script(source: Source, words: Sequence[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.alias):
            said = (getattr(node, name, None) for name in ("id", "attr", "value", "name"))
            yield from ((node.lineno, word) for word in said if isinstance(word, str) and word in words)
