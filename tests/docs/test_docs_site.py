"""The site shows every page once. `make docs` builds it, and takes a warning for an error."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

from markdown_pages import ROOT, pages

TUTORIALS = ("trainer", "lightning-cli", "raw-loop", "sbatch", "rented-gpu", "ci")


def conf() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs" / "conf.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def in_navigation() -> list[str]:
    return [f"{name}.md" for name in re.findall(r"^/(\S+)$", conf().toctrees(), re.MULTILINE)]


def test_every_page_stands_in_the_navigation_once() -> None:
    found = in_navigation()
    assert len(found) == len(set(found))
    rules = {f"docs/rules/{file.stem}.md" for file in (ROOT / "rules").rglob("*.toml")}
    assert set(found) | rules | {"README.md"} == set(pages())


def test_each_way_to_train_has_its_tutorial_and_the_readme_names_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = readme.split("\n## ")[0]
    assert all(f"(docs/tutorials/{name}.md)" in first for name in TUTORIALS)
    assert [f"docs/tutorials/{name}.md" for name in TUTORIALS] == in_navigation()[: len(TUTORIALS)]


def test_the_pages_are_short() -> None:
    for name in TUTORIALS:
        text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 80, name


def test_the_version_is_that_of_the_package() -> None:
    from autotune import __version__

    assert conf().release == __version__
