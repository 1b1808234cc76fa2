from __future__ import annotations

import os
import sys
import tomllib
from datetime import date
from importlib import metadata, resources

import pytest

from autotune.catalogue.frameworks import frameworks
from autotune.errors import UsageError
from autotune.machine.software import DISTRIBUTIONS, facts, release, software, torch_age_days


@pytest.fixture
def site(tmp_path):
    """A folder of installed distributions for PYTHONPATH."""

    def install(name, version):
        info = tmp_path / "site" / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        return tmp_path / "site"

    return install


def environ(folder):
    return {**os.environ, "PYTHONPATH": str(folder)}


def test_this_interpreter():
    found = software(sys.executable)
    assert found["python"] == "{}.{}.{}".format(*sys.version_info)
    of_frameworks = {name for one in frameworks().values() for name in one.distributions}
    assert {"python", *DISTRIBUTIONS, *of_frameworks, "torch_cuda", "torch_hip"} >= found.keys()
    for name in found.keys() - {"python", "torch_cuda", "torch_hip"}:
        assert found[name] == metadata.version(name)


def test_torch_is_read_and_never_imported(site):
    folder = site("torch", "2.8.0+cu128")
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    (folder / "torch" / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.8.0+cu128'\ndebug = False\n"
        "cuda: Optional[str] = '12.8'\ngit_version = 'abc'\nhip: Optional[str] = None\n"
    )
    found = software(sys.executable, environ(folder))
    assert (found["torch"], found["torch_cuda"]) == ("2.8.0+cu128", "12.8")
    assert "torch_hip" not in found


def test_only_the_allowlist_is_named(site):
    site("secret-project", "1.0")
    found = software(sys.executable, environ(site("flash-attn", "2.7.4.post1")))
    assert found["flash-attn"] == "2.7.4.post1"
    assert "secret-project" not in found


def test_a_chatty_sitecustomize_and_the_users_json_py_do_no_harm(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path)
    assert software(sys.executable, environ(site))["python"].startswith("3.")


def test_a_broken_distribution_does_not_hide_the_others(site):
    folder = site("trl", "1.0.0")
    (folder / "peft-0.1.dist-info").mkdir()
    (folder / "peft-0.1.dist-info" / "METADATA").write_text("Name: peft\n")
    found = software(sys.executable, environ(folder))
    assert found["trl"] == "1.0.0"
    assert found.get("peft") != ""


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("#!/bin/sh\necho oh no >&2\nexit 3\n", "oh no"),
        ("#!/bin/sh\necho fine\n", "it printed nothing"),
    ],
    ids=["missing", "fails", "is no Python"],
)
def test_an_interpreter_that_does_not_run(tmp_path, content, why):
    python = tmp_path / "python"
    if content:
        python.write_text(content)
        python.chmod(0o755)
    with pytest.raises(UsageError, match=f"does not run: .*{why}") as caught:
        software(str(python))
    assert caught.value.where == str(python)
    assert "--python" in caught.value.to_do


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2.13.0", (2, 13, 0)),
        ("2.13.0+cpu", (2, 13, 0)),
        ("2.4.0a0+f70bd71a48.nv24.06", (2, 4, 0)),
        ("5.0.0rc1", (5, 0, 0)),
        ("2.9.0.dev20250901+cu130", (2, 9, 0)),
        ("2.7.4.post1", (2, 7, 4)),
        ("main-abc", None),
        ("", None),
    ],
)
def test_release(text, parts):
    assert release(text) == parts


@pytest.mark.parametrize(
    ("text", "today", "days"),
    [
        ("2.4.1+cu121", date(2024, 7, 25), 1),
        ("2.4.0", date(2024, 7, 24), 0),
        ("2.4.0a0+nv", date(2024, 7, 23), None),
        ("2.10.0", date(2026, 1, 31), 10),
        ("2.1.0", date(2023, 10, 14), 10),
        ("2.99.0", date(2030, 1, 1), None),
        ("1.13.1", date(2030, 1, 1), None),
        ("unknown", date(2030, 1, 1), None),
    ],
)
def test_torch_age_days(text, today, days):
    assert torch_age_days(text, today) == days


def test_the_table_of_releases_is_in_order():
    table = tomllib.loads(resources.files("autotune.machine").joinpath("torch_releases.toml").read_text())
    versions = [tuple(map(int, name.split("."))) for name in table]
    assert versions == [(2, minor) for minor in range(len(versions))]
    assert list(table.values()) == sorted(table.values())


@pytest.mark.parametrize(
    ("versions", "known"),
    [
        ({}, {}),
        ({"python": "3.11.7"}, {"software.python": (3, 11, 7), "software.has_flash_attn": False}),
        (
            {"kernels": "0.4", "python": "3.9.1"},
            {"software.python": (3, 9, 1), "software.has_flash_attn": True},
        ),
        ({"lightning": "2.5.0", "pytorch-lightning": "2.4.0"}, {"software.lightning": (2, 5, 0)}),
        ({"pytorch-lightning": "2.4.0"}, {"software.lightning": (2, 4, 0)}),
        ({"torch": "2.13.0+cpu"}, {"software.torch": (2, 13, 0), "software.torch_age_days": 2}),
        ({"torch": "2.99.0"}, {"software.torch": (2, 99, 0)}),
        ({"trl": "not a version", "numpy": "2.0"}, {}),
    ],
)
def test_facts(versions, known):
    assert {fact.name: fact.value for fact in facts(versions, date(2026, 7, 10))} == known
