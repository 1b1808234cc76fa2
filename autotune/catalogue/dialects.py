"""How each framework and config format spells each canonical setting, by version.

A trainer framework has its dialect in frameworks/<name>.toml, below [dialect]: there `frameworks` is the name of the
file and `package` its first distribution unless they are given, and an entry is [dialect."loader.num_workers"].
A config format of no such framework is a file dialects/<name>.toml:

frameworks = ["hf_trainer"]       the names that the fact run.framework has
package = "transformers"          whose version `since` and `before` mean
call = "TrainingArguments"        whose argument a key is; an entry may name its own
method = true                     `call` is a method, of any object in a script that imports `package`
extends = "other"                 entries that this dialect does not have are those of the other
otherwise = "why"                 what `missing` is for every setting without an entry
syntaxes = ["yaml", "json"]       config files and command lines ("shell") may be in this dialect; their keys are dotted
flat = true                       keys of config files stand in tables of any name, which say nothing
targets = true                    arguments of the one training loader, wherever it stands, count as if at the top
weak = true                       only what no other dialect recognises
open = true                       nothing is known of keys that are not there: the project has names of its own
inherits = true                   Python files of nested dicts, which name the files that they inherit from
starts = ["*train_network.py"]    scripts and modules whose command line has these keys, whatever their code shows
replaces = "words"                what of a command counts before such a config, whatever script takes it: "words" as
                                  a.b=8, "pairs" as A.B 8, "flags" as --a 8, which is `a` for all that refers to it
changes = { amp = ["a.type"] }    keys that flags of its scripts change: with one of them they are unknown
arguments = ["data", "epochs"]    a call of `method` has one of these
processes = ["devices"]           keys whose product is the number of processes with micro-batches of their own
lora = ["adapter=*lora"]          any of these says that only an adapter is trained
model = ["base_model"]            keys whose value names the model
full = ["tuning=full"]            any of these says that all is trained, unless `lora` or `partial` holds
partial = ["freeze*"]             not all is. Without `full` nothing is known of what is trained
shape = ["n_layers", "d_model"]   keys of the number of layers and of their width
fsdp, fsdp_legacy, fsdp_xla, offload_optimizer, offload_parameters, offload_activations = patterns that say so

[[recognise]]                     one such table is enough. A pattern is "key" or "key=value", with * in either
all = ["tokens.sequence_length"]  each is there
some = [["a", "b"]]               one of each list is there
two = ["a", "b", "c"]             two of these are there
none = ["c"]                      and none of these

["loader.num_workers"]
key = "dataloader_num_workers"
also = ["num_workers"]            other keys that say the same, read and never written
default = 0                       the value in force when no key is given
only = { "checkpoint.strategy" = "steps" }              the key counts only while another setting, or key, is this
unless = ["rl", "stage=pt"]       it says nothing where one of these patterns is there
form = "{}ba"                     how its number is written; what is written otherwise (1ep, 0.5) is in another unit

["train.activation_checkpointing"]                      by version, `before` excluded:
versions = [{ before = "5.23", key = "gradient_checkpointing" }, { since = "5.23", key = "activation_checkpointing" }]

["train.precision"]                                      canonical values that are written in another way:
key = "bf16"
values = { bf16-mixed = { bf16 = true }, fp32 = { bf16 = false, fp16 = false } }
default = { bf16 = false, fp16 = false }
means = { "16" = "fp16-mixed" }                          other words of the key; written where values has no row
read_only = true                                         what to write is what the extended dialect says

["data.packing"]
missing = "why this dialect has no such key"
follows = "loader.batch_size"                            it is computed so that the global batch holds when that changes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from autotune.catalogue.frameworks import frameworks
from autotune.catalogue.vocabulary import read, settings, tables
from autotune.model.evidence import Value

Version = tuple[int, ...]

_FOLDER = "dialects/"


class SettingSpelling(Struct, frozen=True):
    """`key` is an argument of `call`, or a function that takes the value when `call` is empty; `note`: what to mind.

    `values` holds the arguments of every canonical value that is not written as `key` = value, `means` what other
    words of the key are read as, and `form` how a number is written when it has a unit ("{}ba").
    """

    key: str
    call: str = ""
    note: str = ""
    values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    means: Mapping[str, Value] = field(default_factory=dict)
    form: str = "{}"

    def takes(self, value: Value) -> bool:
        """Whether the framework has this value: a key with words of its own has those that are read as something."""
        return bool(self._found(value)) or not (self.values or self.means)

    def arguments(self, value: Value) -> Mapping[str, Value]:
        """What to write so that the setting is `value`, by key."""
        return self._found(value) or {self.key: value if self.form == "{}" else self.form.format(value)}

    def _found(self, value: Value) -> Mapping[str, Value]:
        """The arguments that the dialect has for `value`: a row of their own, the value itself, or a word for it."""
        name = str(value).lower() if isinstance(value, bool) else str(value)
        if name in self.values or self.means.get(name) == value:
            return self.values.get(name, {self.key: value})
        return next(({self.key: word} for word, meant in self.means.items() if meant == value), {})

    def written(self, value: Value) -> str:
        """The key; with its value where that is not written as it is: "bf16=True"."""
        arguments = self.arguments(value)
        if arguments == {self.key: value}:
            return self.key
        return ", ".join(f"{key}={one!r}" for key, one in arguments.items())


class DialectReading(Struct, frozen=True):
    """One way in which a dialect says `setting`; `default` is by key, what it holds when that key is absent.

    `is_main` says that `call` is the dialect's own ("TrainingArguments"), which has subclasses and other names;
    `is_config` that the keys may stand in a config file or on a command line.
    """

    setting: str
    keys: tuple[str, ...]
    call: str
    is_main: bool
    is_config: bool
    default: Mapping[str, Value]
    only: Mapping[str, Value]
    unless: tuple[str, ...]
    form: str
    values: Mapping[str, Mapping[str, Value]]
    means: Mapping[str, Value]


def spelling(framework: str, setting: str, versions: Mapping[str, Version]) -> SettingSpelling | None:
    """How `framework` (a value of run.framework) spells `setting`, given versions by package; None without a key.

    A package whose version is unknown is taken to be the newest.
    """
    entry, dialect = _entry(_of_framework(framework), setting, to_write=True)
    installed = versions.get(dialect.get("package", ""))
    for row in _rows(entry):
        if _covers(row, installed):
            return SettingSpelling(
                key=row["key"],
                call=row.get("call", dialect.get("call", "")),
                note=row.get("note", ""),
                values=row.get("values", {}),
                means=row.get("means", {}),
                form=row.get("form", "{}"),
            )
    return None


def why_missing(framework: str, setting: str) -> str:
    """Why `framework` has no key for `setting`; "" when it has one or is not known."""
    dialect = _of_framework(framework)
    entry = _entry(dialect, setting, to_write=True)[0]
    otherwise = next((level["otherwise"] for level in _levels(dialect) if "otherwise" in level), "")
    return str(entry.get("missing", "" if entry else otherwise))


def follows(name: str, setting: str) -> str:
    """The setting from which the dialect of this name computes `setting`; "" where it computes none."""
    return str(dialects()[name].get(setting, {}).get("follows", ""))


def readings(name: str, versions: Mapping[str, Version]) -> Iterator[DialectReading]:
    """Every way in which the dialect of this name says a setting, whatever the release: files outlive releases.

    Only the release in force gives defaults, and an unknown release only those on which all releases agree.
    """
    dialect = dialects().get(name, {})
    for setting in settings():
        entry, level = _entry(dialect, setting, to_write=False)
        rows, installed = _rows(entry), versions.get(level.get("package", ""))
        agreed = installed is not None or all(row.get("default") == rows[0].get("default") for row in rows)
        for row in sorted(rows, key=lambda row: not _covers(row, installed)):
            yield _reading(setting, row, level, has_default=agreed and _covers(row, installed))


@cache
def functions() -> Mapping[str, str]:
    """The functions that take a setting, by their last name: "set_num_threads" is torch.set_num_threads."""
    names = [reading.keys[0] for reading in readings("torch", {}) if not reading.call]
    return {name.rpartition(".")[2]: name for name in names}


@cache
def methods() -> Mapping[str, str]:
    """The dialects whose arguments a method gets, by the method."""
    return {rows["call"]: name for name, rows in dialects().items() if rows.get("method")}


def about(name: str, key: str) -> tuple[str, ...]:
    """What the dialect says at its top about `key` ("processes", "lora", "model" ...), else what it extends."""
    found = (level[key] for level in _levels(dialects().get(name, {})) if key in level)
    return tuple(next(found, ()))


def started(path: str) -> tuple[str, ...]:
    """The dialects of the command line of a script, or of a module, by its name."""
    plain = path.rpartition("/")[2]
    return tuple(
        name for name, rows in dialects().items() if any(fnmatchcase(plain, one) for one in rows.get("starts", ()))
    )


@cache
def is_own(name: str, call: str) -> bool:
    """Whether what is called takes the dialect's own settings: a config or a command line (""), the dialect's call.

    What extends the call has another name: Seq2SeqTrainingArguments, DPOConfig.
    """
    levels = list(_levels(dialects().get(name, {})))
    own = [level["call"] for level in levels if "call" in level]
    named = {row["call"] for level in levels for entry in _entries(level) for row in _rows(entry) if "call" in row}
    return not call or call in own or (call not in named and bool(own) and call.endswith(("Arguments", "Config")))


def extends(name: str, other: str) -> bool:
    """Whether the dialect `name` is `other` with entries of its own."""
    return any(level is dialects()[other] for level in _levels(dialects()[name]))


@cache
def dialects() -> Mapping[str, Mapping[str, Any]]:
    """Every dialect by its name: that of its file, without the suffix."""
    names = [name for name in tables() if name.startswith(_FOLDER)]
    found = {name.removeprefix(_FOLDER).removesuffix(".toml"): read(name) for name in names}
    for name, one in frameworks().items():
        if one.dialect:
            found[name] = {"frameworks": [name], "package": "".join(one.distributions[:1]), **one.dialect}
    return MappingProxyType(dict(sorted(found.items())))


def version(text: str) -> Version:
    """ "4.46.1" as (4, 46, 1)."""
    return tuple(int(part) for part in text.split("."))


def is_before(one: Version, other: Version) -> bool:
    """Whether a release is older than another; 5 and 5.0.0 are the same."""
    return _bare(one) < _bare(other)


def _bare(release: Version) -> Version:
    """Without zeros at the end."""
    while release and not release[-1]:
        release = release[:-1]
    return release


def _of_framework(framework: str) -> Mapping[str, Any]:
    return next((rows for rows in dialects().values() if framework in rows["frameworks"]), {})


def _levels(dialect: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The dialect, what it extends, what that extends ..."""
    yield dialect
    while "extends" in dialect:
        dialect = dialects()[dialect["extends"]]
        yield dialect


def _entries(level: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (level[setting] for setting in settings() if setting in level)


def _entry(dialect: Mapping[str, Any], setting: str, *, to_write: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The entry of `setting` and the dialect that has it, looking through what the dialect extends."""
    levels = [level for level in _levels(dialect) if setting in level]
    found = ((level[setting], level) for level in levels if not (to_write and level[setting].get("read_only")))
    return next(found, ({}, dialect))


def _rows(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entry for each span of releases; what it says outside of `versions` holds for all of them."""
    common = {key: value for key, value in entry.items() if key != "versions"}
    return [common | row for row in entry.get("versions", [{}]) if "key" in common | row]


def _reading(setting: str, row: Mapping[str, Any], level: Mapping[str, Any], *, has_default: bool) -> DialectReading:
    default = row.get("default", {}) if has_default else {}
    return DialectReading(
        setting,
        keys=(row["key"], *row.get("also", ())),
        call=row.get("call", level.get("call", "")),
        is_main=bool(level.get("call")) and "call" not in row,
        is_config="syntaxes" in level,
        default=default if isinstance(default, dict) else {row["key"]: default},
        only=row.get("only", {}),
        unless=tuple(row.get("unless", ())),
        form=row.get("form", ""),
        values=row.get("values", {}),
        means=row.get("means", {}),
    )


def _covers(row: Mapping[str, Any], installed: Version | None) -> bool:
    if installed is None:
        return "before" not in row
    since, before = (version(row[key]) if key in row else None for key in ("since", "before"))
    return (since is None or not is_before(installed, since)) and (before is None or is_before(installed, before))
