"""The documentation as a site: `make docs`. Pages are the Markdown files of the repository, as GitHub shows them.

The source folder of Sphinx is the root of the repository, so that links between pages are the same in both places.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]

NAVIGATION = {
    "Tutorials": ["trainer", "lightning-cli", "raw-loop", "sbatch", "rented-gpu", "ci"],
    "How to": [
        *("install", "ci", "notebooks", "reports", "attach", "watch", "fit", "gpu", "jobs", "cluster", "containers"),
        *("patch-file", "adding-a-rule"),
    ],
    "Rules": ["rules/README", "rules/symptoms", "rules/what-ifs", "rules/left-out"],
    "Reference": ["words", "stability", "ways", "days", "dialects", "scale", "/skills/autotune/SKILL", "/CHANGELOG"],
    "Explanation": [
        *("lines", "tune", "search", "verify", "prediction", "accuracy", "claims", "isolation", "/SECURITY"),
        *("architecture", "/CONTRIBUTING", "/CODE_OF_CONDUCT", "/fixtures/README", "/fixtures/labelled/README"),
        "/fixtures/recordings/README",
    ],
}
"""Pages below docs/, tutorials below docs/tutorials/; "/" begins at the root of the repository."""

project = "autotune"
author = "The autotune maintainers"
(release,) = re.findall(r'__version__ = "(.+)"', (ROOT / "autotune" / "__init__.py").read_text(encoding="utf-8"))

extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "fixtures/**.md", "skills/**.md"]
exclude_patterns = [".*", "build", "dist", "tests", "benchmarks", "rules", "autotune"]
myst_heading_anchors = 4
smartquotes = False

html_theme = "furo"
html_title = f"autotune {release}"
html_extra_path = ["site"]
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}


def toctrees() -> str:
    """The navigation, in the words of MyST."""
    made = []
    for caption, pages in NAVIGATION.items():
        folder = "/docs/tutorials/" if caption == "Tutorials" else "/docs/"
        names = "\n".join(page if page.startswith("/") else f"{folder}{page}" for page in pages)
        made.append(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{names}\n```\n")
    return "".join(made)


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """On GitHub a page has no navigation: it is added when the page is read."""
    if name == root_doc:
        source[0] += toctrees()
    elif name == "docs/rules/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n[A-Z][A-Z][0-9]*\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
