"""The pages of docs/rules: one for each rule, indexes by family and by symptom, and the what-ifs. All are generated."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from inspect import cleandoc
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from autotune.catalogue import what_ifs
from autotune.engine.load import load_rules, rules_folder
from autotune.engine.static import decides_without_a_run
from autotune.explain.explain import explanation
from autotune.model.rule import Rule
from autotune.predict import WHAT_IFS
from autotune.report.text.explain import section_lines, standing

KINDS = {"fact": "the name of a fact", "number": 'a number, as a string ("0.5")', "flag": 'the word "true"'}
"""What an argument of a what-if may be."""

HEAD = "Written by `autotune rules --docs docs/rules` from the files in `rules/`."


def write(folder: Path) -> None:
    """Write every page into `folder`, which is made; pages of rules that are gone are deleted."""
    found = pages(load_rules())
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[A-Z][A-Z][0-9][0-9][0-9].md"):
        old.unlink()
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")


def pages(rules: Sequence[Rule]) -> dict[str, str]:
    """The text of every page by the name of its file."""
    indexes = {"README.md": _by_family(rules), "symptoms.md": _by_symptom(rules), "what-ifs.md": _what_ifs()}
    lines = {f"{rule.id}.md": _page(rule) for rule in rules} | indexes
    return {name: "\n".join(page) + "\n" for name, page in lines.items()}


class Symptom(Struct, frozen=True):
    """What a person sees, and the rules that it may come from, as rules/symptoms.toml says."""

    says: str
    families: tuple[str, ...]
    rules: tuple[str, ...]
    without: tuple[str, ...]

    def fits(self, rule: Rule) -> bool:
        return rule.id in self.rules or (rule.family in self.families and rule.id not in self.without)


def symptoms() -> tuple[Symptom, ...]:
    """The symptoms that came with the rules."""
    data = tomllib.loads((rules_folder() / "symptoms.toml").read_text(encoding="utf-8"))
    lists = ("families", "rules", "without")
    return tuple(Symptom(row["says"], *(tuple(row.get(key, ())) for key in lists)) for row in data["symptom"])


def _page(rule: Rule) -> Iterator[str]:
    yield from (f"# {rule.id} {rule.name}", "", f"{rule.summary} ({standing(rule)})")
    for section in explanation(rule).sections:
        lines = [line.removeprefix("  ") for line in section_lines(section)]
        yield from ("", f"## {section.title}", "")
        yield from ("```text", *lines, "```") if section.of_code else map(_literal, lines)


def _literal(line: str) -> str:
    """A line that Markdown shows as it stands."""
    return line.replace("<", "\\<").replace("*", "\\*")


def _by_family(rules: Sequence[Rule]) -> Iterator[str]:
    yield from (f"# Rules ({len(rules)})", "", HEAD, "[By symptom](symptoms.md); [left out](left-out.md).")
    yield "`check` marks rules that need no run. `autotune explain ID` prints a page."
    for name, members in groupby(sorted(rules, key=attrgetter("family")), attrgetter("family")):
        yield from ("", f"## {name}", "")
        yield from (f"{_item(rule)}{' `check`' if decides_without_a_run(rule) else ''}" for rule in members)


def _by_symptom(rules: Sequence[Rule]) -> Iterator[str]:
    yield from ("# What do you see?", "", HEAD, "Run `autotune diagnose` first: it tells which of these applies.")
    for symptom in symptoms():
        yield from ("", f"## {symptom.says}", "", *(_item(rule) for rule in rules if symptom.fits(rule)))


def _what_ifs() -> Iterator[str]:
    yield from (
        "# What-ifs",
        "",
        "The what-ifs that a rule's `[gain]` can name. Written by `autotune rules --docs docs/rules`.",
    )
    for name, entry in what_ifs().items():
        yield from ("", f"## {name}", "")
        yield from (f"- `{argument}`: {_kind(kind)}" for argument, kind in entry.required.items())
        yield from (f"- `{argument}`: {_kind(kind)}, optional" for argument, kind in entry.optional.items())
        # The docstring of a what-if is its one description; python -OO has none.
        yield from ("", *map(_literal, cleandoc(WHAT_IFS[name].__doc__ or "").splitlines()))


def _kind(kind: str | Sequence[str]) -> str:
    return KINDS[kind] if isinstance(kind, str) else " or ".join(f'"{word}"' for word in kind)


def _item(rule: Rule) -> str:
    return f"- [{rule.id}]({rule.id}.md) {_literal(rule.summary)}"
