"""`check --changed REF`: only findings on lines that differ from a commit of git.

The commit is the merge base of HEAD and REF, so that a branch is compared with where it began. Only stored files are
asked of git, one by one: neither filters nor programs that a repository configures run, and nothing is fetched.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache, partial
from itertools import takewhile
from pathlib import Path

from autotune import reading
from autotune.check.suppression import suppress
from autotune.errors import UsageError
from autotune.model.checked import UNCHANGED, CheckedBundle, Silenced
from autotune.model.evidence import Location
from autotune.model.finding import Finding
from autotune.model.source import NOTEBOOK

HEAD = "HEAD"

LARGEST = 2_000_000
"""Bytes of a file that is compared line by line; a larger one counts as changed."""

MOST_LINES = 3_000
"""Between the first and the last changed line; above it all of them count as changed. Comparing is quadratic."""

OPTIONS = ("-c", "core.fsmonitor=false", "-c", "safe.bareRepository=explicit")
ENVIRON = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",  # older gits fetch what a partial clone lacks, by programs that its configuration names
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}

LIMIT_S = 60.0


def suppress_unchanged(bundles: Sequence[CheckedBundle], ref: str, root: Path) -> list[CheckedBundle]:
    """The bundles without the findings all of whose lines are as they were; a place that is a whole file counts where
    any of its lines differs. Raises UsageError where git or the commit cannot be asked."""
    base = _merge_base(ref, root)
    lines = cache(partial(changed_lines, base, root))

    def judge(finding: Finding, place: Location) -> Silenced | None:
        last = max(place.line, place.end_line)
        changed = lines(place.file)
        is_touched = changed is None or any(not place.line or place.line <= line <= last for line in changed)
        return None if is_touched else Silenced(finding, UNCHANGED, f"as in {ref}")

    return [suppress(each, judge) for each in bundles]


def changed_lines(base: str, root: Path, name: str) -> frozenset[int] | None:
    """The lines of the file `name` below `root` that are not in the commit `base`, and the one after each deletion;
    None for all of them: the commit does not hold the file, or it is too large to compare."""
    stored = _git(root, "cat-file", "blob", f"{base}:./{name}")
    try:
        now = reading.read(root / name, follow=True, most_bytes=LARGEST)
    except OSError:
        return None
    if stored is None or len(stored) > LARGEST:
        return None
    if name.endswith(NOTEBOOK):
        return _code_that_differs(name, stored, now)
    return frozenset(_lines_that_differ(*map(_lines, (stored, now))))


def _code_that_differs(name: str, before: bytes, after: bytes) -> frozenset[int]:
    """The lines of a notebook's script that differ: outputs and text between them count for nothing."""
    from autotune.check.notebooks import script  # the reader of notebooks; most projects have none

    rows = [(number, line) for number, line in enumerate(_lines(script(name, after)), start=1) if line.strip()]
    old = [line for line in _lines(script(name, before)) if line.strip()]
    changed = _lines_that_differ(old, [line for _, line in rows])
    return frozenset(rows[at - 1][0] for at in changed if at <= len(rows))


def _lines(data: bytes) -> list[str]:
    return re.split(r"\r\n?|\n", data.decode(errors="replace"))


def _lines_that_differ(before: Sequence[str], after: Sequence[str]) -> Iterator[int]:
    """The lines of `after`, from 1, that are not in `before`, and the one after each deletion."""
    head = sum(1 for _ in takewhile(_is_equal, zip(before, after, strict=False)))
    tail = sum(1 for _ in takewhile(_is_equal, zip(reversed(before[head:]), reversed(after[head:]), strict=False)))
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    if max(len(old), len(new)) > MOST_LINES:
        yield from range(head + 1, head + len(new) + 2)
        return
    for kind, _, _, first, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from range(head + first + 1, head + max(end, first + 1) + 1)


def _is_equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _merge_base(ref: str, root: Path) -> str:
    """The commit that files are compared with."""
    commit = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    if commit is None:
        where, to_do = f"--changed {ref}", "Name a commit or branch of the repository; in CI fetch it first."
        raise UsageError(f"git knows no commit of this name in {root}", where=where, to_do=to_do)
    base = _git(root, "merge-base", HEAD, commit.decode().strip())
    if base is None:
        to_do = "Fetch more of the history (a CI often has one commit; in GitHub's checkout: fetch-depth: 0)."
        raise UsageError("HEAD and this commit have no common one here", where=f"--changed {ref}", to_do=to_do)
    return base.decode().strip()


def _git(root: Path, *words: str) -> bytes | None:
    """What git prints; None where it fails. Raises UsageError without git."""
    # A hook of git's has the repository that it is for in its environment; here it is the one around `root`.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | ENVIRON
    try:
        done = subprocess.run(["git", *OPTIONS, *words], cwd=root, env=environ, capture_output=True, timeout=LIMIT_S)
    except FileNotFoundError as error:
        raise UsageError("git is not installed", where="--changed", to_do="Install git.") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git did not answer within {LIMIT_S:.0f} s", where="--changed") from error
    return done.stdout if done.returncode == 0 else None
