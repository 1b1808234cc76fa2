"""How each peer is used on a case, and how its answer is read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import corpus
import measuring

from benchmarks.accuracy import peer_edits
from benchmarks.accuracy.cases import HERE, Case

RUNTIME = HERE / "peer_runtime"
STEPS = 60
"""Optimizer steps that a peer sees at least."""
LIMIT_S = 180.0
"""Seconds for a start in all; the training itself is ended much earlier (peer_limits.py)."""
REPORT = 20_000
"""Characters of a peer's report that are kept, from its end, for a reader."""

Said = tuple[str, bool]
"""A code that a peer reported, and whether with its lowest severity."""


class NoVerdictError(ValueError):
    """The peer was not run on the case, or gave no answer that can be read."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a peer reported on a case, in its order, its report in words, and the seconds of its run on the case."""

    said: tuple[Said, ...]
    report: str
    wall_s: float


Read = Callable[[Sequence[measuring.Ended], Path], list[Said]]
"""From the processes of a use that ended well, in order, and their folder. Raises NoVerdictError."""


@dataclass(frozen=True, slots=True)
class Use:
    """How a peer is used: `reads` is its command on files; else `starts` starts the edited script.

    In the words of a command {bin} is the folder of the peer's programs; {paths}, {options}, {script} and {arguments}
    are those of the case. `each`: the command takes one path. `reports` prints the answer.
    """

    read: Read
    reads: tuple[str, ...] = ()
    each: bool = False
    starts: tuple[str, ...] = ("{bin}/python", "{options}", "{script}", "{arguments}")
    reports: tuple[str, ...] = ()


def read_hotpath(ended: Sequence[measuring.Ended], cwd: Path) -> list[Said]:
    files = [file for one in ended for file in json.loads(one.out)["files"]]
    found = [finding for file in files for finding in file["findings"]]
    broken = [finding["rule_id"] for finding in found if not finding["rule_id"].startswith("KP")]
    if broken:
        raise NoVerdictError(f"it could not read a file: {broken[0]}")
    # As its own report does: heuristics are hidden.
    shown = [finding for finding in found if finding["confidence"] != "heuristic"]
    return [(finding["rule_id"], finding["severity"] == "info") for finding in shown]


def read_torchfix(ended: Sequence[measuring.Ended], cwd: Path) -> list[Said]:
    if not all("Finished checking" in one.err for one in ended):
        raise NoVerdictError("it checked no file")
    return [(code, False) for one in ended for code in re.findall(r": (TOR\d{3}) ", one.out)]


def read_pytscope(ended: Sequence[measuring.Ended], cwd: Path) -> list[Said]:
    out = ended[-1].out
    if not out.startswith("pytscope — "):
        raise NoVerdictError("its report has no head")
    found = re.findall(r"\[(HIGH|MED|LOW) *\] (.*?) *\(([A-Z]+\.[A-Z_]+)\)", out)
    count = re.search(r"FINDINGS \((\d+)\)", out)
    if count and int(count[1]) != len(found):
        raise NoVerdictError(f"{len(found)} of its {count[1]} findings can be read")
    return [(with_line(title, code), severity == "LOW") for severity, title, code in found]


def with_line(title: str, code: str) -> str:
    """The code of the efficiency budget is the same for each of its lines; its title names the largest."""
    line = re.search(r"\((\w+)\)$", title)
    return f"{code} {line[1]}" if code == "EFFICIENCY.RECOVERABLE" and line else code


def read_gpuprof(ended: Sequence[measuring.Ended], cwd: Path) -> list[Said]:
    document = json.loads(ended[-1].out.splitlines()[-1])
    if not document["steps"]:
        raise NoVerdictError("it saw no step")
    return [(name, severity == "low") for name, severity, _ in document["insights"]]


def read_traceml(ended: Sequence[measuring.Ended], cwd: Path) -> list[Said]:
    document = json.loads((cwd / "logs" / "case" / "final_summary.json").read_text(encoding="utf-8"))
    found = [document["primary_diagnosis"]]
    for section in ("step_time", "step_memory"):
        found += [document[section]["diagnosis"], *document[section].get("issues", [])]
    return [(one["kind"], one["severity"] == "info") for one in found if one]


USES = {
    "traceml": Use(
        read_traceml,
        starts=(
            "{bin}/traceml", "run", "{script}", "{options}", "--logs-dir", "logs", "--run-name", "case",
            "--args", "{arguments}",
        ),
    ),
    "gpuprof": Use(read_gpuprof, reports=("{bin}/python", str(RUNTIME / "gpuprof_codes.py"), "gpuprof.db")),
    "pytscope": Use(read_pytscope, reports=("{bin}/pytscope", "analyze", "runs/case")),
    "hotpath": Use(read_hotpath, reads=("{bin}/hotpath", "analyze", "{paths}", "--format", "json"), each=True),
    "torchfix": Use(read_torchfix, reads=("{bin}/torchfix", "--select", "ALL", "{paths}")),
}  # fmt: skip


def out_of_scope(peer: str, case: Case) -> str:
    """Why a peer is not tried on a case; empty where it is."""
    if USES[peer].reads:
        return ""
    return "static" if case.is_static else "public" if case.corpus else ""


def answer(peer: str, case: Case, start: corpus.Case, folder: Path, bin_folder: Path) -> Answer:
    """What a peer says of a case that is laid out in `folder`. Raises NoVerdictError, OSError, ValueError, KeyError."""
    use, path = placed(USES[peer], bin_folder), os.pathsep.join([str(bin_folder), start.environ["PATH"]])
    environ = {**start.environ, "PATH": path, "NO_COLOR": "1"}
    if use.reads:
        commands = reading(use, case, start, folder)
    else:
        edit(peer, case, start)
        environ |= limits(case, folder, environ)
        commands = [begun(use, start)]
    ended = []
    for argv in [*commands, *([use.reports] if use.reports else [])]:
        ended.append(measuring.run(argv, cwd=start.cwd, environ=environ, limit_s=LIMIT_S))
        if ended[-1].code != 0:
            raise NoVerdictError(measuring.failure(ended[-1]))
    said = list(dict.fromkeys(use.read(ended, start.cwd)))
    seconds = sum(one.wall_s for one in ended[: len(commands)])
    return Answer(tuple(said), "".join(one.out for one in ended)[-REPORT:], seconds)


def placed(use: Use, bin_folder: Path) -> Use:
    """The use with {bin} replaced."""
    reads, starts, reports = (
        tuple(word.replace("{bin}", str(bin_folder)) for word in words)
        for words in (use.reads, use.starts, use.reports)
    )
    return replace(use, reads=reads, starts=starts, reports=reports)


def filled(words: Sequence[str], **places: Sequence[str]) -> list[str]:
    """The words, with those of a place in the place of {name}; other places stay."""
    return [one for word in words for one in places.get(word.strip("{}"), [word])]


def reading(use: Use, case: Case, start: corpus.Case, folder: Path) -> list[list[str]]:
    """The commands of a peer that reads files: those of the case, all in one or one by one."""
    paths = [str(path) for path in sources(case, start, folder)]
    if not paths:
        raise NoVerdictError("there is no Python file to read")
    return [filled(use.reads, paths=given) for given in ([[path] for path in paths] if use.each else [paths])]


def sources(case: Case, start: corpus.Case, folder: Path) -> list[Path]:
    """An own case is its folder; of a public one, the script and each Python file into which the fault was planted.

    Empty where none of them is Python.
    """
    if not case.corpus:
        return [folder] if any(folder.rglob("*.py")) else []
    script = next(([start.cwd / word] for word in start.argv if word.endswith(".py")), [])
    planted = [folder / row["file"] for row in case.plant if row.get("file", "").endswith(".py")]
    return list(dict.fromkeys(path.resolve() for path in (*script, *planted)))


def script_at(start: corpus.Case) -> int:
    """Where the script stands in the words of `python SCRIPT` or `torchrun OPTIONS SCRIPT`."""
    at = next((i for i, word in enumerate(start.argv) if word.endswith(".py")), 0)
    if not at or (start.argv[0] != "torchrun" and (start.argv[0], at) != ("python", 1)):
        raise NoVerdictError(f"not started by python or torchrun and a script: {' '.join(start.argv)}")
    return at


def edit(peer: str, case: Case, start: corpus.Case) -> None:
    """Put the peer's lines into the script."""
    script = start.cwd / start.argv[script_at(start)]
    try:
        text = peer_edits.edited(script.read_text(encoding="utf-8"), peer, case.framework)
    except (peer_edits.CannotEditError, SyntaxError) as error:
        raise NoVerdictError(f"cannot be edited as documented: {error}") from error
    script.write_text(text, encoding="utf-8")


def limits(case: Case, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """What peer_limits.py asks of the environment."""
    shared = folder.with_name("shared")
    shared.mkdir()
    return {
        "PEER_STEPS": str(max(STEPS, case.warmup + case.steps)),
        "PEER_FOLDER": str(shared),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(RUNTIME), environ.get("PYTHONPATH", "")])),
    }


def begun(use: Use, start: corpus.Case) -> list[str]:
    """The command that starts the edited script."""
    at = script_at(start)
    options = list(start.argv[1:at])
    if start.argv[0] == "torchrun" and use.starts[0].endswith("/python"):
        options = ["-m", "torch.distributed.run", *options]
    return filled(use.starts, options=options, script=[start.argv[at]], arguments=start.argv[at + 1 :])
