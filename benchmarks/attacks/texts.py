"""Foreign text: nothing that others wrote is acted on by a terminal, a CI or a browser, wherever autotune repeats it.

Each payload is put into each place that autotune reads, and each verb that reads the place runs in every format. What
leaves, on both streams and in the file of `--output`, may hold no control character, no mark that turns the reading
direction and no command to a CI but the annotations of `--format github`. That a payload arrived at all is counted.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune import cli
from autotune.report import formats
from benchmarks.attacks.case import Case

TITLE = "foreign text in every stream and format"

MARK = "MARK"
"""In every payload: what is found in the output was repeated."""

PAYLOADS: Mapping[str, str] = {
    "CSI": f"\x1b[2J\x1b[31m{MARK}",
    "C1 CSI": f"\x9b2J{MARK}",
    "OSC 8": f"\x1b]8;;https://example.invalid/\x1b\\{MARK}\x1b]8;;\x1b\\",
    "OSC 52": f"\x1b]52;c;{MARK}\x07",
    "title": f"\x1b]0;{MARK}\x07",
    "carriage return": f"good\r{MARK}",
    "backspaces": f"good\b\b\b\b{MARK}",
    "direction": f"\u202e{MARK}\u2066",
    "unseen": f"\u200b{MARK}\u2060\U000e0041",
    "line separator": f"a\u2028::error::{MARK}",
    "error": f"x\n::error file=a.py::{MARK}",
    "stop-commands": f"x\n  ::stop-commands::{MARK}",
    "next line": f"x\x85::error::{MARK}",
    "form feed": f"x\x0c::error::{MARK}",
    "ideographic space": f"x\n\u3000\u00a0::stop-commands::{MARK}",
    "letters that are not drawn": f"\u3164\u00ad\u115f{MARK}\u180e\U000e0100",
    "vso": f"x\n##vso[task.setvariable variable=PATH]{MARK}",
    "group": f"##[group]{MARK}",
    "properties": f"a,line=1,title=b::{MARK}",
    "percent": f"%0A::error::{MARK}",
    "HTML": f"<img src=x onerror=alert(1)>{MARK}<script>",
    "Markdown": f"![{MARK}](https://example.invalid/a.png) [b](javascript:a) `c` | d | @user",
    "bytes": f"{MARK}\udcff\udc9b2J",
}

FOR_RUNS = ("CSI", "OSC 8", "carriage return", "direction", "line separator", "error", "stop-commands", "vso", "bytes")
"""Payloads that real runs raise, too: a run takes seconds."""

_ANNOTATION = re.compile(r"^::(error|warning|notice)( [A-Za-z]+=[^\r\n,:]*(,[A-Za-z]+=[^\r\n,:]*)*)?::[^\r\n]*$")
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
"""Letters and marks by Unicode's categories, of which nothing is drawn."""

SCRIPT = """\
    import torch
    from torch.utils.data import DataLoader
    from transformers import TrainingArguments
    torch.autograd.set_detect_anomaly(True)
    loader = DataLoader([torch.ones(3)] * 640, batch_size=8)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
    """
YAML = "per_device_train_batch_size: 4\ngradient_checkpointing: true\ndataloader_num_workers: 0\noutput_dir: out\n"


def _python(body: str = "") -> str:
    return textwrap.dedent(SCRIPT) + textwrap.dedent(body)


def _quoted(text: str) -> str:
    """As a string literal of Python, JSON or YAML that holds what is not ASCII as it is, where that is possible."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f").replace("\x85", "\\u0085")


def _written(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))


def _named(payload: str) -> str:
    """A file's name: it may hold anything but `/` and NUL."""
    return payload.replace("/", "_").replace("\0", "")[:80]


PLACES: Mapping[str, Callable[[Path, str], object]] = {
    "name of a script": lambda root, p: _written(root / f"{_named(p)}.py", _python()),
    "name of a folder": lambda root, p: _written(root / _named(p) / "train.py", _python()),
    "name of a config": lambda root, p: _written(root / f"{_named(p)}.yaml", YAML),
    "name of a broken script": lambda root, p: _written(root / f"{_named(p)}.py", _python("def f(:\n")),
    "name of a notebook": lambda root, p: _written(root / f"{_named(p)}.ipynb", "{"),
    "name of a launcher": lambda root, p: _written(root / f"{_named(p)}.sh", "torchrun --nproc_per_node 2 train.py --bf16 --fp16\n"),
    "target of a link": lambda root, p: (root / "linked.py").symlink_to(_named(p)),
    "a line that is no Python": lambda root, p: _written(root / "bad.py", _python(f"x = ({p}\n")),
    "a literal": lambda root, p: _written(root / "a.py", _python(f"TrainingArguments({_quoted(p)}, optim={_quoted(p)}, bf16=True, fp16=True, report_to={_quoted(p)})\n")),
    "a key of **": lambda root, p: _written(root / "a.py", _python(f"TrainingArguments(**{{{_quoted(p)}: 3, 'bf16': True, 'fp16': True}})\n")),
    "a comment of ours": lambda root, p: _written(root / "a.py", _python(f"# autotune: ignore[{p}]\nx = 1  # autotune: ignore[XX999] {p}\n")),
    "a key of YAML": lambda root, p: _written(root / "a.yaml", f"{_quoted(p)}: 1\n{YAML}"),
    "a value of YAML": lambda root, p: _written(root / "a.yaml", f"{YAML}optim: {_quoted(p)}\nlr_scheduler_type: {_quoted(p)}\nbf16: {_quoted(p)}\n"),
    "YAML that is none": lambda root, p: _written(root / "a.yaml", f"{YAML}\n\t: [{p}"),
    "a tag of YAML": lambda root, p: _written(root / "a.yaml", f"{YAML}x: !{p.split()[0]} 1\n"),
    "JSON that is none": lambda root, p: _written(root / "ds_config.json", f'{{"zero_optimization": {{"stage": 2}}, {p}'),
    "a key of DeepSpeed": lambda root, p: _written(root / "ds_config.json", json.dumps({"zero_optimization": {"stage": p, p: 1}, p: p})),
    "TOML that is none": lambda root, p: _written(root / "pyproject.toml", f"[tool.autotune]\nx = {p}\n"),
    "a key of ours": lambda root, p: _written(root / "pyproject.toml", f"[tool.autotune]\n{_toml(p)} = 1\n"),
    "a value of ours": lambda root, p: _written(root / "pyproject.toml", f"[tool.autotune]\nselect = [{_toml(p)}]\n"),
    "a rule of ours": lambda root, p: _written(root / "pyproject.toml", f"[tool.autotune.rules.{_toml(p)}]\nx = {_toml(p)}\n"),
    "requirements": lambda root, p: _written(root / "requirements.txt", f"torch=={p}\n{p}\ntransformers=={p}\n"),
    "a shell script": lambda root, p: _written(root / "run.sh", f"export A='{p}'\nOMP_NUM_THREADS=\"{p}\" torchrun --nproc_per_node=2 train.py --bf16 --optim '{p}' '--{p}' 3\n"),
    "a Dockerfile": lambda root, p: _written(root / "Dockerfile", f"FROM x\nENV A='{p}'\nRUN pip install 'torch=={p}'\nCMD [\"python\", \"train.py\", {_quoted(p)}]\n"),
    "a workflow": lambda root, p: _written(root / ".github" / "workflows" / "a.yml", f"jobs:\n  a:\n    steps:\n      - run: python train.py --optim {_quoted(p)}\n"),
    "a Makefile": lambda root, p: _written(root / "Makefile", f"a:\n\tpython train.py --optim '{p}'\n"),
    "a baseline": lambda root, p: _written(root / "baseline.json", json.dumps({"version": p, "findings": [{"rule": p, "file": p}]})),
    "an argument": lambda root, p: None,
}  # fmt: skip
"""What holds the payload, in a folder with a script that has findings."""


def _toml(text: str) -> str:
    """A TOML string: escapes are of Python's JSON."""
    return json.dumps(text.encode("utf-8", "replace").decode("utf-8")).replace("\x7f", "\\u007f")


def cases(scratch: Path) -> Iterator[Case]:
    """Every payload in every place."""
    os.environ["XDG_STATE_HOME"] = str(scratch / "state")
    os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
    arrived = 0
    for number, (name, payload) in enumerate(PAYLOADS.items()):
        for place, put in PLACES.items():
            root = scratch / f"{number}" / place.replace(" ", "-")
            _written(root / "train.py", _python())
            try:
                put(root, payload)
            except (OSError, ValueError) as error:
                yield Case(f"{place}: {name}", "", f"cannot be written: {type(error).__name__}")
                continue
            failures, seen = _checked(root, place, payload)
            arrived += seen
            yield Case(f"{place}: {name}", "; ".join(failures), "repeated" if seen else "")
    yield from _of_runs(scratch / "runs")
    yield Case("payloads arrive", "" if arrived > 150 else f"only {arrived} were repeated", f"{arrived} were repeated")


def _checked(root: Path, place: str, payload: str) -> tuple[list[str], bool]:
    words = {"a baseline": ["--baseline", "baseline.json"], "an argument": [payload]}.get(place, [])
    failures, seen = [], False
    for form in formats("check"):
        found, text = _judged(root, ["check", "--format", form, *words], form)
        failures += found
        seen |= MARK in text
    if place == "an argument":
        more: Sequence[list[str]] = (
            [payload], ["explain", payload], ["check", "--select", payload], ["check", "--format", payload],
            ["diagnose", payload], ["report", payload], ["apply", payload], ["undo", payload],
            ["rules", payload], ["check", f"--{payload}"], ["check", "--max", payload], ["verify", payload],
        )  # fmt: skip
        for line in more:
            failures += _judged(root, line, "text")[0]
    else:
        for line in (["rules"], ["apply", "--diff"], ["undo"], ["check", "--facts"]):
            failures += _judged(root, line, "text")[0]
    return failures, seen


def _of_runs(folder: Path) -> Iterator[Case]:
    """Scripts that raise, warn and name their classes by payloads; then each text of the stored run is one."""
    folder.mkdir(parents=True)
    _written(folder / "pyproject.toml", "")
    _written(folder / "train.py", RUN)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-m", "autotune", "diagnose", "--no-lock", "--quiet"]
    for name in FOR_RUNS:
        payload = PAYLOADS[name]
        odd = {**environ, "PAYLOAD": payload.encode("utf-8", "surrogateescape").hex()}
        for what, form in (("raises", "text"), ("named", "json"), ("exits", "text")):
            words = [*program, "--format", form, "train.py", what]
            done = subprocess.run(words, cwd=folder, env=odd, capture_output=True, check=False)
            both = done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
            failures = _acted_on(both[0], form) + _acted_on(_own(both[1]), "text")
            yield Case(f"a run that {what}: {name}, {form}", "; ".join(failures), "repeated" * (MARK in str(both)))
    runs = folder / ".autotune" / "runs"
    recording = max(runs.glob("*/recording-*.json"), key=lambda path: path.stat().st_size)
    whole = json.loads(recording.read_text())
    load = ["report", str(recording)]
    for name, payload in PAYLOADS.items():
        for where, changed in _with_each_text(whole, payload):
            recording.write_text(json.dumps(changed))
            failures = [
                each for form in ("text", "json") for each in _judged(folder, [*load, "--format", form], form)[0]
            ]
            yield Case(f"{where} of a recording: {name}", "; ".join(failures))


def _own(text: str) -> str:
    """What autotune said on a stream that it shares with the script, whose own words are its own affair."""
    return text[max(0, text.find("autotune: ")) :] if "autotune: " in text else ""


RUN = """
import os, sys, time
import torch
from torch.utils.data import DataLoader
payload = bytes.fromhex(os.environ["PAYLOAD"]).decode("utf-8", "surrogateescape")
what = sys.argv[1]
class Data:
    def __len__(self): return 4000
    def __getitem__(self, index):
        time.sleep(0.001)
        if what == "raises": raise type(payload.replace("\\0", ""), (ValueError,), {})(payload)
        return torch.randn(64)
if what == "exits": sys.exit(payload)
if what == "named": Data.__name__ = Data.__qualname__ = Data.__module__ = payload
def main():
    loader = DataLoader(Data(), batch_size=8)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
    if what == "named": type(model).__name__ = payload
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in loader:
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
main()
"""


def _with_each_text(tree: Any, payload: str) -> Iterator[tuple[str, Any]]:
    """The tree with the payload as the value at one place, for each kind of place that holds text."""
    seen: set[str] = set()

    def walk(node: Any, name: str, put: Callable[[Any], Any]) -> Iterator[tuple[str, Any]]:
        if isinstance(node, str) and name not in seen:
            seen.add(name)
            yield name, put(payload)
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in pairs:
            inner = f"{name}.{key}" if isinstance(node, dict) else f"{name}[]"
            yield from walk(value, inner, lambda new, key=key, node=node, put=put: put(_with(node, key, new)))

    yield from walk(tree, "", lambda new: new)


def _with(node: Any, key: Any, new: Any) -> Any:
    if isinstance(node, dict):
        return {**node, key: new}
    return [*node[:key], new, *node[key + 1 :]]


def _judged(root: Path, words: Sequence[str], form: str) -> tuple[list[str], str]:
    """What is wrong with the output of one command, and the output."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape"), io.StringIO()
    with contextlib.chdir(root), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(words)
    out.flush()
    text = out.buffer.getvalue().decode("utf-8", "surrogateescape")  # type: ignore[attr-defined]
    failures = _acted_on(text, form) + _acted_on(err.getvalue(), "text")
    if code == 4 or "internal error" in text + err.getvalue():
        failures.append(f"a bug: {err.getvalue().strip()[-200:]}")
    return [f"{' '.join(map(ascii, words))}: {each}" for each in failures], text + err.getvalue()


def _acted_on(text: str, form: str) -> list[str]:
    """What of the output would be acted on."""
    failures = [
        f"{letter!a} in {text[max(0, place - 30) : place + 20]!a}"
        for place, letter in enumerate(text)
        if letter in _UNSEEN
        or (letter not in "\n\t" and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp"))
    ]
    for line in re.split(r"\r\n|\r|\n", text):
        is_ours = form == "github" and _ANNOTATION.match(line)
        if (re.match(r"\s*::", line) and not is_ours) or "##[" in line or "##vso[" in line:
            failures.append(f"a command: {ascii(line)[:80]}")
    if form in ("json", "sarif", "gitlab") and text.strip():
        try:
            json.loads(text)
        except ValueError as error:
            failures.append(f"no JSON: {error}")
    if form == "markdown" and re.search(
        r"<(img|script)|(?<!\\)!\[|(?<!\\)\]\((javascript|https://example\.invalid)", _no_code(text)
    ):
        failures.append("Markdown that is acted on")
    return failures[:3]


def _no_code(text: str) -> str:
    """Markdown without what stands in code, which no renderer acts on."""
    text = re.sub(r"(?ms)^(`{3,})[^\n]*\n.*?^\1`*[ \t]*$", "", text)
    return re.sub(r"(?s)(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", "", text)
