"""frameworks/<name>.toml: all that is known of a trainer framework. The file's name is the value of run.framework.

Every key but `title` may be left out. A framework that is `built_on` another has what the other has, and says what
differs. The keys are the fields of `Framework`, `Hook`, `Interval` and `Launcher` below; `[dialect]` is how the
framework spells the settings, as dialects.py describes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, ValidationError, convert, field
from msgspec.structs import replace

from autotune.catalogue.vocabulary import read, tables

_FOLDER = "frameworks/"


IntervalKind = Literal["checkpoint", "evaluation", "logging"]


class Hook(Struct, frozen=True, forbid_unknown_fields=True):
    """What the probe hooks of the framework as soon as a module is imported: a class, or functions of the module."""

    module: str
    """The module that defines it."""

    type: str = ""
    """The class; "" for functions of the module, which only `times` can name."""

    object: str = ""
    """The key under which a Recording describes the newest instance; "" describes none."""

    after: str = "__init__"
    """The method after which an instance has its values."""

    fields: tuple[str, ...] = ()
    """The fields that are read: an allowlist, no names, paths or tokens."""

    read: str = ""
    """The function of probe/hooks/frameworks.py that reads computed settings, such as a profiler object."""

    times: Mapping[str, IntervalKind] = field(default_factory=dict)
    """Methods, or functions, whose time is a phase."""

    override: Literal["", "arguments", "fields"] = ""
    """How the probe gives other values than the script: as arguments of the call, or as fields, before `after`."""

    resume: str = ""
    """A function of probe/hooks/resume.py that saves once and goes on from that save."""


class Interval(Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that say how often something comes."""

    steps: tuple[str, ...] = ()
    """Optimizer steps between two, the first field that has a number; below 1 it is a share of the run."""

    strategy: str = ""
    """A field that is "steps" where these count, or "epoch"."""

    batches: str = ""
    """Batches between two where it is an integer, a share of the epoch where it is not."""

    epochs: str = ""
    """Epochs by which such a share is multiplied."""

    enabled: str = ""
    """A field that is False where it never comes."""


class Launcher(Struct, frozen=True, forbid_unknown_fields=True):
    """What starts a training from a shell."""

    name: str

    verbs: tuple[str, ...] = ()
    """One of these must follow the command: "sft", "detect train"."""

    switches: frozenset[str] = frozenset()
    """Own flags without a value; every other own flag takes one."""

    is_program: bool = False
    """Whether the verb, or the command itself, is what trains: then all the words behind it are for it."""

    processes: tuple[str, ...] = ()
    """Flags whose product is the number of processes."""

    one_each: bool = False
    """Whether an absent one of them counts as 1."""

    one_with: tuple[str, ...] = ()
    """A flag with which it starts one process whatever their number, unless the flag after it is there, too."""

    dialect: str | None = None
    """That of the flags for what it starts."""

    own_dialect: str | None = None
    """That of its own flags, where they are settings."""

    modules: tuple[str, ...] = ()
    """`python -m` of these is the launcher, its verb left out."""

    trains: tuple[str, ...] = ()
    """`python -m` of these trains, with flags in `dialect`."""


class Framework(Struct, frozen=True, forbid_unknown_fields=True):
    """A trainer framework, as its file describes it."""

    name: str

    title: str
    """How sentences call it."""

    packages: tuple[str, ...] = ()
    """Packages by the names that are imported."""

    distributions: tuple[str, ...] = ()
    """The names of its distribution, which reports may show; versions are kept under the first."""

    aliases: Mapping[str, str] = field(default_factory=dict)
    """Older names of its modules: { pytorch_lightning = "lightning.pytorch" }."""

    built_on: str = ""
    """The framework whose settings object and trainer it extends."""

    loop: Literal["framework", "script"] = "framework"
    """Who goes through the batches: the framework, or the script's own loop around it."""

    replaces_loop: tuple[str, ...] = ()
    """Packages whose import says that a loop in the script is not all that trains."""

    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Classes whose arguments are settings, by module; "*Trainer" is every class that ends so."""

    positional: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of positional arguments, by class."""

    constructs: tuple[str, ...] = ()
    """Those of them that can be constructed with neither a model nor a launcher, to try changed arguments."""

    parsed: str = ""
    """How the names of its classes end that a parser fills from a command line."""

    config_readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names in a script that read configs, by the dialect of these."""

    starts: tuple[str, ...] = ()
    """Methods that train: fit."""

    starts_by_call: tuple[str, ...] = ()
    """Classes that train when they are made."""

    step_methods: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Methods of the user's that it calls once per micro-batch, with the ends of the names of their base classes."""

    wrapping_methods: tuple[str, ...] = ()
    """Its methods that return what they get, wrapped: prepare(model)."""

    cpu_arguments: tuple[str, ...] = ()
    """Arguments of its classes that keep the run off the GPU."""

    train_loader_methods: tuple[str, ...] = ()
    """Methods of the user's that make the train loader."""

    eval_loader_methods: tuple[str, ...] = ()
    """Methods of the user's that make other loaders."""

    packs: Mapping[str, bool] = field(default_factory=dict)
    """Whether a trainer ("package.Class") can put several samples into one row. Other trainers cannot."""

    hooks: tuple[Hook, ...] = ()
    """What the probe hooks. The first with `fields` and an `object` holds the settings."""

    observed: Mapping[str, str] = field(default_factory=dict)
    """Settings and facts that the fields of that object say."""

    intervals: Mapping[IntervalKind, Interval] = field(default_factory=dict)
    """How often it saves, evaluates and logs, as that object says."""

    decides: tuple[str, ...] = ()
    """Settings that are observed elsewhere and changed at that object."""

    unseen: tuple[str, ...] = ()
    """Facts that the script states where the probe does not read."""

    engines: tuple[str, ...] = ()
    """Packages to which it hands precision and loss scaling."""

    loader_files: tuple[str, ...] = ()
    """Parts of its file names between the user's call of DataLoader and torch's constructor."""

    run_folder: str = ""
    """The folder in which it keeps past runs, below the working folder."""

    counts_steps: bool = False
    """Whether its progress bar counts optimizer steps."""

    first_epoch: int = 1
    """The number of the first epoch in its progress lines."""

    more_devices: str = ""
    """What a user does to train on more devices."""

    launcher: Launcher | None = None
    """Its own command."""

    dialect: Mapping[str, Any] = field(default_factory=dict)
    """How it spells the settings (dialects.py)."""


@cache
def frameworks() -> Mapping[str, Framework]:
    """Every framework by name, in the order of precedence: a framework stands before those that it builds on, and the
    libraries of raw loops come last."""
    found = (_framework(file) for file in tables() if file.startswith(_FOLDER))
    ranked = sorted(found, key=lambda one: (one.loop == "script", not one.built_on))
    return MappingProxyType({one.name: one for one in ranked})


def _framework(file: str) -> Framework:
    """What a file says. Raises ValueError, with the file, for what no framework has."""
    try:
        return convert({"name": file.removeprefix(_FOLDER).removesuffix(".toml"), **read(file)}, Framework)
    except ValidationError as error:
        raise ValueError(f"autotune/catalogue/{file}: {error}") from error


def chain(name: str) -> Iterator[Framework]:
    """The framework, what it is built on, what that is built on ...; nothing for a name that is no framework."""
    while name in frameworks():
        one = frameworks()[name]
        yield one
        name = one.built_on


@cache
def aliases() -> Mapping[str, str]:
    """Packages under their older names."""
    return MappingProxyType({old: new for one in frameworks().values() for old, new in one.aliases.items()})


@cache
def renamed_distributions() -> Mapping[str, str]:
    """Alias of a framework's distribution -> the distribution whose version counts."""
    known = (one.distributions for one in frameworks().values() if one.distributions)
    return {name: first for first, *others in known for name in others}


def module_names(module: str) -> tuple[str, ...]:
    """The names that a module has had: lightning.pytorch.trainer, pytorch_lightning.trainer."""
    older = ((old, new) for old, new in aliases().items() if f"{module}.".startswith(f"{new}."))
    return (module, *(old + module.removeprefix(new) for old, new in older))


@cache
def script_packages() -> frozenset[str]:
    """Packages that scripts import to train with, under all their names."""
    packages = {package for one in frameworks().values() if one.classes for package in one.packages}
    return frozenset(packages | aliases().keys())


@cache
def run_classes() -> frozenset[str]:
    """Classes whose object is a run, or holds its settings."""
    hooked = {hook.type for hook in hooks() if hook.object}
    return frozenset(hooked.union(*(one.starts_by_call for one in frameworks().values())))


@cache
def run_folders() -> frozenset[str]:
    """Folders in which frameworks keep past runs."""
    return frozenset(one.run_folder for one in frameworks().values() if one.run_folder)


@cache
def hooks() -> tuple[Hook, ...]:
    """What the probe hooks, of all frameworks, once for each name that a module has had."""
    found = (hook for one in frameworks().values() for hook in one.hooks)
    return tuple(replace(hook, module=name) for hook in found for name in module_names(hook.module))


def library_versions() -> dict[str, str]:
    """Modules of the frameworks that say their version, and the distribution that it is of. A package that several
    frameworks share (lightning, with Fabric in it) is of the first one's distribution."""
    found: dict[str, str] = {}
    for one in frameworks().values():
        for module, name in (
            *((name.replace("-", "_"), name) for name in one.distributions),
            *zip(one.packages[:1], one.distributions[:1], strict=False),
        ):
            found.setdefault(module, name)
    return found


def loader_files() -> Iterator[str]:
    """Parts of file names of the frameworks between the user's call of DataLoader and torch's constructor."""
    return (part for one in frameworks().values() for part in one.loader_files)


@cache
def settings_objects() -> Mapping[str, str]:
    """The object of a Recording that holds a framework's settings -> the framework, the outermost first."""
    return MappingProxyType({name: one.name for one in frameworks().values() if (name := _settings_object(one))})


@cache
def resumable() -> Mapping[str, str]:
    """The frameworks whose save and resume the probe can ask for: the object in a Recording -> how they are called."""
    found = [one for one in frameworks().values() if any(hook.resume for hook in one.hooks)]
    return MappingProxyType({_settings_object(one): one.title for one in found})


def _settings_object(framework: Framework) -> str:
    return next((hook.object for hook in framework.hooks if hook.object and hook.fields), "")


@cache
def observed(name: str) -> Mapping[str, str]:
    """Settings and facts that the framework's object says -> its fields."""
    found: dict[str, str] = {}
    for one in reversed([*chain(name)]):
        found |= one.observed
    return MappingProxyType(found)


def interval(name: str, kind: IntervalKind) -> Interval | None:
    """How the framework's object says how often something comes."""
    return next((one.intervals[kind] for one in chain(name) if kind in one.intervals), None)


def overridden(name: str, call: str) -> str:
    """The object at whose call the probe can override an argument of `call`; "" for none.

    The call of a framework that is built on another makes an object of the other.
    """
    callers = [one for one in chain(name) if one.classes and one.dialect.get("call") == call]
    made = (hook for one in callers for base in chain(one.name) for hook in base.hooks)
    return next((hook.object for hook in made if hook.override), "")


def construct_module(name: str, class_: str) -> str | None:
    """The module from which a class of the framework can be constructed; None for a class that cannot."""
    one = frameworks().get(name)
    if one is None or not _matches(class_, one.constructs):
        return None
    return next((module for module, classes in one.classes.items() if _matches(class_, classes)), None)


def of_class(package: str, class_: str) -> str | None:
    """The framework that has this class of a package, with arguments that are settings; None for any other class."""
    return _exact_classes().get((package, class_)) or next(
        (name for root, end, name in _class_endings() if root == package and class_.endswith(end)), None
    )


@cache
def _exact_classes() -> Mapping[tuple[str, str], str]:
    return {(root, class_): name for root, class_, name in _all_classes() if not class_.startswith("*")}


@cache
def _class_endings() -> tuple[tuple[str, str, str], ...]:
    return tuple((root, class_[1:], name) for root, class_, name in _all_classes() if class_.startswith("*"))


def _all_classes() -> Iterator[tuple[str, str, str]]:
    """The package, the class (or "*" and how it ends) and the framework of every class that takes settings."""
    for one in frameworks().values():
        for module, classes in one.classes.items():
            yield from ((module.partition(".")[0], class_, one.name) for class_ in classes)


def _matches(class_: str, patterns: tuple[str, ...]) -> bool:
    return any(class_ == one or (one.startswith("*") and class_.endswith(one[1:])) for one in patterns)


@cache
def step_classes(method: str) -> tuple[str, ...]:
    """Suffixes of class names: a framework calls this method of such a class once per micro-batch."""
    return tuple(end for one in frameworks().values() for end in one.step_methods.get(method, ()))


@cache
def loader_methods() -> Mapping[str, bool]:
    """Methods of the user's that make a loader, and whether it is the train loader."""
    known = frameworks().values()
    others = {method: False for one in known for method in one.eval_loader_methods}
    return MappingProxyType(others | {method: True for one in known for method in one.train_loader_methods})


@cache
def wrapping_methods() -> frozenset[str]:
    """Methods of the frameworks that return what they get, wrapped."""
    return frozenset(method for one in frameworks().values() for method in one.wrapping_methods)


@cache
def packing() -> Mapping[str, bool]:
    """Whether a trainer ("package.Class") can put several samples into one row."""
    return MappingProxyType({name: can for one in frameworks().values() for name, can in one.packs.items()})


def launchers() -> Iterator[Launcher]:
    """The launchers of the frameworks."""
    return (one.launcher for one in frameworks().values() if one.launcher is not None)
