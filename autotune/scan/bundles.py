"""The files that were found, as bundles: each is read at most once, and those that make one run are put together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from autotune.catalogue.dialects import Version
from autotune.model.evidence import RUN, Fact, Location
from autotune.model.scanned import Bundle, Scanned
from autotune.model.source import SCRIPTS
from autotune.scan import kept_bundles, missing_modules, unrecognised
from autotune.scan.bundle import BundleFiles, Progress, bundle, gather, no_progress
from autotune.scan.declared import Declared
from autotune.scan.declared import facts as software
from autotune.scan.files import FileSearch
from autotune.scan.library import Library
from autotune.scan.named_scripts import NamedScripts

ASK_FOR_USE = ("arguments.removed", missing_modules.FOUND)
"""The weight of these facts depends on whether anybody starts the script; for that all texts of a project are read."""

OF_UNDECLARED = ("arguments.declared", "arguments.may_pass_num_items", "names.declared")
"""Facts that hold because nothing near a file declares a release."""


def read_bundles(
    found: FileSearch,
    root: Path,
    exclude: Sequence[str],
    versions: Mapping[str, Version] | None,
    progress: Progress | None = None,
) -> Scanned:
    """What `scan` gives of the files that were found."""
    real = Path(os.path.realpath(root))
    library, declared = Library(real, {file.name: file for file in found.files}, exclude), Declared(real)
    # What is named is read anew: few files, of which the rest of the project says what they mean.
    kept = kept_bundles.load(library) if not found.named else None
    gathered = [_to_its_end(parts) for parts in gather(library, found.named, kept, progress or no_progress)]
    if kept is not None:
        kept.save()
    made = (library.attempt(parts.files[0], partial(_bundle, parts, library, declared, versions)) for parts in gathered)
    scripts = NamedScripts(real)
    used = zip(gathered, made, strict=True)
    bundles = tuple(_with_use(one, parts, scripts, found.named) for parts, one in used if one is not None)
    notes = (*found.notes, *library.notes, *declared.notes)
    return Scanned(bundles, (*notes, *unrecognised.notes(found, bundles, notes)), found.num_files)


def _to_its_end(parts: BundleFiles) -> BundleFiles:
    """A bundle; of a script that ends where it imports a module which the project does not hold, that alone."""
    ends = tuple(fact for fact in parts.facts if fact.name == missing_modules.FOUND)
    return replace(parts, calls=(), facts=ends) if ends else parts


def _with_use(made: Bundle, parts: BundleFiles, scripts: NamedScripts, named: Set[str]) -> Bundle:
    """A bundle with fact `code.is_named_nowhere`, where it is asked for and true of its script."""
    has_command = bool(parts.launches) or not made.name.endswith(SCRIPTS) or made.name in named
    if has_command or not any(fact.name in ASK_FOR_USE for fact in made.facts):
        return made
    if not scripts.names_nowhere(made.name):
        return made
    return replace(made, facts=(*made.facts, Fact("code.is_named_nowhere", RUN, True, (Location(made.name, 1),))))


def _bundle(parts: BundleFiles, library: Library, declared: Declared, versions: Mapping[str, Version] | None) -> Bundle:
    if versions is not None:
        return bundle(parts, library, versions, ())
    file = parts.files[0]
    stated, asked = declared.versions(file), declared.ranges(file)
    made = bundle(parts, library, stated, software(stated), asked)
    if not any(fact.name in OF_UNDECLARED and fact.value for fact in made.facts):
        return made
    elsewhere = {name: one for name, one in declared.elsewhere().items() if name not in asked and name not in stated}
    return bundle(parts, library, stated, software(stated), {**elsewhere, **asked}) if elsewhere else made
