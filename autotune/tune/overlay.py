"""How settings reach the script: by edits of its files in a scratch copy, else by arguments that its calls get."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path

from autotune import catalogue, patch
from autotune.catalogue.dialects import Version
from autotune.collect.request import Override
from autotune.engine.fixes import effect_of, spelled
from autotune.model.evidence import RUN, Evidence, Location, Setting, Value
from autotune.model.finding import Change
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED, Bundle, Call
from autotune.model.tuned import Key
from autotune.patch import unset
from autotune.patch.dependencies import OF_WORKERS, WORKERS
from autotune.patch.plan import Wanted
from autotune.patch.resolve import edited
from autotune.patch.retyped import retyped

RULE = "tune"
"""What stands in a patch where a diagnosis names its rules."""

THREADS = "train.num_threads"

CALLS = {
    "DataLoader": "loader",
    "torch.optim": "optimizer",
    "TrainingArguments": "training_arguments",
    "SFTConfig": "training_arguments",
    "Accelerator": "accelerator",
    "Trainer": "lightning",
}
"""The calls whose arguments the probe can replace: as dialects name them, and as a Request does."""

OTHERS: Mapping[str, Value] = {"model.attention": "sdpa", "train.precision": "bf16-mixed"}
"""A value that frameworks have of settings that are words."""


@dataclass(frozen=True, slots=True)
class Script:
    """A command as its diagnosis knows it. `read` gives the bytes of its files, the same ones every time."""

    words: tuple[str, ...]
    evidence: Evidence
    bundle: Bundle | None
    versions: Mapping[str, Version]
    read: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class Overlay:
    """What realises the settings `asked` for. `files` are the contents of the changed files, by real path.

    `changes` have their edits, or say what to do by hand; `overrides` realise those in a trial all the same, and
    `missing` says of each of the others why nothing can.
    """

    words: tuple[str, ...]
    asked: Mapping[Key, Value] = field(default_factory=dict)
    changes: tuple[PatchChange, ...] = ()
    files: Mapping[Path, bytes] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def overlay(script: Script, wanted: Mapping[Key, Value]) -> Overlay:
    """What gives the settings `wanted` to the script. Settings of workers are left out where there are none."""
    asked = _without_workers(wanted)
    planned = [_wanted(script, subject, name, value) for (subject, name), value in asked.items()]
    drafts = patch.plan(planned, script.bundle, script.read, script.versions)
    changes = tuple(draft.change for draft in drafts)
    edits = [edit for change in changes for edit in change.edits]
    by_hand = {change.setting: _override(script, change) for change in changes if not _is_made(change)}
    nowhere = {name for name, one in by_hand.items() if one is None}
    files = {name: edited(script.read(name), each) for name, each in _by_file(edits)}
    return Overlay(
        words=retyped(script.words, [edit for edit in edits if edit.file == TYPED]),
        asked=asked,
        changes=changes,
        files={Path(name).resolve(): data for name, data in files.items()},
        overrides=tuple(_shifted(one, files, script) for one in by_hand.values() if one is not None),
        missing={each.setting: _why(script, each) for each in changes if each.setting in nowhere},
    )


def settable(script: Script, name: str, subject: str) -> str:
    """Whether a trial can give another value to a setting: "" if so, else why not."""
    now, kind = script.evidence.lookup(subject, name), catalogue.settings()[name].type
    other = OTHERS.get(name, "") if kind == "text" else not now if kind == "bool" else int(str(now or 0)) + 1
    return overlay(script, {(subject, name): other}).missing.get(name, "")


def _why(script: Script, change: PatchChange) -> str:
    """Why a change has no edit, without the line that says what to write; the framework's word where it has no such
    setting and none was seen in the files either."""
    setting = script.evidence.setting(change.subject, change.setting)
    framework = script.evidence.lookup(RUN, "run.framework")
    is_nowhere = framework is not None and (setting is None or setting.location is None)
    reason = catalogue.why_missing(str(framework), change.setting) if is_nowhere else ""
    return reason or change.by_hand.partition(": ")[2] or change.by_hand


def _is_made(change: PatchChange) -> bool:
    """Whether its edits make it, or nothing has to."""
    return bool(change.edits) or not change.by_hand


def _without_workers(wanted: Mapping[Key, Value]) -> dict[Key, Value]:
    """A loader without workers refuses their settings."""
    none = {subject for (subject, name), value in wanted.items() if name == WORKERS and value == 0}
    return {key: value for key, value in wanted.items() if not (key[0] in none and key[1] in OF_WORKERS and value)}


def _wanted(script: Script, subject: str, name: str, value: Value) -> Wanted:
    setting = script.evidence.setting(subject, name) or _beside(script.evidence, subject, name)
    change = Change(
        setting=name,
        old=setting.value if setting is not None else None,
        new=value,
        effect=effect_of(name, script.evidence, subject),
        location=setting.location if setting is not None else None,
        spelling=spelled(setting, name, value, script.evidence),
    )
    return Wanted(change, subject, setting, (RULE,))


def _beside(evidence: Evidence, subject: str, name: str) -> Setting | None:
    """A loader's setting that was not given belongs beside its workers."""
    workers = evidence.setting(subject, WORKERS) if name in OF_WORKERS else None
    if workers is None:
        return None
    return replace(workers, name=name, value=None, origin="default", spelling="")


def _by_file(edits: Iterable[Edit]) -> Iterable[tuple[str, list[Edit]]]:
    found: dict[str, dict[Edit, None]] = {}
    for edit in edits:
        if edit.file != TYPED:
            found.setdefault(edit.file, {})[edit] = None
    return [(name, list(each)) for name, each in found.items()]


def _override(script: Script, change: PatchChange) -> Override | None:
    """The call that gets the value while the script runs; None where it is not known."""
    if change.setting == THREADS:
        return Override("threads", "", 0, 0, {"num_threads": change.new})
    setting = script.evidence.setting(change.subject, change.setting)
    setting = setting or _beside(script.evidence, change.subject, change.setting)
    site = _site(setting, script.bundle.calls if script.bundle is not None else ())
    if site is None:
        return None
    framework = "raw" if site.call == "DataLoader" else str(script.evidence.lookup(RUN, "run.framework"))
    spelling = catalogue.spelling(framework, change.setting, script.versions)
    at = CALLS.get(spelling.call) if spelling is not None else None
    if spelling is None or at is None:
        return None
    is_without = change.setting == WORKERS and not change.new
    refused = dict.fromkeys(unset.keys(framework, script.versions)) if is_without else {}
    arguments = {**refused, **spelling.arguments(change.new)}
    return Override(at, site.file, site.line, max(site.line, site.end_line), arguments)


def _site(setting: Setting | None, calls: Sequence[Call]) -> Location | None:
    """The call in a script that a setting reaches: the one that has its place among its arguments, or the observed."""
    place = setting.location if setting is not None else None
    if place is None:
        return None
    named = [call for call in calls if call.name and call.location.call]
    holder = next((call for call in named if any(one.location == place for one in call.arguments.values())), None)
    found = holder.location if holder is not None else place
    return found if found.call and found.file != TYPED else None


def _shifted(override: Override, files: Mapping[str, bytes], script: Script) -> Override:
    """The lines of its call in the `files` with their edits."""
    if override.file not in files:
        return override
    before, after = script.read(override.file).splitlines(), files[override.file].splitlines()
    same = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    at = override.first_line - 1
    first = next((block.b + at - block.a for block in reversed(same) if block.a <= at), at) + 1
    longer = max(0, len(after) - len(before) - (first - override.first_line))
    return replace(override, first_line=first, last_line=override.last_line + first - override.first_line + longer)
