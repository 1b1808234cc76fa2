"""Commands that start a training: whose flags are whose, and which script and configs they name."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from autotune.catalogue.coercion import literal, typed
from autotune.catalogue.dialects import dialects, started
from autotune.catalogue.frameworks import Launcher
from autotune.catalogue.launchers import PREFIXES, launchers, training_modules
from autotune.invocation.shape import FLAG, assigned, key, name, shape
from autotune.model.evidence import RUN, Location
from autotune.model.scanned import TYPED, ConsumerCall, WrittenValue
from autotune.model.source import ShellCommand, ShellWord
from autotune.scan.configs import recognise

if TYPE_CHECKING:
    from autotune.syntax.shell import ShellScript

OVERRIDE = re.compile(r"[+~]{0,2}([A-Za-z_][\w.@/]*)=(.*)", re.DOTALL)
"""As Hydra, torchtune and LLaMA-Factory take them: data.batch_size=64, +trainer.fast=true."""

PAIRED = re.compile(r"[A-Z][A-Z0-9_]*(\.[A-Z0-9_]+)*")
"""A key as yacs takes it, with its value behind it: DATALOADER.NUM_WORKERS 8."""

REMOVED = re.compile(r"~([A-Za-z_][\w.@/]*)()")
"""As Hydra takes what is left out: ~data, ~data.num_workers."""

SEVERAL = re.compile(r"\$\{?[@*]|\[[@*]\]|\$\{?\w*(?:args|opts|options|flags|params|extra)\b", re.IGNORECASE)
"""In a word that cannot be known: it may be any number of flags, "$@", "${ARGS[@]}" or $EXTRA_ARGS."""

WHOLE = re.compile(r"[\"']?\$(?:\w+|\{[^}]*\}|\(.*\)|[@*])[\"']?", re.DOTALL)
"""A word that is one expansion."""

CHOOSES = frozenset({"config_name", "config_path", "config_dir"})
"""Flags of Hydra's that name a config, which may hold what the command does not say."""

GOES = ("cd", "pushd", "popd")
"""Commands behind which a shell stands in another folder."""

CONTAINERS = ("apptainer", "singularity", "docker", "podman", "enroot")
"""Programs that run a command in a container."""

PASSES_LOCAL_RANK = "torch.distributed.launch"
"""A module: as torchrun, but for this option, which --use_env leaves out."""

TOOLS = ("pip", "venv", "ensurepip", "ipykernel", "jupyter", "uv")
"""Modules that set up where a training runs: `python -m pip install torch`."""

CONFIGS = (".yaml", ".yml", ".json", ".toml")


class Launch(Struct, frozen=True):
    """A command that starts a training.

    `flags` are those of the script, by name without dashes and with underscores: a flag without a value is True, and
    --no_x gives x=False too. `own` are the launcher's. `module` is what -m or the verb of the launcher names ("sft").
    `config_files` are the data files, and Python files behind the script, that it names, as written. `num_processes` is
    None where the command does not say it. `is_open` says that it may have more flags than can be known. `variables`
    are those of the environment that it is given. `folder` is where the shell has gone before, as far as that is known.
    `before` are the words in front of the launcher (srun -c 8, docker run --ipc=host image), as written where a part is
    not known (--mem=$MEM); None for what may be any words ($FLAGS). `words` are those behind the script.
    `passes_local_rank` says that the launcher adds an option --local-rank to them.
    """

    file: str
    line: int
    launcher: str
    script: str | None
    module: str | None
    flags: Mapping[str, WrittenValue]
    config_files: tuple[str, ...]
    num_processes: int | None
    own: Mapping[str, WrittenValue]
    is_open: bool = False
    variables: Mapping[str, WrittenValue] = field(default_factory=dict)
    folder: str = ""
    before: tuple[str | None, ...] = ()
    words: tuple[ShellWord, ...] = ()
    passes_local_rank: bool = False

    def seen(self, path: str) -> str:
        """A path of the command, as the shell would see it that has gone nowhere."""
        return posixpath.join(self.folder, path)


def launches(script: ShellScript, file: str) -> tuple[Launch, ...]:
    """Every command of a shell script that starts a training."""
    found: list[Launch] = []
    folders: dict[tuple[int, ...], str] = {(): ""}
    for command in script.commands:
        around = (command.scope[:size] for size in range(len(command.scope), -1, -1))
        before = next(folders[scope] for scope in around if scope in folders)
        folder = folders[command.scope] = _gone(command, before)
        launch = _launch(command, file)
        found += [replace(launch, folder=folder)] if launch is not None else []
    return tuple(found)


def _gone(command: ShellCommand, folder: str) -> str:
    """Where the shell stands behind a command; "" where that is not known, as before the first one.

    A folder that is worked out (`cd "$(dirname "$0")"`), or a whole path, is most often the one of the project.
    """
    if command.words[0].value not in GOES:
        return folder
    target = command.words[-1].value
    if len(command.words) == 1 or target is None or target.startswith(("-", "/", "~")):
        return ""
    gone = posixpath.normpath(posixpath.join(folder, target))
    return gone if gone != "." else ""


def flags_call(launch: Launch, dialect: str) -> ConsumerCall:
    """The script's flags as a ConsumerCall of `dialect`."""
    return ConsumerCall(dialect, "", RUN, launch.flags, Location(launch.file, launch.line), is_open=launch.is_open)


def replaced(launch: Launch, dialect: str) -> Mapping[str, WrittenValue]:
    """What a command says in place of what a config of `dialect` says, by key; unknown for what a flag changes."""
    how, changes = (dialects()[dialect].get(one, {}) for one in ("replaces", "changes"))
    changed = [(key, launch.flags[flag]) for flag, keys in changes.items() if flag in launch.flags for key in keys]
    unknown = {key: replace(one, key=key, value=None, known=False) for key, one in changed}
    if how == "words":
        return dict(_assigned_words(launch)) | unknown
    if how == "pairs":
        return dict(_paired_words(launch)) | unknown
    return launch.flags if how == "flags" else {}


def _assigned_words(launch: Launch) -> Iterator[tuple[str, WrittenValue]]:
    """`a.b=8`, also where it stands behind a flag as its value: --cfg-options a.b=8 c.d=9."""
    for word in launch.words:
        found = OVERRIDE.fullmatch(_text(word))
        if found is not None:
            yield found[1], _given(found[1], found[2] if word.value is not None else None, word, launch.file)


def _paired_words(launch: Launch) -> Iterator[tuple[str, WrittenValue]]:
    """`A.B 8 C.D 9`. A word without a dot in front of a key is the value of a flag."""
    words, at = launch.words, 0
    while at + 1 < len(words):
        found, then = PAIRED.fullmatch(_text(words[at])), _text(words[at + 1])
        after = PAIRED.fullmatch(then)
        is_value = found is not None and found[1] is None and after is not None and after[1] is not None
        is_pair = found is not None and not is_value and not FLAG.fullmatch(then)
        if found is not None and is_pair:
            yield found[0], _given(found[0], words[at + 1].value, words[at + 1], launch.file)
        at += 2 if is_pair else 1


def launcher_call(launch: Launch) -> ConsumerCall | None:
    """The flags of `accelerate launch` itself, in the words of its config; None where a launcher's say no settings."""
    dialect = launchers()[launch.launcher].own_dialect
    if dialect is None:
        return None
    return ConsumerCall(dialect, "", RUN, launch.own, Location(launch.file, launch.line), is_open=True)


def dialect_of_program(launch: Launch) -> str | None:
    """The dialect of the flags of a program that trains; None for a script."""
    return launchers()[launch.launcher].dialect or training_modules().get(launch.module or "")


def dialect_of(launch: Launch) -> str | None:
    """The dialect of the flags: that of what is started, else what they are recognised as; None if that is nothing."""
    return dialect_of_program(launch) or recognise({name: given.value for name, given in launch.flags.items()}, "shell")


def dialect_of_started(launch: Launch) -> str | None:
    """The dialect of the flags where it is known whose script or module the command starts, and they are of it."""
    found = dialect_of(launch)
    return found if found in started(launch.script or launch.module or "") else None


def _launch(command: ShellCommand, file: str) -> Launch | None:
    words = _inner_command(command.words)
    found = shape([_text(word) for word in words])
    if found is None or found.launcher is None or found.target is None:
        return None
    if found.is_module and words[found.target].value in TOOLS:
        return None
    launcher, program, rest = found.launcher, words[found.target].value, words[found.target + 1 :]
    own, flags, positional = _own(words[slice(*found.own)], file), _flags(rest, file), tuple(_positional(rest))
    values = [str(given.value) for given in (*own.values(), *flags.values()) if given.known]
    configs = [value for value in (*values, *positional) if value.endswith(CONFIGS)]
    constants = [value for value in positional if value.endswith(".py")]
    variables = {name: _given(name, word.value, word, file) for name, word in command.variables}
    return Launch(
        file,
        command.line,
        launcher.name,
        None if found.is_module else program,
        program if found.is_module else None,
        flags,
        tuple(dict.fromkeys(configs + constants)),
        _num_processes(launcher, own, variables),
        own,
        is_open=any(word.value is None for word in _others(rest))
        or any(map(_may_be_several, rest))
        or not CHOOSES.isdisjoint(flags),
        variables=variables,
        before=tuple(map(_written, (*command.words[: len(command.words) - len(words)], *words[: found.program]))),
        words=tuple(rest),
        passes_local_rank=launcher.name == "torchrun"
        and any(word.value == PASSES_LOCAL_RANK for word in words[found.program : found.target])
        and not own.keys() & {"use_env", "no_python"},
    )


def _inner_command(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """What a container runs, or a script that sends jobs to a cluster is given behind `--`, where that is a launcher:
    `apptainer exec image.sif torchrun train.py`, `python submit.py --gpus 8 -- torchrun train.py`."""
    texts = [_text(word) for word in words]
    if name(texts[0]) in CONTAINERS and {"run", "exec", "start"}.intersection(texts):
        at = next((at for at, text in enumerate(texts) if name(text) in launchers()), None)
        return words[at:] if at is not None else words
    found = shape(texts) if "--" in texts else None
    if found is None or found.launcher is None or found.launcher.name != "python" or found.target is None:
        return words
    rest = texts[texts.index("--") + 1 :]
    _, behind = assigned(rest)
    is_start = bool(behind) and name(behind[0]) in {*launchers(), *PREFIXES} and found.target < texts.index("--")
    return words[len(words) - len(behind) :] if is_start else words


def _written(word: ShellWord) -> str | None:
    return None if word.value is None and WHOLE.fullmatch(word.text) else _text(word)


def _own(words: Sequence[ShellWord], file: str) -> Mapping[str, WrittenValue]:
    """The launcher's own flags."""
    flags = [_flags(words[at:at_end], file) for at, at_end in _pieces(words)]
    return {name: given for found in flags for name, given in found.items()}


def _pieces(words: Sequence[ShellWord]) -> Iterator[tuple[int, int]]:
    """Where each flag starts, and where the words behind it end."""
    starts = [at for at, word in enumerate(words) if FLAG.fullmatch(_text(word))]
    return pairwise([*starts, len(words)])


def _flags(words: Sequence[ShellWord], file: str) -> dict[str, WrittenValue]:
    """Flags and overrides by name; what stands behind a flag is its value."""
    given: dict[str, WrittenValue] = {}
    for at, at_end in _pieces(words):
        word, found = words[at], FLAG.fullmatch(_text(words[at]))
        assert found is not None
        name, behind = key(found[1]), words[at + 1 : at_end]
        given[name] = _flag(word, found[2], behind, file)
        if name.startswith("no_") and given[name].value is True:
            given.setdefault(name[3:], _switch(_text(word), False, word, file))
    for word in _others(words):
        override = OVERRIDE.fullmatch(_text(word)) or REMOVED.fullmatch(_text(word))
        if override:
            is_known = word.value is not None and not override[0].startswith("~")
            given[override[1]] = _given(override[1], override[2] if is_known else None, word, file)
    return given


def _flag(word: ShellWord, inline: str | None, behind: Sequence[ShellWord], file: str) -> WrittenValue:
    """`--key=value`, `--key value` or `--key`; several values are a list, which is not followed."""
    key = _text(word).partition("=")[0]
    if inline is not None:
        return _given(key, inline if word.value is not None else None, word, file)
    if not behind:
        return _switch(key, True, word, file)
    is_list = len(behind) > 1 and not any(_is_other(one) for one in behind[1:])
    if is_list and _text(behind[0]).endswith(CONFIGS) and PAIRED.fullmatch(_text(behind[1])):
        is_list = False  # --cfg run.yaml DATALOADER.NUM_WORKERS 8
    return _given(key, None if is_list else behind[0].value, behind[0], file)


def _positional(words: Sequence[ShellWord]) -> Iterator[str]:
    """What is neither a flag, nor its value, nor an override."""
    return (word.value for word in _others(words) if word.value is not None and not OVERRIDE.fullmatch(word.value))


def _others(words: Sequence[ShellWord]) -> list[ShellWord]:
    """The words that are neither a flag nor the value behind one."""
    pieces = list(_pieces(words))
    first = pieces[0][0] if pieces else len(words)
    return [*words[:first], *(word for at, at_end in pieces for word in words[_end(words, at) : at_end])]


def _end(words: Sequence[ShellWord], at: int) -> int:
    """Behind the flag at `at` and its value."""
    has_value = "=" in _text(words[at]) or at + 1 >= len(words)
    return at + 1 if has_value else at + 2


def _is_other(word: ShellWord) -> bool:
    """Whether a word behind a flag and its value is for itself: a file, an override, or nothing that can be known."""
    return word.value is None or word.value.endswith((*CONFIGS, ".py")) or OVERRIDE.fullmatch(word.value) is not None


def _may_be_several(word: ShellWord) -> bool:
    """Whether an unknown word may hold flags, also where it looks like the value of one: --bf16 "$@"."""
    return word.value is None and SEVERAL.search(word.text) is not None


def _text(word: ShellWord) -> str:
    return word.text if word.value is None else word.value


def _given(key: str, text: str | None, word: ShellWord, file: str) -> WrittenValue:
    """The value where a person edits it; unknown for text None."""
    place = posixpath.join(posixpath.dirname(file), TYPED) if word.is_typed else file
    location = Location(place, word.line, key=key, span=word.span)
    return WrittenValue(key, None if text is None else literal(text), location, known=text is not None, text=text)


def _switch(key: str, value: bool, word: ShellWord, file: str) -> WrittenValue:
    """A flag that stands alone."""
    return replace(_given(key, str(value), word, file), text=None)


def _num_processes(
    launcher: Launcher, own: Mapping[str, WrittenValue], variables: Mapping[str, WrittenValue]
) -> int | None:
    """The product of the launcher's flags; NPROC_PER_NODE is what ms-swift and LLaMA-Factory start."""
    if launcher.one_with and [name for name in launcher.one_with if name in own] == [launcher.one_with[0]]:
        return 1
    given = [own[name] for name in launcher.processes if name in own]
    if launcher.is_program and "NPROC_PER_NODE" in variables:
        given = [variables["NPROC_PER_NODE"]]
    counts = [typed(one.value, "int") if one.known else None for one in given]
    numbers = [count for count in counts if isinstance(count, int)]
    if len(numbers) != len(given) or not (numbers or launcher.one_each):
        return None
    return prod(numbers)
