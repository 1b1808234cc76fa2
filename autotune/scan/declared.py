"""The releases of packages that a project declares for the scripts of a folder."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from autotune import catalogue, reading
from autotune.catalogue.dialects import Version
from autotune.errors import UsageError
from autotune.model.evidence import RUN, Fact
from autotune.model.scanned import Pin, ScanNote
from autotune.scan.files import SKIPPED_FOLDERS, unread
from autotune.scan.ranges import Range, exactly, ranges, widest

LOCKS = ("uv.lock", "poetry.lock")
"""What is installed, to the last digit: goes before what others ask for."""

PYTHON = ".python-version"

CONDA_FILES = tuple(
    f"{name}.{end}" for name in ("environment", "env", "conda", "conda_env", "conda-env") for end in ("yml", "yaml")
)

LISTS = ("*requirement*.txt", "reqs*.txt", "pip*.txt")
"""Lists for pip: requirements.txt, requirements-dev.txt, requirement.txt, dev-requirements.txt, reqs.txt."""

PLAIN = (PYTHON, *LISTS, "pyproject.toml", "setup.py", "setup.cfg", *CONDA_FILES)

SETUPS = frozenset({
    *("docker", ".devcontainer", "conda", "install", "requirements"),
    *("env", "envs", "environment", "environments"),
})  # fmt: skip
"""Folders beside the code that set an environment up, in lower case: what they say counts for a package of which no
nearer file says anything."""

IN_SETUPS, IN_REQUIREMENTS = ("*.yml", "*.yaml"), "*.txt"
"""What of such a folder is read too: environments of conda, whatever their names, and in `requirements` plain lists."""

CONDA_KEY = re.compile(rb"^dependencies:", re.MULTILINE)
"""What makes a YAML file of another name an environment of conda."""

PROSE = ("README*", "INSTALL*", "Dockerfile*", "*.dockerfile", "*.sh")
"""What tells a person, or a machine, to install releases: `pip install torch==1.11.0`. Counts where nothing else
pins, and of a shell script only where it installs for the script that is asked about."""

STARTED, MODULES = re.compile(r"[\w.-]+\.(?:py|ya?ml|json|toml)\b"), re.compile(r"-m\s+([\w.]+)")
"""What a shell script starts: scripts and configs, and modules."""

INSTALLING = ("setup", "install")
"""How the names of shell scripts begin that install for all of their folder, whatever else they do."""

INSTALLERS = frozenset({
    *("pip", "pip3", "uv", "conda", "mamba", "apt", "apt-get", "sudo", "git", "wget", "curl", "cd", "mkdir", "rm"),
    *("tar", "unzip", "export", "echo", "set", "source", "module", "eval", "if", "then", "else", "fi"),
})  # fmt: skip
"""Commands of a shell script that only installs."""

LIMIT = 2_000_000
"""Bytes of a file that is read."""

MOST_PROSE = 300_000
"""Bytes of instructions that are read."""

MOST_FOLDERS = 1_000
"""Folders of a project whose declarations are put together."""

_PREFIX = "software."


class Instructions(Struct, frozen=True):
    """The releases that instructions install, and the names of the files for which; None for any of the folder."""

    releases: Mapping[str, Version]
    started: frozenset[str] | None = None


class Releases(Struct, frozen=True):
    """What a file or folder says of packages, by name: the release that is pinned, and the range that is asked for.

    `bounded` are the requirements that bound a package from above, where they stand. `python` is () for any. `told` is
    what instructions install. `setups` are the folders in the folder that set an environment up.
    """

    pinned: Mapping[str, Version] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    bounded: tuple[Pin, ...] = ()
    python: Version = ()
    told: tuple[Instructions, ...] = ()
    setups: tuple[str, ...] = ()

    def installed_for(self, name: str) -> Iterator[Mapping[str, Version]]:
        """What instructions install for a file of this name."""
        return (one.releases for one in self.told if one.started is None or name in one.started)


class Declared(Struct):
    """Reads each folder at most once. `notes` say which files could not be read."""

    root: Path
    notes: list[ScanNote] = field(default_factory=list)
    _known: dict[str, Releases] = field(default_factory=dict)
    _known_setups: dict[str, Releases] = field(default_factory=dict)
    _everywhere: Mapping[str, Range] | None = None

    def versions(self, file: str) -> Mapping[str, Version]:
        """Pins of the nearest folder that has any, from that of `file` (a name below the root) up to the root.

        "python" is that of the nearest folder that names one. What nothing pins or asks for, the nearest
        instructions for it do, and then the nearest folders that set an environment up.
        """
        found = next((known.pinned for known in self._upwards(file) if known.pinned), {})
        python = next((known.python for known in self._upwards(file) if known.python), ())
        # Of the same package the nearest folder's instructions hold.
        installed: dict[str, Version] = {}
        beside: dict[str, Version] = {}
        name = posixpath.basename(file)
        for known in self._upwards(file):
            installed = {**agreement(known.installed_for(name)), **installed}
            setups = self._setup_folders(known)
            told = agreement(releases for one in setups for releases in one.installed_for(name))
            beside = {**told, **agreement(one.pinned for one in setups), **beside}
        asked, stated = self._asked(file), self._stated(file)
        told = {package: release for package, release in installed.items() if package not in asked}
        beside = {package: release for package, release in beside.items() if package not in stated}
        return {**beside, **told, **({"python": python} if python else {}), **found}

    def ranges(self, file: str) -> Mapping[str, Range]:
        """Ranges of the nearest folder that says anything of packages, and for others those of the nearest folders
        that set an environment up."""
        beside: dict[str, Range] = {}
        for known in self._upwards(file):
            beside = {**widest(row for one in self._setup_folders(known) for row in one.ranges.items()), **beside}
        stated = self._stated(file)
        beside = {package: one for package, one in beside.items() if package not in stated}
        return {**beside, **self._asked(file)}

    def elsewhere(self) -> Mapping[str, Range]:
        """The bounded ranges that all files of the project ask for together: parts of a project share an environment
        unless they say otherwise."""
        if self._everywhere is None:
            every = [self._of_folder_once(folder) for folder in self._folders()]
            asked = [row for one in every for row in one.ranges.items()]
            pins = [
                row for one in every for each in (one.pinned, *(t.releases for t in one.told)) for row in each.items()
            ]
            found = widest((*asked, *((package, exactly(package, release)) for package, release in pins)))
            self._everywhere = {package: one for package, one in found.items() if one.high is not None or one.is_source}
        return self._everywhere

    def _folders(self) -> Iterator[str]:
        """The folders of the project, as names below the root; none of a project that has too many."""
        found: list[str] = []
        for folder, inner, _ in os.walk(self.root):
            inner[:] = [one for one in inner if one not in SKIPPED_FOLDERS and not one.startswith(".")]
            below = os.path.relpath(folder, self.root).replace(os.sep, "/")
            found.append("" if below == "." else below)
            if len(found) > MOST_FOLDERS:
                return iter(())
        return iter(found)

    def _stated(self, file: str) -> set[str]:
        """The packages of which files of the folders themselves ask for a release."""
        return {package for known in self._upwards(file) for package in (*known.pinned, *known.ranges)}

    def _asked(self, file: str) -> Mapping[str, Range]:
        return next((known.ranges for known in self._upwards(file) if known.pinned or known.ranges), {})

    def pins(self, file: str) -> tuple[Pin, ...]:
        """What the nearest folder that says anything of packages bounds from above, lock files aside."""
        return next((known.bounded for known in self._upwards(file) if known.pinned or known.ranges), ())

    def _upwards(self, file: str) -> Iterator[Releases]:
        folder = file
        while folder:
            folder = posixpath.dirname(folder)
            yield self._of_folder_once(folder)

    def _of_folder_once(self, folder: str) -> Releases:
        if folder not in self._known:
            self._known[folder] = self._of_folder(folder)
        return self._known[folder]

    def _setup_folders(self, known: Releases) -> list[Releases]:
        """What the folders say that set an environment up in a folder."""
        for folder in known.setups:
            if folder not in self._known_setups:
                self._known_setups[folder] = self._of_folder(folder, is_setup=True)
        return [self._known_setups[folder] for folder in known.setups]

    def _of_folder(self, folder: str, *, is_setup: bool = False) -> Releases:
        """What the files of a folder agree on; a lock file decides."""
        try:
            names = sorted(os.listdir(self.root / folder))  # noqa: PTH208
        except OSError:
            return Releases()
        plain = [one for one in names if _matches(one, _patterns(folder) if is_setup else PLAIN)]
        stated = [self._of_file(posixpath.join(folder, name)) for name in plain]
        found = agreement(one.pinned for one in stated)
        for name in (one for one in LOCKS if one in names):
            found.update(self._of_file(posixpath.join(folder, name)).pinned)
        pins = tuple(pin for one in stated for pin in one.bounded)
        python = next((one.python for one in stated if one.python), ())
        told = tuple(self._told(posixpath.join(folder, name)) for name in names if _is_prose(name))
        asked = widest(row for one in stated for row in one.ranges.items())
        setups = tuple(posixpath.join(folder, one) for one in names if not is_setup and one.lower() in SETUPS)
        return Releases(found, asked, pins, python, told, setups)

    def _told(self, name: str) -> Instructions:
        from autotune.scan.requirements import told  # as below

        real = os.path.realpath(self.root / name)
        try:
            data = reading.read(real, most_bytes=MOST_PROSE) if Path(real).is_relative_to(self.root) else b""
        except OSError:
            return Instructions({})
        releases = told(data)
        base = posixpath.basename(name)
        is_launcher = releases and base.endswith(".sh") and not base.startswith(INSTALLING)
        return Instructions(releases, _started_files(data, base) if is_launcher else None)

    def _of_file(self, name: str) -> Releases:
        # Most projects pin nothing where a script stands.
        from autotune.scan.requirements import bounded_requirements, python, requirements, versions

        real, base = os.path.realpath(self.root / name), posixpath.basename(name)
        if not Path(real).is_relative_to(self.root):
            return Releases()
        try:
            data = reading.read(real, most_bytes=LIMIT)
            if base.endswith((".yml", ".yaml")) and base not in CONDA_FILES and not CONDA_KEY.search(data):
                return Releases()
            named = python(data, base) if base in (PYTHON, "pyproject.toml") else None
            if base == PYTHON:
                return Releases(python=named or ())
            pins = [Pin(text, f"{name}:{line}" if line else name) for text, line in bounded_requirements(data, base)]
            return Releases(versions(data, base), ranges(requirements(data, base)), tuple(pins), named or ())
        except OSError as error:
            self.notes.append(ScanNote(name, unread(error, LIMIT)))
        except UsageError as error:
            self.notes.append(ScanNote(name, error.what, is_error=True))
        return Releases()


def agreement(every: Iterable[Mapping[str, Version]]) -> dict[str, Version]:
    """The one release of each package that files agree on."""
    agreed: dict[str, set[Version]] = {}
    for package, version in (row for one in every for row in one.items()):
        agreed.setdefault(package, set()).add(version)
    return {package: next(iter(versions)) for package, versions in agreed.items() if len(versions) == 1}


def _is_prose(name: str) -> bool:
    return _matches(name, PROSE)


def _patterns(setup: str) -> tuple[str, ...]:
    """The names of the files that are read of a folder which sets an environment up."""
    is_list = posixpath.basename(setup).lower() == "requirements"
    return (*PLAIN, *IN_SETUPS, *([IN_REQUIREMENTS] if is_list else []))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _started_files(script: bytes, name: str) -> frozenset[str] | None:
    """The files that a shell script of this name starts with what it installs; None where it only installs."""
    text = script.decode("utf-8", errors="replace").replace("\\\n", " ")
    lines = (re.sub(r"\bpython[\d.]*\s+-m\s+(?=pip\b)", "", line) for line in text.splitlines())
    commands = (re.sub(r"^(?:\s*\w+=\S*)+", "", one).split() for line in lines for one in re.split(r"&&|\|\||;", line))
    if all(not words or words[0] in INSTALLERS or words[0].startswith("#") for words in commands):
        return None
    modules = (f"{one.rpartition('.')[2]}.py" for one in MODULES.findall(text))
    return frozenset({name, *STARTED.findall(text), *modules})


def facts(versions: Mapping[str, Version]) -> Iterator[Fact]:
    """Facts `software.*` of packages of these versions."""
    for name, entry in catalogue.facts().items():
        package = name.removeprefix(_PREFIX).replace("_", "-")
        if name.startswith(_PREFIX) and entry.type == "version" and package in versions:
            yield Fact(name, RUN, versions[package])
