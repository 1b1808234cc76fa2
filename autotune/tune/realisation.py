"""Realisation of a candidate: edits of the script's files in a scratch copy, or overridden arguments of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from autotune import catalogue, patch
from autotune.catalogue import frameworks
from autotune.catalogue.dialects import Version
from autotune.collect.request import Override
from autotune.engine.fixes import effect_of, spelled
from autotune.model.evidence import RUN, Evidence, Location, Setting, Value
from autotune.model.finding import SettingChange
from autotune.model.patch import Edit, PatchChange
from autotune.model.scanned import TYPED, Bundle, ConsumerCall
from autotune.model.tuned import Key
from autotune.patch import worker_options
from autotune.patch.command_line import with_values
from autotune.patch.dependencies import OF_WORKERS, WORKERS
from autotune.patch.plan import RequestedChange
from autotune.patch.resolve import apply_edits

RULE = "tune"
"""Takes the place of a rule ID in the patch."""

THREADS = "train.num_threads"

CALLS = {"DataLoader": "loader", "torch.optim": "optimizer"}
"""The calls of torch whose arguments the probe can override: their names in dialects -> their names in a Request."""

OTHERS: Mapping[str, Value] = {"model.attention": "sdpa", "train.precision": "bf16-mixed"}
"""A value of each setting of type text that every framework knows."""


class DiagnosedScript(Struct, frozen=True):
    """A command and what its diagnosis knows."""

    words: tuple[str, ...]
    evidence: Evidence
    bundle: Bundle | None
    versions: Mapping[str, Version]

    read: Callable[[str], bytes]
    """Contents of a file, the same at every call."""


class Realisation(Struct, frozen=True):
    """How settings reach the script."""

    words: tuple[str, ...]
    """The command."""

    asked: Mapping[Key, Value] = field(default_factory=dict)
    """The settings."""

    changes: tuple[PatchChange, ...] = ()
    """With their edits, or with what the user has to do."""

    files: Mapping[Path, bytes] = field(default_factory=dict)
    """Contents of the changed files, by real path."""

    overrides: tuple[Override, ...] = ()
    """They realise, in a trial, changes that no edit makes."""

    missing: Mapping[str, str] = field(default_factory=dict)
    """Settings that nothing can realise, and why."""


def realise(script: DiagnosedScript, wanted: Mapping[Key, Value]) -> Realisation:
    """The realisation of the settings `wanted`. Settings of workers are left out where there are no workers."""
    asked = _without_workers(wanted)
    planned = [_wanted(script, subject, name, value) for (subject, name), value in asked.items()]
    drafts = patch.plan(planned, script.bundle, script.read, script.versions)
    changes = tuple(draft.change for draft in drafts)
    edits = [edit for change in changes for edit in change.edits]
    manual = {change.setting: _override(script, change) for change in changes if not _is_automatic(change)}
    nowhere = {name for name, one in manual.items() if one is None}
    files = {name: apply_edits(script.read(name), each) for name, each in _by_file(edits)}
    return Realisation(
        words=with_values(script.words, [edit for edit in edits if edit.file == TYPED]),
        asked=asked,
        changes=changes,
        files={Path(name).resolve(): data for name, data in files.items()},
        overrides=tuple(_shifted(one, files, script) for one in manual.values() if one is not None),
        missing={each.setting: _why(script, each) for each in changes if each.setting in nowhere},
    )


def settable(script: DiagnosedScript, name: str, subject: str) -> str:
    """Why a trial cannot change a setting; "" where it can."""
    now, kind = script.evidence.lookup(subject, name), catalogue.settings()[name].type
    other = OTHERS.get(name, "") if kind == "text" else not now if kind == "bool" else int(str(now or 0)) + 1
    return realise(script, {(subject, name): other}).missing.get(name, "")


def _why(script: DiagnosedScript, change: PatchChange) -> str:
    """Why a change has no edit, without the line that the user would write. Where neither the framework nor the files
    have the setting, the reason is that of the framework."""
    setting = script.evidence.setting(change.subject, change.setting)
    framework = script.evidence.lookup(RUN, "run.framework")
    is_nowhere = framework is not None and (setting is None or setting.location is None)
    reason = catalogue.why_missing(str(framework), change.setting) if is_nowhere else ""
    return reason or change.by_hand.partition(": ")[2] or change.by_hand


def _is_automatic(change: PatchChange) -> bool:
    """Whether it has edits or needs none."""
    return bool(change.edits) or not change.by_hand


def _without_workers(wanted: Mapping[Key, Value]) -> dict[Key, Value]:
    """A loader without workers refuses their settings."""
    none = {subject for (subject, name), value in wanted.items() if name == WORKERS and value == 0}
    return {key: value for key, value in wanted.items() if not (key[0] in none and key[1] in OF_WORKERS and value)}


def _wanted(script: DiagnosedScript, subject: str, name: str, value: Value) -> RequestedChange:
    setting = script.evidence.setting(subject, name) or _next_to_workers(script.evidence, subject, name)
    change = SettingChange(
        setting=name,
        old=setting.value if setting is not None else None,
        new=value,
        effect=effect_of(name, script.evidence, subject),
        location=setting.location if setting is not None else None,
        spelling=spelled(setting, name, value, script.evidence),
    )
    return RequestedChange(change, subject, setting, (RULE,))


def _next_to_workers(evidence: Evidence, subject: str, name: str) -> Setting | None:
    """The place for a setting of a loader that was not given: next to its number of workers."""
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


def _override(script: DiagnosedScript, change: PatchChange) -> Override | None:
    """The override of the call that takes the value; None where that call is not known."""
    if change.setting == THREADS:
        return Override("threads", "", 0, 0, {"num_threads": change.new})
    setting = script.evidence.setting(change.subject, change.setting)
    setting = setting or _next_to_workers(script.evidence, change.subject, change.setting)
    site = _site(setting, script.bundle.calls if script.bundle is not None else ())
    if site is None:
        return None
    framework = "raw" if site.call == "DataLoader" else str(script.evidence.lookup(RUN, "run.framework"))
    spelling = catalogue.spelling(framework, change.setting, script.versions)
    at = (CALLS.get(spelling.call) or frameworks.overridden(framework, spelling.call)) if spelling is not None else ""
    if spelling is None or not at:
        return None
    is_without = change.setting == WORKERS and not change.new
    refused = dict.fromkeys(worker_options.worker_keys(framework, script.versions)) if is_without else {}
    arguments = {**refused, **spelling.arguments(change.new)}
    return Override(at, site.file, site.line, max(site.line, site.end_line), arguments)


def _site(setting: Setting | None, calls: Sequence[ConsumerCall]) -> Location | None:
    """The call that takes a setting: the call that has its location among its arguments, else the observed call."""
    place = setting.location if setting is not None else None
    if place is None:
        return None
    named = [call for call in calls if call.name and call.location.call]
    holder = next((call for call in named if any(one.location == place for one in call.arguments.values())), None)
    found = holder.location if holder is not None else place
    return found if found.call and found.file != TYPED else None


def _shifted(override: Override, files: Mapping[str, bytes], script: DiagnosedScript) -> Override:
    """The override with the lines of its call in the edited `files`."""
    if override.file not in files:
        return override
    before, after = script.read(override.file).splitlines(), files[override.file].splitlines()
    same = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    at = override.first_line - 1
    first = next((block.b + at - block.a for block in reversed(same) if block.a <= at), at) + 1
    longer = max(0, len(after) - len(before) - (first - override.first_line))
    return replace(override, first_line=first, last_line=override.last_line + first - override.first_line + longer)
