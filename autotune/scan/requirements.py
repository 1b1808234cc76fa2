"""Releases that a project pins in its requirements, environment, pyproject or lock file. A range pins nothing."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from typing import Any

from autotune.catalogue.dialects import Version, version
from autotune.errors import UsageError
from autotune.scan.ranges import known_name, ranges

Pin = tuple[str, str]
"""A package and its release as they are written."""

_RELEASE = r"(\d{1,9}(?:\.\d{1,9})*)"

EXACT = re.compile(rf"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*={{2,3}}\s*{_RELEASE}(?![\w.*-])(?![^#]*;)")
"""transformers==4.46.1, torch[opt] === 2.4.0+cu121; no 4.46.*, no 5.0.0rc1, and nothing with a marker."""

CONDA = re.compile(rf"([a-z0-9][\w.-]*)\s*={{1,2}}\s*{_RELEASE}(?![\w.*-])(?![^#]*;)")
"""pytorch=2.4.0, pytorch=2.4.0=py3.11_cuda12.1_0 of a conda environment."""

INSTALLS = re.compile(r"\b(pip|conda|mamba)3? install ([^&|]*)")

MOST_OF_LINE = 5_000
"""Characters of a line of instructions."""

PYTHON = re.compile(rf"={{2,3}}\s*{_RELEASE}(?:\.\*)?")
"""The one release of Python that a project wants: ==3.12.4, ==3.12.*. A bound (>=3.10) is none."""

PLAIN = re.compile(rf"={{0,3}}\s*{_RELEASE}")
"""The release of a package alone: poetry's "4.46.1"."""

POETRY = re.compile(rf"([\^~]) ?{_RELEASE}")
"""The bounds that only poetry knows: ^4.44, ~4.44."""

ASKS = re.compile(r"([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*[<>=!~][^;]*")
"""A requirement with a bound, without a marker."""

MOST_NAMES = 6
"""Lists inside of each other that are followed."""

OPERATORS = tuple("<>=!~")

QUOTED = re.compile(r"""["']([^"']*)["']""")

REVISIONS = ("rev", "tag", "branch")
"""Keys by which uv and poetry name the revision of a repository."""

CONDITIONS = {"markers", "platform", "python"}
"""Keys of poetry that say on which machines a release is wanted."""


def versions(data: bytes, name: str) -> Mapping[str, Version]:
    """The release of every package that the file `name` pins exactly, by its name in lower case with hyphens.

    A package that is pinned to two releases is left out: which one holds depends on the machine.
    """
    found: dict[str, set[Version]] = {}
    for package, release in _pins(data, name):
        found.setdefault(known_name(package), set()).add(version(release))
    return {package: next(iter(releases)) for package, releases in found.items() if len(releases) == 1}


def told(data: bytes) -> Mapping[str, Version]:
    """The releases that instructions install, by `pip install torch==1.11.0` or `conda install pytorch=1.11`."""
    text = data.decode("utf-8", errors="replace").replace("\\\n", " ")
    lines = (_single_blanks(line) for line in text.splitlines() if len(line) < MOST_OF_LINE)
    found: dict[str, set[Version]] = {}
    for command in (one for line in lines for one in INSTALLS.finditer(line)):
        words = (word.strip("\"'`;,") for word in command[2].split())
        for package, release in _matches(EXACT if command[1] == "pip" else CONDA, words):
            found.setdefault(known_name(package), set()).add(version(release))
    return {package: next(iter(releases)) for package, releases in found.items() if len(releases) == 1}


def python(data: bytes, name: str) -> Version | None:
    """The Python that a .python-version or the requires-python of a pyproject names; None for a range, and for several.

    "3.12" stands for all of its releases.
    """
    text = data.decode("utf-8", errors="replace")
    if name.endswith(".toml"):
        wanted = _table(_parse_toml(text, name), "project").get("requires-python")
        found = PYTHON.fullmatch(wanted.strip()) if isinstance(wanted, str) else None
    else:
        lines = [line for line in map(_single_blanks, text.splitlines()) if line and not line.startswith("#")]
        found = PLAIN.fullmatch(lines[0]) if len(lines) == 1 else None
    return version(found[1]) if found else None


def requirements(data: bytes, name: str) -> Iterator[str]:
    """What the file `name` asks for, a requirement each, poetry's in plain bounds; nothing of a lock file."""
    text = data.decode("utf-8", errors="replace")
    if name.endswith((".yml", ".yaml")):
        yield from (_single_blanks(line).removeprefix("-").strip(" \"'") for line in text.splitlines())
    elif name.endswith(".toml"):
        document = _parse_toml(text, name)
        yield from _of_project(document)
        yield from (f"{package}{_bounds(wanted)}" for package, wanted in _of_poetry(document) if package != "python")
        yield from _of_git(document)
    elif name.endswith(".py"):
        yield from _of_setup_py(text, name)
    elif name.endswith(".cfg"):
        yield from _of_setup_cfg(text, name)
    elif not name.endswith(".lock"):
        yield from map(_single_blanks, text.splitlines())


def bounded_requirements(data: bytes, name: str) -> Iterator[tuple[str, int | None]]:
    """Requirements of the file `name` that a newer release may not meet, each with its line, None where that is unsure.

    As "transformers==4.40" and "torch>=2.1,<2.5", without extras; none of a conda package.
    """
    lines = _lines(data) if name.endswith((".toml", ".py", ".cfg")) else None
    for number, line in enumerate(requirements(data, name), start=1):
        found = EXACT.match(line)
        text = (
            f"{found[1]}=={found[2]}" if found else next((one.text for one in ranges([line]).values() if one.high), "")
        )
        if text:
            yield text, number if lines is None else lines.get(line)


def _lines(data: bytes) -> Mapping[str, int]:
    """The one line of each text that stands once in a file, in quotes or as the whole line."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(data.decode("utf-8", errors="replace").splitlines(), start=1):
        for text in {*QUOTED.findall(line), line}:
            found.setdefault(_single_blanks(text), []).append(number)
    return {text: numbers[0] for text, numbers in found.items() if len(numbers) == 1}


def _single_blanks(line: str) -> str:
    """With single blanks: the patterns take their time over many."""
    return " ".join(line.split())


def _pins(data: bytes, name: str) -> Iterator[Pin]:
    if name.endswith((".toml", ".lock")):
        yield from _of_toml(_parse_toml(data.decode("utf-8", errors="replace"), name))
    else:
        pattern = CONDA if name.endswith((".yml", ".yaml")) else EXACT
        yield from _matches(pattern, requirements(data, name))


def _matches(pattern: re.Pattern[str], lines: Iterable[str]) -> Iterator[Pin]:
    return ((found[1], found[2]) for line in lines if (found := pattern.match(line)))


def _parse_toml(text: str, name: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # int() refuses a number of 5,000 digits
        raise UsageError(f"not TOML: {error}", where=name, to_do="Repair the file or exclude it.") from None


def _of_toml(document: Mapping[str, Any]) -> Iterator[Pin]:
    """The packages of a lock file; the dependencies of a project, PEP 621's and poetry's."""
    packages = document.get("package")
    for row in packages if isinstance(packages, list) else ():
        name, release = (row.get("name"), row.get("version")) if isinstance(row, dict) else (None, None)
        if isinstance(name, str) and isinstance(release, str) and PLAIN.fullmatch(release):
            yield name, release
    yield from _matches(EXACT, _of_project(document))
    for package, wanted in _of_poetry(document):
        found = PLAIN.fullmatch(wanted)
        if found:
            yield package, found[1]


def _of_project(document: Mapping[str, Any]) -> Iterator[str]:
    """The requirements of PEP 621, of its extras and of PEP 735's groups."""
    project = _table(document, "project")
    groups = [*_table(project, "optional-dependencies").values(), *_table(document, "dependency-groups").values()]
    for lines in (project.get("dependencies"), *groups):
        yield from (
            _single_blanks(line) for line in (lines if isinstance(lines, list) else ()) if isinstance(line, str)
        )


def _of_setup_py(text: str, name: str) -> Iterator[str]:
    """The requirements that stand as texts in `setup(install_requires=[...])` of setuptools, or in lists that are given
    to it by their names; what is looked up by a package's name (`deps["torch"]`) is the one text of the file that asks
    for that package."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"not Python: {error}", where=name, to_do="Repair the file or exclude it.") from None
    assigned = [one for one in tree.body if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    named = {one.targets[0].id: one.value for one in assigned if isinstance(one.targets[0], ast.Name)}
    keywords = (one for call in ast.walk(tree) if isinstance(call, ast.Call) for one in call.keywords)
    for given in (one.value for one in keywords if one.arg == "install_requires"):
        yield from map(_single_blanks, _texts(given, named))


def _texts(node: ast.expr, named: Mapping[str, ast.expr], depth: int = 0) -> Iterator[str]:
    """The texts of a list, of lists that are added to each other, and of what names stand for."""
    if depth > MOST_NAMES:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and depth:
        yield node.value
    elif isinstance(node, ast.Name) and node.id in named:
        yield from _texts(named[node.id], named, depth + 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        for one in (node.left, node.right):
            yield from _texts(one, named, depth + 1)
    elif isinstance(node, ast.List | ast.Tuple):
        for one in node.elts:
            yield from _texts(one.value if isinstance(one, ast.Starred) else one, named, depth + 1)
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        yield from _looked_up(node.slice.value, named)


def _looked_up(package: str, named: Mapping[str, ast.expr]) -> Iterator[str]:
    """The one text of the lists and tables of a file that asks for a package."""
    parts = [one for value in named.values() for one in _parts(value)]
    texts = {one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    asking = {
        one for one in texts if (found := ASKS.fullmatch(one.strip())) and known_name(found[1]) == known_name(package)
    }
    if len(asking) == 1:
        yield from asking


def _parts(value: ast.expr) -> Iterable[ast.expr]:
    """What stands in a list or as the values of a table."""
    if isinstance(value, ast.Dict):
        return value.values
    return value.elts if isinstance(value, ast.List | ast.Tuple) else ()


def _of_setup_cfg(text: str, name: str) -> Iterator[str]:
    """The requirements of `install_requires` in [options]."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text)
    except ConfigParserError as error:
        what = str(error).splitlines()[0]
        raise UsageError(f"not an INI file: {what}", where=name, to_do="Repair the file or exclude it.") from None
    wanted = parser.get("options", "install_requires", fallback="")
    yield from (_single_blanks(line) for line in wanted.splitlines() if line.strip())


def _of_poetry(document: Mapping[str, Any]) -> Iterator[Pin]:
    """The packages of poetry's own table, each with what is wanted of it on every machine: "^4.44"."""
    for package, row in _table(_table(_table(document, "tool"), "poetry"), "dependencies").items():
        wanted = row.get("version") if isinstance(row, dict) and not row.keys() & CONDITIONS else row
        if isinstance(wanted, str):
            yield package, _single_blanks(wanted)


def _of_git(document: Mapping[str, Any]) -> Iterator[str]:
    """The packages that uv and poetry take from a repository, as pip writes them."""
    tool = _table(document, "tool")
    places = (_table(_table(tool, "uv"), "sources"), _table(_table(tool, "poetry"), "dependencies"))
    for package, row in (one for table in places for one in table.items()):
        url = row.get("git") if isinstance(row, dict) else None
        if isinstance(url, str):
            revision = next((row[key] for key in REVISIONS if isinstance(row.get(key), str)), "")
            yield f"{package} @ git+{url}{'@' if revision else ''}{revision}"


def _bounds(wanted: str) -> str:
    """poetry's "^4.44" and "~4.44" as plain bounds: below the next first part that is not 0, or the next second one."""
    exact, found = PLAIN.fullmatch(wanted), POETRY.fullmatch(wanted)
    if exact is not None:
        return f"=={exact[1]}"
    if found is None:
        return wanted if wanted[:1] in OPERATORS else ""
    release = version(found[2])
    last = len(release) - 1
    place = next((place for place, part in enumerate(release) if part), last) if found[1] == "^" else min(1, last)
    above = (*release[:place], release[place] + 1)
    return f">={found[2]},<{'.'.join(map(str, above))}"


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = document.get(key)
    return found if isinstance(found, dict) else {}
