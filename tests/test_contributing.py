"""CONTRIBUTING.md and docs/architecture.md name files, commands and layers that exist."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from autotune import catalogue

ROOT = Path(__file__).parents[1]
PAGES = ["CONTRIBUTING.md", "docs/architecture.md", "fixtures/README.md", "fixtures/labelled/README.md"]
TOP = ("autotune", "rules", "tests", "benchmarks", "fixtures", "docs")
WALKS = [
    "A rule",
    "A fact",
    "A dialect",
    "A framework",
    "An output",
    "A wording",
    "A probe hook",
    "A knob",
    "A verdict",
    "A CLI option",
]
NO_PACKAGE = {"benchmarks", "builders", "ci", "docs", "fixtures", "matrix", "rules"}
"""Folders of tests/ that test something else than a package of autotune/, or hold no tests."""

FILES = {"patch.yaml", "recording-*.json", "what-ifs.md", ".autotune/runs/<id>"}
"""Files that autotune writes, as the glossary names them."""


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def paths(words: str) -> list[str]:
    """Paths from the root of the checkout in backticks; `<name>` stands for any name."""
    quoted = [word for code in re.findall(r"`([^`\n]+)`", words) for word in code.split()]
    return [re.sub(r"<\w+>", "*", word) for word in quoted if word.split("/")[0] in TOP and "/" in word]


def walks() -> dict[str, str]:
    parts = re.split(r"^### (.+)\n", text("CONTRIBUTING.md"), flags=re.MULTILINE)
    return {name: body.split("\n## ")[0] for name, body in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_exists(page: str) -> None:
    found = paths(text(page))
    assert found
    assert [path for path in found if not any(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", text(page))
    assert [link for link in links if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/adding-a-rule.md"])
def test_every_command_exists(page: str) -> None:
    code = text(page)
    options = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "autotune" / "cli").glob("*.py"))
    targets = set(re.findall(r"^(\w+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"`make (\w+)`", code)) <= targets
    for verb, rest in re.findall(r"`autotune ([\w-]+)([^`\n]*)`", code):
        assert (ROOT / "autotune" / "cli" / f"{verb.replace('-', '_')}.py").exists(), verb
        assert [option for option in re.findall(r"--[\w-]+", rest) if f'"{option}"' not in options] == []
    started = re.findall(r"`(?:pytest|python) ([^`\n]+)`", code)
    files = [word for words in started for word in words.split() if "/" in word]
    assert [file for file in files if not (ROOT / file).exists()] == []


def test_there_is_a_walk_for_each_of_the_ten_tasks() -> None:
    assert list(walks()) == WALKS


@pytest.mark.parametrize("task", WALKS)
def test_a_walk_has_numbered_steps_and_touches_two_product_files_at_most(task: str) -> None:
    body = walks()[task]
    assert re.search(r"^1\. ", body, re.MULTILINE)
    named = re.search(r"^Product files: (.+?)\n\n", body, re.MULTILINE | re.DOTALL)
    assert named is not None
    assert len(re.split(r" and (?!if)|; and ", named[1])) <= 2


def test_the_layers_are_those_that_import_linter_checks() -> None:
    contracts = tomllib.loads(text("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    written = text("CONTRIBUTING.md").split("## The layers")[1].split(". import-linter")[0]
    found = [part for code in re.findall(r"`([^`]+)`", written) for part in re.split(r" \| ", code)]
    assert found == [name for layer in layers for name in layer.split(" | ")]


def test_folders_of_tests_are_packages() -> None:
    folders = {file.parent.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("test_*.py")}
    mirrored = [folder for folder in folders if folder.parts and folder.parts[0] not in NO_PACKAGE]
    assert [str(folder) for folder in mirrored if not (ROOT / "autotune" / folder).is_dir()] == []


def test_the_architecture_names_every_package() -> None:
    packages = [file.parent.name for file in (ROOT / "autotune").glob("*/__init__.py")]
    assert [name for name in packages if f"`autotune/{name}/`" not in text("docs/architecture.md")] == []


def test_no_two_test_files_share_a_name() -> None:
    """tests/ has no packages: pytest imports a file by its name alone, and refuses the second of one name."""
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert names["test_contributing.py"] == 1
    assert [name for name, times in names.items() if times > 1] == []


def known_words() -> set[str]:
    """Facts, settings, fields of records, keys of JSON documents, verbs, and options of the command line."""
    schemas = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "autotune").rglob("*.schema.json"))
    cli = list((ROOT / "autotune" / "cli").glob("*.py"))
    options = "".join(file.read_text(encoding="utf-8") for file in cli)
    model = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "autotune" / "model").glob("*.py"))
    fields = set(re.findall(r"^    (\w+): ", model, re.MULTILINE))
    keys = {*re.findall(r'"(\w+)":', schemas), *re.findall(r'"(--[a-z-]+)[/"]', options)}
    return {*catalogue.facts(), *catalogue.settings(), *fields, *keys, *(file.stem for file in cli)}


def exists(word: str, known: set[str]) -> bool:
    is_path = word.endswith(("/", ".py", ".toml"))
    return any(folder.joinpath(word).exists() for folder in (ROOT, ROOT / "autotune")) if is_path else word in known


def test_the_glossary_names_what_exists() -> None:
    known = known_words()
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "autotune").rglob("*.py"))
    defined = set(re.findall(r"^(?:class )?([A-Z]\w+)(?=[(:]| =|: )", source, re.MULTILINE))
    rows = [line.split(" | ") for line in text("docs/words.md").splitlines() if line.startswith("| ")][1:]
    assert rows and {len(row) for row in rows} == {5}
    for term, _, where, in_code, _ in rows:
        words = [word for code in re.findall(r"`([^`]+)`", where) for word in parts(code, known)]
        assert [word for word in words if not exists(word, known)] == [], term
        assert [word for word in re.findall(r"`([^`]+)`", in_code) if not exists(word, defined)] == [], term


def parts(code: str, known: set[str]) -> list[str]:
    """The names in a code span: a fact is one, `trials[].changes` are two."""
    if code in known or code in FILES or "/" in code:
        return [] if code in FILES else [code]
    return re.findall(r"--[a-z-]+|[a-z_]{2,}", code)
