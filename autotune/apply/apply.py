"""apply: from a patch file to the files. No rule runs."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import patch, reading, state
from autotune.collect import artefacts
from autotune.errors import UsageError
from autotune.invocation import typed as in_words
from autotune.invocation.redacted import is_whole
from autotune.model.finding import UNCHANGED, needs_decision
from autotune.model.patch import Edit, Patch, PatchChange
from autotune.model.rule import Effect
from autotune.model.scanned import TYPED
from autotune.patch.command_line import launch, with_values
from autotune.patch.dependencies import missing_dependencies
from autotune.patch.file import NAME, loads
from autotune.patch.journal import ChangeName, Journal, PatchStore, journals
from autotune.patch.present import is_present
from autotune.patch.resolve import ResolvedChange, apply_edits, drop_incomplete_pairs, resolve_change

PATCHES = "patches"
"""In a project's state: the journals of what was written, without which nothing is taken back."""

_RULE = re.compile(r"[A-Za-z]{2}\d{3}")

_TITLE = re.compile(r"\d+ of \d+ changes of run (\S+)")
"""What a patch that is written is called, which names the run that proposed it."""


class ApplyPlan(Struct, frozen=True):
    """What one `apply` would do: write `files` (path, before, after), and print the rest.

    `chosen` are the changes that are made, `left` those that are not, with the reason. `typed` is what a chosen change
    gives on the command line, else "", and `command` the whole new line, "" where the run did not keep all of it.
    `of` is the command of `run`, which proposed them, without secrets.
    `moved` says what was found elsewhere in files that changed since. `doubt` says why nobody should write it unseen,
    "" for a patch that autotune made here, of the project in which it is applied.
    """

    root: Path
    run: str
    title: str
    chosen: tuple[PatchChange, ...]
    left: tuple[tuple[PatchChange, str], ...]
    files: tuple[tuple[Path, bytes, bytes], ...]
    typed: str = ""
    command: str = ""
    moved: tuple[str, ...] = ()
    doubt: str = ""
    of: str = ""

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff of all files."""
        for path, before, after in self.files:
            yield from _diff(path.relative_to(self.root).as_posix(), before, after)


class ApplyOptions(Struct, frozen=True):
    """`name` is a patch file, a run, or "last"; `select` are ids of rules or names of settings, empty for all."""

    name: str = "last"
    select: tuple[str, ...] = ()
    allow: frozenset[Effect] = field(default_factory=frozenset)


def plan(options: ApplyOptions, *, cwd: Path) -> ApplyPlan:
    """What the patch would write. Raises UsageError when an edit has no place in a file any more."""
    file = _file(options.name, cwd)
    data = _patch_bytes(file)
    made = loads(data, str(file))
    root = _root(file, made)
    written = _written_by(root, made.run)

    def read(name: str) -> bytes:
        return _bytes(_inside(root, name))

    now = list(drop_incomplete_pairs([_now(change, written, read) for change in made.changes]))
    chosen, left = _chosen([each.change for each in now], options, written)
    kept = [each for each in now if each.change in chosen]
    for stale in (each.stale for each in kept if each.stale is not None):
        raise stale
    edits = dict.fromkeys(edit for change in chosen for edit in change.edits)
    typed = [edit for edit in edits if edit.file == TYPED]
    by_file = _by_file([edit for edit in edits if edit.file != TYPED], root)
    return ApplyPlan(
        root=root,
        run=made.run,
        title=f"{len(chosen)} of {len(made.changes)} changes of run {made.run}",
        chosen=tuple(chosen),
        left=tuple(left),
        files=tuple(_file_of(path, each) for path, each in by_file.items()),
        typed=" ".join(_given(made.command, edit) for edit in typed),
        command=_launch(made, typed, root, cwd) if typed and is_whole(made.command) else "",
        moved=tuple(dict.fromkeys(line for each in kept for line in each.moved)),
        doubt=_doubt(file, root, data),
        of=in_words(made.command),
    )


def write(planned: ApplyPlan) -> Journal | None:
    """Write the files of `planned`, all or none; None when there is none."""
    if not planned.files:
        return None
    inside = [change for change in planned.chosen if any(edit.file != TYPED for edit in change.edits)]
    changes = [(change.setting, change.subject) for change in inside]
    store = PatchStore(planned.root, state.project(planned.root) / PATCHES)
    return patch.write(store, planned.title, planned.files, changes=changes)


def run_of(title: str) -> str:
    """The run that a written patch of this title is of; "" where it names none."""
    found = _TITLE.fullmatch(title)
    return found[1] if found else ""


def _written_by(root: Path, run: str) -> dict[ChangeName, int]:
    """The changes of a run that are in the files, each with the number of the patch that wrote it."""
    known = state.known_project(root)
    of_run = [one for one in journals(known / PATCHES) if run_of(one.title) == run] if known is not None else []
    return {name: one.number for one in of_run if is_present(one) for name in one.changes}


def recover(cwd: Path) -> tuple[Journal, ...]:
    """Take back what a crash left half written in this project."""
    store = patch_store(cwd)
    return () if store is None else patch.recover(store)


def is_interrupted(cwd: Path) -> bool:
    """Whether a crash left something half written in this project; nothing is changed."""
    store = patch_store(cwd)
    return store is not None and patch.is_interrupted(store)


def patch_store(cwd: Path) -> PatchStore | None:
    """The written patches of the nearest folder from `cwd` upwards that has some, else those of the other project whose
    command was typed here last: what `undo` takes back there."""
    start = cwd.resolve()
    elsewhere = state.other_folders(artefacts.project_root(cwd))
    for root in (start, *start.parents, *([elsewhere.parents[2]] if elsewhere is not None else [])):
        known = state.known_project(root)
        if known is not None and (known / PATCHES).is_dir():
            return PatchStore(root, known / PATCHES)
    return None


def _doubt(file: Path, root: Path, data: bytes) -> str:
    """Why a patch may be another's: autotune did not make it here, or its root is not the project in which it lies."""
    run = file.absolute().parent
    home = run.parents[2] if len(run.parents) > 2 else run
    if not state.is_own_run(run, state.registered_runs(home)):
        return f"autotune did not make this patch on this machine for this user: {file}"
    if not state.is_own_patch(home, data):
        return f"this patch was edited after autotune made it: {file}"
    return "" if root == home.resolve() else f"this patch belongs to another project than {home}, in which it lies"


def _file(name: str, cwd: Path) -> Path:
    try:
        path = artefacts.resolve(name, cwd)
    except UsageError as error:
        if _RULE.fullmatch(name):
            error.to_do = f"To write the change of one rule: `autotune apply --select {name.upper()}`."
        raise
    is_named = not path.is_dir()
    path = path if is_named else path / NAME
    if not (path.is_file() and (is_named or not path.is_symlink())):
        if run := artefacts.diagnosed_by(path.parent):
            raise UsageError(
                "this search confirmed no candidate as faster, so it has no patch",
                where=str(path.parent),
                to_do=f"`autotune diagnose --load {run}` shows its diagnosis; "
                f"`autotune apply {run}` writes its changes.",
            )
        raise UsageError(
            "this run has no patch: there was nothing to change",
            where=str(path.parent),
            to_do="`autotune diagnose --load last` shows what it found.",
        )
    return path


def _root(file: Path, made: Patch) -> Path:
    """The project that a patch is of: the one whose run folder holds it; elsewhere the one that it names.

    Raises UsageError when a run folder's patch names another one, whose files it would write.
    """
    named = Path(made.root)
    home = Path(os.path.normpath(file.absolute())).parents
    if len(home) > 3 and (home[2].name, home[1].name) == (".autotune", "runs"):
        if not named.is_absolute() or named.resolve() != home[3].resolve():
            raise UsageError(
                f"this patch was made for {named}, and lies in {home[3]}: the project was copied or moved",
                where=str(file),
                to_do="Diagnose again.",
            )
    elif not named.is_absolute() or not named.is_dir():
        raise UsageError(f"its root {made.root!r} is not the absolute path of a folder", where=str(file))
    return named.resolve()


def _patch_bytes(file: Path) -> bytes:
    try:
        return reading.read(file, follow=True)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(file), to_do="Check the path.") from error


def _bytes(path: Path) -> bytes:
    """What lies at the real path of a file that a patch edits."""
    try:
        return reading.read(path)
    except OSError as error:
        raise UsageError(f"cannot be edited: {error.strerror}; nothing was changed", where=str(path)) from error


def _now(change: PatchChange, written: Mapping[ChangeName, int], read: Callable[[str], bytes]) -> ResolvedChange:
    """The change for the files as they are now. An applied patch leaves only the edits of the command line."""
    if (change.setting, change.subject) not in written:
        return resolve_change(change, read)
    return ResolvedChange(replace(change, edits=tuple(one for one in change.edits if one.file == TYPED)), is_made=True)


def _chosen(
    changes: Sequence[PatchChange], options: ApplyOptions, written: Mapping[ChangeName, int]
) -> tuple[list[PatchChange], list[tuple[PatchChange, str]]]:
    """The changes that are made, and the others with the reason."""
    known = {name for change in changes for name in (change.setting, *change.rules)}
    wrong = [name for name in options.select if name not in known]
    if wrong:
        raise UsageError(f"no change of this patch matches {', '.join(wrong)}", to_do=f"There are: {_listed(known)}.")
    reasons = [_why_left(change, changes, options, written.get((change.setting, change.subject))) for change in changes]
    is_so = [not change.edits and not change.by_hand for change in changes]
    lacks = missing_dependencies(changes, [not reason or so for reason, so in zip(reasons, is_so, strict=True)])
    reasons = [reason or _what_it_lacks(missing) for reason, missing in zip(reasons, lacks, strict=True)]
    pairs = list(zip(changes, reasons, strict=True))
    return [change for change, reason in pairs if not reason], [(change, reason) for change, reason in pairs if reason]


def _why_left(change: PatchChange, changes: Sequence[PatchChange], options: ApplyOptions, number: int | None) -> str:
    """Why a change is not made, "" where it is; `number` is that of the patch that wrote it already."""
    named = {change.setting, *change.rules} & set(options.select)
    if options.select and not named:
        return "not selected"
    if not change.edits:
        by = f": patch {number} wrote it" if number is not None else ""
        return change.by_hand or f"it has this value already{by}"
    # The report has all changes of a recommendation in one group, so that they need one decision.
    undecided = [one for one in changes if one.rules == change.rules and _is_undecided(one, options)]
    if named or not undecided:
        return ""
    if change not in undecided:
        return _what_it_lacks([undecided[0].setting])
    if change.effect in UNCHANGED or change.effect in options.allow:
        return f"it has another cost: --select {change.setting} writes it"
    return f"it is {change.effect.value}: --allow {change.effect.value} writes it too"


def _is_undecided(change: PatchChange, options: ApplyOptions) -> bool:
    """Whether a person still has to decide on a change. --allow decides on effects, only --select on other costs."""
    allowed = Effect.EXACT if change.effect in options.allow else change.effect
    return needs_decision(change.setting, allowed)


def _what_it_lacks(missing: Sequence[str]) -> str:
    return f"it depends on {', '.join(missing)}, which is not written" if missing else ""


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "no changes"


def _by_file(edits: Sequence[Edit], root: Path) -> dict[Path, list[Edit]]:
    """The edits of each file, by its real path; a file of two names gets all of them, equal ones once."""
    names: dict[Path, str] = {}
    found: dict[Path, dict[Edit, None]] = {}
    for edit in edits:
        path = _inside(root, edit.file)
        name = names.setdefault(path, edit.file)
        found.setdefault(path, {})[replace(edit, file=name)] = None
    return {path: list(each) for path, each in found.items()}


def _inside(root: Path, name: str) -> Path:
    """The real path of a patch's file. Raises UsageError when it lies outside `root`."""
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"is not a file name: {error}", where=repr(name)) from error
    if not path.is_relative_to(root):
        raise UsageError(
            f"it lies outside the project {root}; nothing was changed",
            where=name,
            to_do="Edit it by hand, and write the other changes with --select.",
        )
    return path


def _launch(made: Patch, edits: Sequence[Edit], root: Path, cwd: Path) -> str:
    """The user's launch command with the new values in it, to be run in `cwd`; it changes to the folder of the run
    where that is another. "" where the values cannot be put into the command automatically."""
    typed_in = state.folders(root).get(made.run, cwd)
    away = "" if typed_in.resolve() == cwd.resolve() else f"cd {shlex.quote(str(typed_in))} && "
    try:
        return f"{away}{launch(made.command, edits)}"
    except UsageError:
        return ""


def _given(words: Sequence[str], edit: Edit) -> str:
    """The words that give one value, spelled as on the command line `words`."""
    if not edit.new:
        return f"(without {edit.key})"
    return shlex.join(with_values([word for word in words if word.lstrip("+").startswith(f"{edit.key}=")][-1:], [edit]))


def _file_of(path: Path, edits: Sequence[Edit]) -> tuple[Path, bytes, bytes]:
    data = _bytes(path)
    return path, data, apply_edits(data, edits)


def _diff(name: str, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (data.decode(errors="replace").splitlines(keepends=True) for data in (before, after))
    for line in unified_diff(old, new, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def counted(things: Sequence[object], noun: str) -> str:
    """ "1 file", "2 files"."""
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
