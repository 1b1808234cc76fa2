from __future__ import annotations

import sys

import pytest

from autotune.errors import UsageError
from autotune.machine.interpreter import find_python


@pytest.fixture
def place(tmp_path):
    """A folder with executables: `bin` is on PATH, `venv` and `conda` are environments."""

    def write(name, first_line="#!/bin/sh", *more):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([first_line, *more, ""]))
        path.chmod(0o755)
        return str(path)

    for name in ("bin/python", "bin/python3.11", "venv/bin/python", "conda/bin/python", "my env/bin/python3"):
        write(name)
    write("bin/torchrun", f"#!{tmp_path}/venv/bin/python", "import sys")
    write("bin/accelerate", "#!/usr/bin/env python3.11")
    write("bin/trl", "#!/bin/sh", f"""'''exec' "{tmp_path}/my env/bin/python3" "$0" "$@\"""", "' '''")
    write("bin/broken", f"#!{tmp_path}/gone/bin/python3")
    write("bin/launch", "#!/bin/bash", "python train.py")
    (tmp_path / "train.py").write_text("#!/usr/bin/env python3.11\n")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "environ", "found", "why"),
    [
        (("python", "x.py"), {}, "bin/python", "the command names python"),
        (("python3.11", "x.py"), {}, "bin/python3.11", "the command names python3.11"),
        (("./venv/bin/python", "x.py"), {}, "venv/bin/python", "the command names ./venv/bin/python"),
        (("python", "x.py"), {"VIRTUAL_ENV": "venv"}, "bin/python", "the command names python"),
        (("torchrun", "x.py"), {"VIRTUAL_ENV": "conda"}, "venv/bin/python", "the first line of torchrun"),
        (("accelerate", "launch"), {}, "bin/python3.11", "the first line of accelerate"),
        (("trl", "sft"), {}, "my env/bin/python3", "the first line of trl"),
        (("bin/torchrun", "x.py"), {}, "venv/bin/python", "the first line of bin/torchrun"),
        (("train.py",), {"VIRTUAL_ENV": "venv"}, "venv/bin/python", "the active environment (VIRTUAL_ENV)"),
        (
            ("train.py",),
            {"CONDA_PREFIX": "conda"},
            "conda/bin/python",
            "the active environment (CONDA_PREFIX)",
        ),
        (
            ("train.py",),
            {"VIRTUAL_ENV": "venv", "CONDA_PREFIX": "conda"},
            "venv/bin/python",
            "the active environment (VIRTUAL_ENV)",
        ),
        (
            ("train.py",),
            {"VIRTUAL_ENV": "deleted", "CONDA_PREFIX": "conda"},
            "conda/bin/python",
            "the active environment (CONDA_PREFIX)",
        ),
        (("launch",), {"VIRTUAL_ENV": "venv"}, "venv/bin/python", "the active environment (VIRTUAL_ENV)"),
        (("broken",), {"VIRTUAL_ENV": "venv"}, "venv/bin/python", "the active environment (VIRTUAL_ENV)"),
        (("no-such",), {"VIRTUAL_ENV": "venv"}, "venv/bin/python", "the active environment (VIRTUAL_ENV)"),
        ((), {"VIRTUAL_ENV": "venv"}, "venv/bin/python", "the active environment (VIRTUAL_ENV)"),
    ],
)
def test_find_python(place, command, environ, found, why):
    environ = {name: str(place / folder) for name, folder in environ.items()} | {"PATH": str(place / "bin")}
    path, reason = find_python(command, None, environ, place)
    assert (path.replace("/./", "/"), reason) == (str(place / found), why)


@pytest.mark.parametrize("command", [("train.py",), ("launch",)])
def test_ours_is_the_last_resort(place, command):
    expected = (sys.executable, "the Python that autotune runs in")
    assert find_python(command, None, {"PATH": str(place / "bin"), "VIRTUAL_ENV": ""}, place) == expected


@pytest.mark.parametrize("explicit", ["venv/bin/python", "python3.11"])
def test_explicit_wins(place, explicit):
    environ = {"PATH": str(place / "bin"), "CONDA_PREFIX": str(place / "conda")}
    path, why = find_python(("python", "x.py"), explicit, environ, place)
    assert path == str(place / ("venv/bin/python" if "/" in explicit else "bin/python3.11"))
    assert why == "--python"


def test_a_link_to_an_interpreter_is_kept(place):
    (place / "linked").mkdir()
    (place / "linked" / "python").symlink_to(place / "bin" / "python")
    path, _ = find_python((), str(place / "linked" / "python"), {"PATH": ""}, place)
    assert path == str(place / "linked" / "python")


@pytest.mark.parametrize(
    ("command", "explicit", "where"),
    [(("train.py",), "missing/python", "missing/python"), (("python3.8", "x.py"), None, "python3.8")],
)
def test_a_python_that_does_not_exist(place, command, explicit, where):
    with pytest.raises(UsageError, match="no such Python interpreter") as caught:
        find_python(command, explicit, {"PATH": str(place / "bin")}, place)
    assert caught.value.where == where
    assert "--python" in caught.value.to_do
