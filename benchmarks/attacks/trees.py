"""Hostile trees under `check`: no file takes over 5 s, nothing of the tree runs, nothing outside it is read.

Each tree holds one kind of file at one size, and a script with a known finding beside it: that finding must be
there all the same. Where strace is at hand, every eighth tree is checked under it: it may start no program, and open
no regular file outside the tree, of Python's and of autotune's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.attacks.case import Case

TITLE = "hostile trees under check"

MOST_S = 5.0
"""CPU seconds of one hostile file, beyond those of a check without it."""

EVERY = 8
"""Each how-manieth tree is checked under strace."""

KNOWN = """import torch
from torch.utils.data import DataLoader
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

HEAD = "import torch\nfrom torch.utils.data import DataLoader\nfrom transformers import TrainingArguments\n"
TAIL = """
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(data, batch_size=v):
    model(batch).sum().backward()
    optimizer.step()
"""
SIZES = (30, 300, 3_000, 30_000)
DEPTHS = (50, 900, 20_000)


def _lines(line: str, number: int) -> str:
    return "\n".join(line.format(n=n, m=n + 1) for n in range(number)) + "\n"


PYTHON: Mapping[str, Callable[[int], str]] = {
    "dict(a=v, b=v) of itself": lambda n: "v = 1\n" + "v = dict(a=v, b=v)\n" * n + "TrainingArguments('o', **v)\n",
    "{'a': v, 'b': v} of itself": lambda n: "v = 1\n" + "v = {'a': v, 'b': v}\n" * n + "TrainingArguments('o', **v)\n",
    "dicts of other dicts": lambda n: "v0 = 1\n" + _lines("v{m} = dict(a=v{n}, b=v{n}, **v{n})", n) + f"TrainingArguments(**v{n})\n",
    "lists of themselves": lambda n: "v = [1]\n" + "v = [v, v, *v]\n" * n,
    "tuples unpacked in a circle": lambda n: "a, b = 1, 2\n" + "a, b = b, (a, b)\n" * n + "v = a\n",
    "p = p[0] in a loop": lambda n: "for i in range(3):\n" + "    p = p[0]\n    p = p[1]\n" * n + "v = p\n",
    "p = q[0], q = p[1]": lambda n: "while True:\n" + "    p = q[0]\n    q = p[1]\n" * n + "v = p\n",
    "p = f(p)": lambda n: "def f(x):\n    return x\n" + "v = f(v)\n" * n,
    "functions that call each other": lambda n: _lines("def f{n}(x):\n    return f{m}(x) + f{m}(x)", n) + f"def f{n}(x):\n    return x\nv = f0(1)\n",
    "functions that call themselves": lambda n: _lines("def f{n}(x):\n    return f{n}(f{n}(x))", n) + "v = f0(1)\n",
    "conditional values": lambda n: "v = 1\n" + "v = v + 1 if v else v * 2\n" * n,
    "branches of branches": lambda n: "v = 1\n" + "if v:\n    v = v + 1\nelse:\n    v = v + 2\n" * n,
    "sums of names": lambda n: "v0 = 1\n" + _lines("v{m} = v{n} + v{n}", n) + f"v = v{n}\n",
    "powers": lambda n: "v = 9\n" + "v = v ** v ** v\n" * n,
    "shifts": lambda n: "v = 1\n" + "v = v << 60_000_000\n" * n,
    "strings that double": lambda n: "s = 'x'\n" + "s = s + s\n" * n + "TrainingArguments(s)\n",
    "strings times": lambda n: "s = 'x' * 1_000_000_000\n" * n + "TrainingArguments(s)\n",
    "f-strings of themselves": lambda n: "s = 'x'\n" + "s = f'{s}{s}'\n" * n + "TrainingArguments(s)\n",
    "% of themselves": lambda n: "s = 'x'\n" + "s = '%s%s' % (s, s)\n" * n + "TrainingArguments(s)\n",
    "aliases of imports": lambda n: _lines("import torch as t{n}", n) + _lines("t{m} = t{n}", n),
    "imports from everywhere": lambda n: _lines("from m{n} import *", n),
    "classes of classes": lambda n: "class C0: pass\n" + _lines("class C{m}(C{n}):\n    v = {n}", n) + f"v = C{n}.v\n",
    "methods that return themselves": lambda n: "class C:\n    def m(self):\n        return self.m().m()\n" + "v = C().m()\n" * n,
    "attributes set in a circle": lambda n: "class C: pass\nc = C()\n" + "c.a = c.b\nc.b = c.a\n" * n + "v = c.a\n",
    "closures": lambda n: _lines("def f{n}():\n    global v\n    v = f{m}", n),
    "loops in a row": lambda n: "for i in range(9):\n    v = i\n" * n,
    "loaders": lambda n: "data = []\n" + _lines("l{n} = DataLoader(data, batch_size={m})", n),
    "arguments": lambda n: "TrainingArguments(" + ", ".join(f"a{i}={i}" for i in range(n)) + ")\n",
    "options of a parser": lambda n: "import argparse\np = argparse.ArgumentParser()\n" + _lines("p.add_argument('--a{n}', default={n})", n) + "a = p.parse_args()\nv = a.a1\n",
    "comments of ours": lambda n: _lines("x{n} = 1  # autotune: ignore[DL{n}]", n),
    "one long line": lambda n: "v = [" + "1," * n * 10 + "]\n",
    "one long string": lambda n: "s = '" + "x" * n * 30 + "'\n",
    "backslashes": lambda n: "v = 1" + "\\\n + 1" * n + "\n",
    "semicolons": lambda n: "v = 1" + "; v = v" * n + "\n",
    "with statements": lambda n: "with torch.no_grad(): v = 1\n" * n,
    "try in a row": lambda n: "try:\n    v = 1\nexcept Exception:\n    v = 2\n" * n,
    "global names": lambda n: "def f():\n" + _lines("    global g{n}", n),
    "lambdas": lambda n: "v = lambda x: x\n" + "v = (lambda f: lambda x: f(f(x)))(v)\n" * n,
    "walruses": lambda n: "(v := 1)\n" + "(v := (w := v) + (u := v))\n" * n,
    "decorators": lambda n: "@torch.no_grad()\n" * n + "def f(): pass\n",
    "updates of dicts": lambda n: "v = {}\n" + "v.update(v)\nv |= dict(a=v)\n" * n + "TrainingArguments(**v)\n",
    "items set by items": lambda n: "v = {}\n" + "v['a'] = v\nv['b'] = v['a']\n" * n + "TrainingArguments(**v)\n",
    "dataclasses": lambda n: "from dataclasses import dataclass\n" + _lines("@dataclass\nclass C{n}:\n    a: int = {n}\n    b: 'C{m}' = None", n),
}  # fmt: skip

NESTED: Mapping[str, Callable[[int], str]] = {
    "parentheses": lambda n: "v = " + "(" * n + "1" + ")" * n + "\n",
    "lists": lambda n: "v = " + "[" * n + "]" * n + "\n",
    "dicts": lambda n: "v = " + "{1: " * n + "1" + "}" * n + "\n",
    "minus": lambda n: "v = " + "-" * n + "1\n",
    "not": lambda n: "v = " + "not " * n + "1\n",
    "sums": lambda n: "v = 1" + " + 1" * n + "\n",
    "attributes": lambda n: "v = torch" + ".a" * n + "\n",
    "items": lambda n: "v = torch" + "[0]" * n + "\n",
    "calls": lambda n: "v = torch" + "()" * n + "\n",
    "calls in calls": lambda n: "v = " + "f(" * n + ")" * n + "\n",
    "blocks": lambda n: "".join(" " * i + "if 1:\n" for i in range(min(n, 99))) + " " * 99 + "v = 1\n",
    "functions": lambda n: "".join(" " * i + f"def f{i}():\n" for i in range(min(n, 99))) + " " * 99 + "v = 1\n",
    "lambdas": lambda n: "v = " + "lambda: " * n + "1\n",
    "conditions": lambda n: "v = " + "1 if 1 else " * n + "1\n",
    "comprehensions": lambda n: "v = " + "[x for x in " * n + "[]" + "]" * n + "\n",
    "f-strings": lambda n: "v = f'{1" + "+1" * n + "}'\n",
    "elif": lambda n: "if 1: v = 1\n" + "elif 2: v = 2\n" * n,
    "annotations": lambda n: "v: " + "a[" * n + "1" + "]" * n + " = 1\n",
    "chained comparisons": lambda n: "v = 1" + " < 1" * n + "\n",
    "starred": lambda n: "v = " + "[*" * n + "[]" + "]" * n + "\n",
}  # fmt: skip

TRAINER = "per_device_train_batch_size: 8\noutput_dir: x\nnum_train_epochs: 1\n"
DATA: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "YAML aliases that double": ("yaml", lambda n: TRAINER + "a0: &a0 [x, x]\n" + _lines("a{m}: &a{m} [*a{n}, *a{n}, *a{n}]", min(n, 3_000))),
    "YAML merges that double": ("yaml", lambda n: TRAINER + "a0: &a0 {k: 1}\n" + _lines("a{m}: &a{m} {{<<: [*a{n}, *a{n}], k{n}: 1}}", min(n, 3_000))),
    "YAML alias of itself": ("yaml", lambda n: TRAINER + "a: &a [*a]\n" * min(n, 300)),
    "YAML keys": ("yaml", lambda n: TRAINER + _lines("k{n}: {n}", n)),
    "YAML lists": ("yaml", lambda n: TRAINER + "k:\n" + _lines("  - {n}", n)),
    "YAML in depth": ("yaml", lambda n: TRAINER + "".join(" " * i + f"k{i}:\n" for i in range(min(n, 1_500)))),
    "YAML flows in depth": ("yaml", lambda n: TRAINER + "k: " + "[" * n + "]" * n + "\n"),
    "YAML documents": ("yaml", lambda n: TRAINER + "---\na: 1\n" * n),
    "YAML tags": ("yaml", lambda n: TRAINER + "k: !!python/object/apply:os.system ['touch CANARY']\n" * min(n, 300)),
    "YAML block strings": ("yaml", lambda n: TRAINER + "k: |\n" + "  x\n" * n),
    "YAML quotes open": ("yaml", lambda n: TRAINER + 'k: "' + "x\n" * n),
    "YAML comments": ("yaml", lambda n: TRAINER + "# x\n" * n),
    "YAML numbers": ("yaml", lambda n: TRAINER + f"max_steps: {'9' * n}\nlearning_rate: 1e{n}\n"),
    "YAML anchors": ("yaml", lambda n: TRAINER + _lines("k{n}: &a{n} 1", n)),
    "YAML colons": ("yaml", lambda n: TRAINER + "k: " + "a: " * n + "\n"),
    "YAML question marks": ("yaml", lambda n: TRAINER + "? " * n + "a\n"),
    "YAML dashes": ("yaml", lambda n: TRAINER + "k:\n" + "- " * n + "a\n"),
    "JSON in depth": ("json", lambda n: '{"train_batch_size": 8, "zero_optimization": ' + '{"a":' * n + "1" + "}" * n + "}"),
    "JSON lists in depth": ("json", lambda n: '{"train_batch_size": 8, "a": ' + "[" * n + "]" * n + "}"),
    "JSON keys": ("json", lambda n: '{"train_batch_size": 8, ' + ", ".join(f'"k{i}": {i}' for i in range(n)) + "}"),
    "JSON numbers": ("json", lambda n: '{"train_batch_size": ' + "9" * n + ', "lr": 1e' + "9" * n + "}"),
    "JSON one key": ("json", lambda n: '{"train_batch_size": 8' + ', "a": 1' * n + "}"),
    "JSON open": ("json", lambda n: '{"train_batch_size": 8, "a": "' + "\\u0000" * n),
    "JSON comments": ("json", lambda n: '{"train_batch_size": 8 ' + "/* x */ " * n + "}"),
    "TOML tables": ("toml", lambda n: "train_batch_size = 8\n" + _lines("[t{n}.a]\nx = 1", n)),
    "TOML dotted keys": ("toml", lambda n: "train_batch_size = 8\n" + ".".join("a" for _ in range(n)) + " = 1\n"),
    "TOML in depth": ("toml", lambda n: "train_batch_size = 8\nk = " + "[" * n + "]" * n + "\n"),
    "TOML inline tables": ("toml", lambda n: "train_batch_size = 8\nk = " + "{a = " * n + "1" + "}" * n + "\n"),
    "TOML strings open": ("toml", lambda n: "train_batch_size = 8\nk = '''" + "x\n" * n),
    "TOML arrays": ("toml", lambda n: "train_batch_size = 8\n" + "[[a]]\nx = 1\n" * n),
    "shell commands": ("sh", lambda n: "torchrun train.py --lr 0.1\n" * n),
    "shell assignments": ("sh", lambda n: "A=1\n" + "A=$A$A\n" * n + "python train.py --lr $A\n"),
    "shell lines": ("sh", lambda n: "echo x\n" * n + "python train.py\n"),
    "shell words": ("sh", lambda n: "python train.py " + "--a 1 " * n + "\n"),
    "shell continued lines": ("sh", lambda n: "python train.py" + " \\\n --a 1" * n + "\n"),
    "shell substitutions": ("sh", lambda n: "python train.py " + "$(" * n + "touch CANARY" + ")" * n + "\n"),
    "shell quotes": ("sh", lambda n: "python train.py '" + "\"'" * n + "\n"),
    "shell heredocs": ("sh", lambda n: "cat <<A\nx\nA\n" * n + "python train.py\n"),
    "shell open heredocs": ("sh", lambda n: "cat <<A\n" * n + "python train.py\n"),
    "shell expansions": ("sh", lambda n: "A=1\npython train.py --lr " + "${A:-" * n + "1" + "}" * n + "\n"),
    "shell conditions": ("sh", lambda n: "if true; then\n" * n + "python train.py\n" + "fi\n" * n),
    "shell functions": ("sh", lambda n: _lines("f{n}() {{ f{m}; f{m}; }}", n) + "f0\npython train.py\n"),
    "shell loops": ("sh", lambda n: "for i in 1 2 3; do\n" * n + "python train.py --lr $i\n" + "done\n" * n),
    "shell of runs": ("sh", lambda n: "accelerate launch --num_processes 8 train.py --a $RANDOM\n" * n),
}  # fmt: skip


def _config(name: str, text: str) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    return build


def _bytes(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda root: _written(root / name, data)


def _written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _link(name: str, to: str) -> Callable[[Path], None]:
    return lambda root: (root / name).symlink_to(to)


def _socket(root: Path) -> None:
    here = Path.cwd()
    os.chdir(root)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("hostile.py")
    finally:
        os.chdir(here)


def _many(number: int) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        for index in range(number):
            (root / f"m{index}.py").write_text(f"import torch\nimport m{index + 1}\n" + KNOWN)

    return build


def _circle(number: int) -> Callable[[Path], None]:
    """Modules that all import all."""

    def build(root: Path) -> None:
        imports = _lines("from m{n} import train as t{n}", number)
        for index in range(number):
            (root / f"m{index}.py").write_text(imports + HEAD + "def train(x):\n    t0(x)\n" + KNOWN)

    return build


def _deep(number: int) -> Callable[[Path], None]:
    def build(root: Path) -> None:
        here = Path.cwd()
        os.chdir(root)
        try:
            for _ in range(number):
                Path("d").mkdir()
                os.chdir("d")
            Path("deep.py").write_text(KNOWN)
        finally:
            os.chdir(here)

    return build


def _names(name: bytes) -> Callable[[Path], None]:
    return lambda root: Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text(KNOWN)


TRAINING = (HEAD + TAIL).encode()
FILES: Mapping[str, Callable[[Path], None]] = {
    "a FIFO": lambda root: os.mkfifo(root / "hostile.py"),
    "a FIFO in place of a config": lambda root: os.mkfifo(root / "config.yaml"),
    "a FIFO in place of pyproject.toml": lambda root: os.mkfifo(root / "pyproject.toml"),
    "a FIFO in place of requirements.txt": lambda root: os.mkfifo(root / "requirements.txt"),
    "a socket": _socket,
    "a folder named hostile.py": lambda root: (root / "hostile.py").mkdir(),
    "a link to /dev/zero": _link("hostile.py", "/dev/zero"),
    "a link to /dev/stdin": _link("hostile.py", "/dev/stdin"),
    "a link to /proc/self/environ": _link("hostile.yaml", "/proc/self/environ"),
    "a link to /etc/passwd": _link("hostile.yaml", "/etc/passwd"),
    "a link to a file outside": _link("hostile.py", "../outside/secret.py"),
    "a link to a folder outside": _link("sub", "../outside"),
    "a link to the root": _link("sub", "."),
    "a link to itself": _link("hostile.py", "hostile.py"),
    "pyproject.toml is a link outside": _link("pyproject.toml", "../outside/secret.toml"),
    "requirements.txt is a link outside": _link("requirements.txt", "../outside/requirements.txt"),
    "a .git that is a link outside": _link(".git", "../outside"),
    "a script that names a config outside": _config("run.sh", "python train.py --config ../outside/secret.yaml --deepspeed /etc/ds.json\n"),
    "a script that names a config through a link": lambda root: (_link("conf", "../outside")(root), _config("run.sh", "python train.py conf/secret.yaml\n")(root)),
    "an import of what is outside": _config("hostile.py", "import sys\nsys.path.insert(0, '../outside')\nimport secret\n" + KNOWN),
    "NUL bytes": _bytes("hostile.py", b"\0" * 1000 + TRAINING),
    "a BOM": _bytes("hostile.py", b"\xef\xbb\xbf" + TRAINING),
    "UTF-16": _bytes("hostile.py", TRAINING.decode().encode("utf-16")),
    "another coding": _bytes("hostile.py", b"# -*- coding: rot13 -*-\n" + TRAINING),
    "an unknown coding": _bytes("hostile.py", b"# -*- coding: nothing -*-\n" + TRAINING),
    "a coding that is code": _bytes("hostile.py", b"# -*- coding: zlib -*-\n" + TRAINING),
    "no UTF-8": _bytes("hostile.py", b"# \xff\xfe\n" + TRAINING),
    "carriage returns": _bytes("hostile.py", TRAINING.replace(b"\n", b"\r")),
    "form feeds": _bytes("hostile.py", TRAINING.replace(b"\n", b"\n\x0c")),
    "an empty file": _bytes("hostile.py", b""),
    "ten megabytes": _bytes("hostile.py", TRAINING + b"# x\n" * 2_500_000),
    "a gigabyte of holes": lambda root: (_bytes("hostile.py", TRAINING)(root), os.truncate(root / "hostile.py", 1 << 30)),
    "a gigabyte of YAML": lambda root: (_bytes("hostile.yaml", TRAINER.encode())(root), os.truncate(root / "hostile.yaml", 1 << 30)),
    "a notebook": _config("hostile.ipynb", json.dumps({"cells": [{"cell_type": "code", "source": KNOWN.splitlines(True)}] * 500})),
    "setup.py": _config("setup.py", "open('CANARY', 'w')\n" + KNOWN),
    "conftest.py": _config("conftest.py", "open('CANARY', 'w')\n" + KNOWN),
    "sitecustomize.py": _config("sitecustomize.py", "open('CANARY', 'w')\n" + KNOWN),
    "a package named as one of ours": _config("autotune/__init__.py", "open('CANARY', 'w')\n" + KNOWN),
    "a package named torch": _config("torch/__init__.py", "open('CANARY', 'w')\n" + KNOWN),
    "rules of the tree": _config("rules/DL/DL001.toml", "x = "),
    "a baseline of the tree": _config("autotune-baseline.json", "{" * 3000),
    "a pyproject that is none": _config("pyproject.toml", "[tool.autotune\n"),
    "a pyproject of other keys": _config("pyproject.toml", "[tool.autotune]\n\"\\u001b]52;c;eA==\\u0007\" = 1\n\"::error::x\" = 2\n"),
    "a pyproject in depth": _config("pyproject.toml", "[tool.autotune]\nexclude = " + "[" * 5000 + "]" * 5000),
    "a pyproject of many patterns": _config("pyproject.toml", f"[tool.autotune]\nexclude = {json.dumps(['*a*b*c*d*e*f*g*h' * 9] * 500)}\n"),
    "requirements in depth": _config("requirements.txt", "-r requirements.txt\n" * 500 + "torch" + ",>1" * 5000),
    "200 scripts in a row": _many(200),
    "12 modules that import each other": _circle(12),
    "40 modules that import each other": _circle(40),
    "folders in folders": _deep(300),
    "folders over the longest name": _deep(2500),
    **{f"the name {name!r}": _names(name) for name in (
        b"\x1b[31m.py", b"\x1b]0;x\x07.py", b"a\nb.py", b"::error::x.py", b"\xff\xfe.py", b"\xe2\x80\xae.py", b"%0A.py",
        b"-rf.py", b"--help.py", b"a b.py", b"'.py", b"`touch CANARY`.py", b"$(touch CANARY).py", b"x" * 250 + b".py", b"[red].py")},
}  # fmt: skip


def _trees() -> dict[str, Callable[[Path], None]]:
    found = dict(FILES)
    for name, make in PYTHON.items():
        for size in SIZES:
            found[f"Python: {name}, {size}"] = _config("hostile.py", HEAD + make(size) + TAIL)
    for name, make in NESTED.items():
        for size in DEPTHS:
            found[f"Python: {name} in depth, {size}"] = _config("hostile.py", HEAD + make(size) + TAIL)
    for name, (end, make) in DATA.items():
        for size in SIZES:
            found[f"{name}, {size}"] = _config(f"hostile.{end}", make(size))
    return found


def cases(scratch: Path) -> Iterator[Case]:
    """All trees."""
    trees = _trees()
    (scratch / "alone").mkdir(parents=True)
    alone_s = _check(_tree(scratch / "alone", lambda root: None), strace=False)[2]
    has_strace = shutil.which("strace") is not None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(
            lambda row: _tried(
                scratch / str(row[0]), row[1], trees[row[1]], alone_s, has_strace and row[0] % EVERY == 0
            ),
            enumerate(trees),
        )


def _tried(folder: Path, name: str, build: Callable[[Path], None], alone_s: float, strace: bool) -> Case:
    root = _tree(folder, build)
    code, output, cpu_s, outside = _check(root, strace)
    try:
        found = {(row["rule"], row["location"]["file"]) for row in json.loads(output.partition("\n")[0])["findings"]}
    except (ValueError, LookupError, TypeError):
        found = set()
    is_refused = code == 2 and name.startswith(("a pyproject", "a FIFO in place of pyproject", "a baseline"))
    failures = (
        f"took {cpu_s:.1f} s of CPU" if cpu_s - alone_s > MOST_S and not strace else "",
        "a traceback of ours" if code == 4 or "internal error" in output or "Traceback" in output else "",
        "" if is_refused or any(file == "train.py" for _, file in found) else f"no finding in train.py, exit {code}: {output[-200:]}",
        "ran" if any((root / place / "CANARY").exists() for place in (".", "..", "autotune", "torch")) else "",
        f"opened {outside}" if outside else "",
    )  # fmt: skip
    subprocess.run(["rm", "-rf", str(folder)], check=False)  # deeper than shutil goes
    return Case(name, "; ".join(filter(None, failures)), f"exit {code}, {cpu_s:.1f} s{', strace' if strace else ''}")


def _tree(folder: Path, build: Callable[[Path], None]) -> Path:
    root, outside = folder / "tree", folder / "outside"
    root.mkdir(parents=True)
    outside.mkdir()
    (root / "train.py").write_text(KNOWN)
    for name in ("secret.py", "secret.yaml", "secret.toml", "requirements.txt"):
        (outside / name).write_text(KNOWN if name.endswith(".py") else TRAINER)
    build(root)
    return root


def _check(root: Path, strace: bool) -> tuple[int, str, float, list[str]]:
    """Exit code, output, CPU seconds, and what was opened or started that should not be."""
    home = root.parent / "home"
    home.mkdir()
    log = root.parent / "strace"
    words = [str(Path(sys.executable).parent / "autotune"), "check", "--format", "json", "."]
    if strace:
        words = ["strace", "-f", "-y", "-e", "trace=open,openat,openat2,execve,connect", "-o", str(log), *words]
    environ = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with (root.parent / "out").open("w+b") as out:
        child = subprocess.Popen(words, cwd=root, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    output = (root.parent / "out").read_text("utf-8", "replace")
    cpu_s = used.ru_utime + used.ru_stime
    return child.returncode, output, cpu_s, _outside(log, root) if strace else []


_OPENED = re.compile(r'(open\w*)\((?:[^"]*, )?"((?:[^"\\]|\\.)*)".*= (\d+)(?:<(.*)>)?$')
_SYSTEM = (
    "/usr/",
    "/lib",
    "/proc/",
    "/sys/",
    "/etc/ld",
    "/etc/local",
    "/etc/ssl/",
    "/dev/null",
    "/dev/urandom",
    "/bin/",
)


def _outside(log: Path, root: Path) -> list[str]:
    """What strace saw that is neither of the tree nor of Python, the system's libraries or autotune."""
    own = (
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).parents[2] / "autotune"),
        str(Path(__file__).parents[2] / "rules"),
    )
    allowed = (
        *_SYSTEM,
        *own,
        os.path.realpath(root),
        str(root.parent / "home"),
        str(Path(__file__).parents[2] / "pyproject.toml"),
    )
    bad = []
    for line in log.read_text("utf-8", "replace").splitlines():
        if "execve(" in line and line.rstrip().endswith("= 0") and "autotune" not in line:
            bad.append(line)
        found = _OPENED.search(line)
        if found is None:
            continue
        real = found[4] or found[2]
        is_folder = "O_DIRECTORY" in line
        if not is_folder and not real.startswith(allowed):
            bad.append(real)
    return bad[:3]
