from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UsageError
from autotune.scan.ranges import ranges
from autotune.scan.requirements import bounded_requirements, python, requirements, versions


def read(text: str, name: str = "requirements.txt") -> dict[str, tuple[int, ...]]:
    return dict(versions(text.encode(), name))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("transformers==4.46.1", {"transformers": (4, 46, 1)}),
        ("  torch == 2.4.0+cu121  # pinned", {"torch": (2, 4, 0)}),
        ("accelerate[test]===1.2", {"accelerate": (1, 2)}),
        ("trl==0.9.6  # was 0.9.4; see there", {"trl": (0, 9, 6)}),
        ('trl==0.9.6 ; python_version >= "3.9"', {}),
        ('torch==2.13.0; sys_platform == "win32"', {}),
        ('torch[opt]==2.4.0+cu121 ; sys_platform == "linux"', {}),
        (f"torch=={'9' * 5000}", {}),
        ("trl==0.9.6 --hash=sha256:00", {"trl": (0, 9, 6)}),
        ("Flash_Attn==2.6.3", {"flash-attn": (2, 6, 3)}),
        ("pytorch-lightning==1.9.5", {"lightning": (1, 9, 5)}),
        ("transformers>=4.46", {}),
        ("transformers<5", {}),
        ("transformers~=4.46", {}),
        ("transformers!=4.46.1", {}),
        ("transformers==4.46.*", {}),
        ("transformers==5.0.0rc1", {}),
        ("transformers==4.46.0.dev0", {}),
        ("transformers", {}),
        ("# transformers==4.46.1", {}),
        ("-r other.txt", {}),
        ("git+https://host/transformers@v4.46.1", {}),
        ("", {}),
    ],
)
def test_requirements(line: str, expected: dict[str, tuple[int, ...]]) -> None:
    assert read(f"numpy==1.0\n{line}\n") == {"numpy": (1, 0), **expected}


def test_two_releases_of_a_package_pin_none() -> None:
    text = "torch==2.4.0\ntorch==2.2.0\ntrl==1.0\ntrl==1.0\n"
    assert read(text) == {"trl": (1, 0)}


def test_conda() -> None:
    text = """name: train
dependencies:
  - python=3.11
  - pytorch=2.4.0=py3.11_cuda12.1_0
  - numpy>=1.26
  - conda-forge::scipy=1.0
  - pip:
    - transformers==4.46.1
    - "trl==0.9.6"
    - 'peft==0.13.0; sys_platform == "win32"'
"""
    expected = {"python": (3, 11), "torch": (2, 4, 0), "transformers": (4, 46, 1), "trl": (0, 9, 6)}
    assert read(text, "environment.yml") == expected


def test_pyproject() -> None:
    text = """[project]
dependencies = ["transformers==4.46.1", "torch>=2", "sentencepiece==0.2.0; python_version < '3.9'"]
[project.optional-dependencies]
train = ["trl == 0.9.6"]
[dependency-groups]
dev = ["accelerate==1.2.0", { include-group = "other" }]
[tool.poetry.dependencies]
python = "^3.11"
peft = "0.13.0"
datasets = { version = "==3.0.1", extras = ["audio"] }
lightning = "^2.4"
tokenizers = { version = "0.20.0", markers = "sys_platform == 'win32'" }
numpy = { version = "2.0.0", python = ">=3.12" }
"""
    assert read(text, "pyproject.toml") == {
        "transformers": (4, 46, 1),
        "trl": (0, 9, 6),
        "accelerate": (1, 2, 0),
        "peft": (0, 13, 0),
        "datasets": (3, 0, 1),
    }


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (".python-version", "3.12\n", (3, 12)),
        (".python-version", "# of the team\n3.12.4\n", (3, 12, 4)),
        (".python-version", "3.12\n3.11\n", None),
        (".python-version", "pypy3.10-7.3.12\n", None),
        (".python-version", "3.14t\n", None),
        (".python-version", "", None),
        ("pyproject.toml", '[project]\nrequires-python = "==3.12.*"', (3, 12)),
        ("pyproject.toml", '[project]\nrequires-python = " == 3.12.4 "', (3, 12, 4)),
        ("pyproject.toml", '[project]\nrequires-python = ">=3.12"', None),
        ("pyproject.toml", '[project]\nrequires-python = "~=3.12"', None),
        ("pyproject.toml", '[project]\nrequires-python = "==3.12.*,!=3.12.1"', None),
        ("pyproject.toml", "[project]\nrequires-python = 3.12", None),
        ("pyproject.toml", 'project = "x"', None),
    ],
)
def test_a_python_is_named_and_no_bound_of_it(name: str, text: str, expected: tuple[int, ...] | None) -> None:
    assert python(text.encode(), name) == expected


@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock"])
def test_lock_files(name: str) -> None:
    text = """version = 1
[[package]]
name = "transformers"
version = "4.46.1"
[[package]]
name = "torch"
version = "2.5.0.dev1"
[[package]]
name = "own"
"""
    assert read(text, name) == {"transformers": (4, 46, 1)}


@pytest.mark.parametrize(
    "text",
    [
        "project = 1",
        "[project]\ndependencies = 3",
        "[project]\ndependencies = [1, 2]",
        "[project.optional-dependencies]\na = 1",
        "[tool]\npoetry = 1",
        "package = [1]",
        "package = 1",
    ],
)
def test_tables_of_another_shape_pin_nothing(text: str) -> None:
    assert read(text, "pyproject.toml") == {}


@pytest.mark.parametrize("text", ["[project", "a = " + "[" * 5000, "a = " + "9" * 5000])
def test_a_broken_file_says_where(text: str) -> None:
    with pytest.raises(UsageError) as error:
        read(text, "sub/pyproject.toml")
    assert error.value.where == "sub/pyproject.toml"
    assert error.value.to_do


@given(st.binary() | st.text().map(str.encode), st.sampled_from(["r.txt", "e.yml", "p.toml", "uv.lock"]))
def test_no_bytes_are_a_traceback(data: bytes, name: str) -> None:
    try:
        found = versions(data, name)
    except UsageError as error:
        assert error.where == name
        return
    assert all(isinstance(part, int) for release in found.values() for part in release)


@pytest.mark.parametrize("text", ["a" + " " * 500_000 + "b", "a>=" + "1." * 200_000 + "x", "a>=1" + ",>=1" * 100_000])
def test_a_hostile_line_takes_no_time(text: str) -> None:
    assert read(text) == {}
    assert read(f"project.dependencies = ['{text}']", "pyproject.toml") == {}
    assert ranges(requirements(text.encode(), "requirements.txt")).keys() <= {"a"}


REQUIREMENTS = """\
# transformers==4.39
torch==2.4.0+cu121
transformers[torch] >= 4.32, < 4.41  # was 4.40

trl>=0.9
peft~=0.11 --hash=sha256:00
-r other.txt
accelerate==1.2; sys_platform == "win32"
"""
PROJECT = """\
[project]
dependencies = [
    "torch>=2.1",
    'transformers == 4.40.2',
    "trl<0.10",
]
[project.optional-dependencies]
old = ["trl<0.10", "peft<0.12"]
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "requirements.txt",
            REQUIREMENTS,
            [("torch==2.4.0", 2), ("transformers>=4.32,<4.41", 3), ("peft~=0.11", 6)],
        ),
        (
            "pyproject.toml",
            PROJECT,
            [("transformers==4.40.2", 4), ("trl<0.10", None), ("trl<0.10", None), ("peft<0.12", 8)],
        ),
        (
            "environment.yml",
            "dependencies:\n  - pytorch=2.4.0\n  - pip:\n    - trl<0.10\n",
            [("trl<0.10", 4)],
        ),
        ("uv.lock", '[[package]]\nname = "torch"\nversion = "2.4.0"\n', []),
    ],
)
def test_what_bounds_from_above_has_its_line(name: str, text: str, expected: list[tuple[str, int | None]]) -> None:
    assert list(bounded_requirements(text.encode(), name)) == expected
