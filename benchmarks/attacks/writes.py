"""Writes and connections of a training script under `diagnose`, with the kernel layer and with hooks.

A real file that changed is a failure with the kernel layer; with hooks it is one where the report does not name it. A
connection that the report does not name is a failure in both.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.attacks._snippets import BELOW, PROGRAMS, PYTHON, SENDING
from benchmarks.attacks.case import Case

TITLE = "writes and connections under diagnose"

PLACES = ("project", "beside", "home")

MOST_AT_ONCE = 14

_HEAD = """
import os, sys, traceback
PORT = {port}
def write(path):
    with open(path, "w") as file:
        file.write("x")
def attack(number, code, T, OLD):
    space = {{"T": T, "OLD": OLD, "PORT": PORT, "os": os, "sys": sys, "write": write}}
    try:
        exec(code, space)
        print("DONE", number, flush=True)
    except ImportError:
        print("LACKS", number, flush=True)
    except BaseException as error:
        print("RAISED", number, type(error).__name__, error, flush=True)
"""

_TAIL = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10_000):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def cases(scratch: Path) -> Iterator[Case]:
    """Every snippet in every place, under both layers; a few at a time, as a report names fifty things at most.

    Where hooks can name no path but only the program or library, each has a report of its own: another one's name is
    no name of it.
    """
    codes = PYTHON | BELOW | PROGRAMS | SENDING
    unknown = [name for name, code in codes.items() if name in PROGRAMS or any(used in code for used in LIBRARIES)]
    for layer, alone in (("kernel", []), ("hooks", unknown)):
        rest = [name for name in codes if name not in alone]
        groups = [*([name] for name in alone), *_batched(rest, MOST_AT_ONCE)]
        for number, names in enumerate(groups):
            yield from _under(layer, scratch / layer / str(number), frozenset(names))


def _batched(names: list[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(names), size):
        yield names[first : first + size]


def _under(layer: str, base: Path, names: frozenset[str]) -> Iterator[Case]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    folders = {place: base / place for place in PLACES}
    attacks = [
        (f"{name} ({place})", code, folders[place] / f"{number}-{index}")
        for number, (name, code) in enumerate((PYTHON | BELOW | PROGRAMS).items())
        for index, place in enumerate(PLACES)
        if name in names
    ]
    senders = enumerate(SENDING.items())
    attacks += [(name, code, folders["project"] / f"s{number}") for number, (name, code) in senders if name in names]
    for _, _, folder in attacks:
        for inner in ("old-empty", "old-full/x"):
            (folder / inner).mkdir(parents=True)
        (folder / "old").write_text("old")
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    script = folders["project"] / "train.py"
    lines = [
        f"attack({number}, {code!r}, {str(folder / 'new')!r}, {str(folder / 'old')!r})"
        for number, (_, code, folder) in enumerate(attacks)
    ]
    script.write_text("\n".join([_HEAD.format(port=server.server_port), *lines, _TAIL]))
    before = _tree(base)
    report, output = _diagnose(layer, script, folders["home"], base / "state")
    after = _tree(base)
    server.shutdown()
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    said = _said(report)
    if report.get("run", {}).get("isolation") != layer:
        yield Case(f"{layer}: the layer", f"it ran under {report.get('run', {}).get('isolation')!r}", output[-2000:])
    for number, (name, code, folder) in enumerate(attacks):
        if f"LACKS {number}\n" in output:
            continue
        if code in SENDING.values():
            words = [f":{server.server_port}", *(tool for tool in ("curl", "wget") if tool in code)]
            yield Case(f"{layer}: {name}", "" if any(word in said for word in words) else "the connection is not named")
            continue
        real = [path for path in changed if Path(path).is_relative_to(folder)]
        unnamed = [path for path in real if not _is_named(path, code, report, said)]
        failed = real if layer == "kernel" else unnamed
        yield Case(f"{layer}: {name}", f"changed {failed}" if failed else "", "named" if real else "held")
    known = [folder for _, _, folder in attacks]
    for path in changed:
        if not any(Path(path).is_relative_to(folder) for folder in known):
            yield Case(f"{layer}: elsewhere", f"{path} changed")


def _is_named(path: str, code: str, report: dict[str, Any], said: str) -> bool:
    """Whether the report names the path, its twin (a link has two), or the program or library that was asked."""
    escaped = [str(Path(report["folder"]) / each) for each in report["run"]["escaped"]]
    if (
        any(Path(path).is_relative_to(each) for each in escaped)
        or str(Path(path).parent / "new") in said
        or path in said
    ):
        return True
    words = STARTED if code in PROGRAMS.values() else [said for used, said in LIBRARIES.items() if used in code]
    return any(word in said for word in words)


LIBRARIES = {"ctypes": "ctypes:", "pyarrow": "pyarrow.", "attach ?": "sqlite3 ATTACH:"}
"""What stands in the code of a write whose path nobody can know: how the report names it."""

STARTED = ("subprocess:", "os.system:", "os.posix_spawn:", "os.exec")


def _said(report: dict[str, Any]) -> str:
    return json.dumps(report.get("run", {}), ensure_ascii=False)


def _diagnose(layer: str, script: Path, home: Path, state: Path) -> tuple[dict[str, Any], str]:
    environ = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(state), "XDG_CACHE_HOME": str(state / "cache")}
    environ |= {"TMPDIR": str(state), "HF_HUB_OFFLINE": "1", "AUTOTUNE_ISOLATION": "hooks" if layer == "hooks" else ""}
    state.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "autotune", "diagnose", "--no-lock", "--format", "json", "--steps", "8", script.name]
    environ["PYTHONPATH"] = str(Path(__file__).parents[2])
    done = subprocess.run(words, cwd=script.parent, env=environ, capture_output=True, text=True, timeout=600)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        report = {}
    return {**report, "folder": str(script.parent)}, done.stdout + done.stderr


def _tree(base: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for place in PLACES:
        for top, folders, files in os.walk(base / place):
            if ".autotune" in folders:
                folders.remove(".autotune")
            for name in (*folders, *files):
                path = os.path.join(top, name)
                about = os.lstat(path)
                is_file = not os.path.isdir(path) or os.path.islink(path)
                look = (about.st_nlink, about.st_size, about.st_mtime_ns) if is_file else ()
                found[path] = (about.st_mode, *look)
    return found


class _Quiet(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass
