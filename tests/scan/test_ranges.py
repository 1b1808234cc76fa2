from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.scan.declared import Declared
from autotune.scan.ranges import Range, exactly, ranges
from autotune.scan.requirements import requirements


def bounds(*lines: str, package: str = "transformers") -> tuple[object, object] | None:
    found = ranges(lines).get(package)
    return (found.low, found.high) if found else None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("transformers>=4.32.0,<4.38.0", ((4, 32, 0), (4, 38, 0))),
        ("transformers >= 4.32, < 4.38  # as trained", ((4, 32), (4, 38))),
        ("transformers[torch] (>=4.32)", ((4, 32), None)),
        ("transformers<5", (None, (5,))),
        ("transformers<=4.38", (None, (4, 39))),
        ("transformers~=4.37", ((4, 37), (5,))),
        ("transformers~=4.37.2", ((4, 37, 2), (4, 38))),
        ("transformers==4.37.*", ((4, 37), (4, 38))),
        ("transformers>=4.32,!=4.33.0", ((4, 32), None)),
        ("transformers>=4.32 --hash=sha256:00", ((4, 32), None)),
        ("transformers", None),
        ('transformers<5; sys_platform == "win32"', None),
        ("transformers>=5.0.0rc1", None),
        ("transformers^4.32", None),
        ("# transformers<5", None),
        ("-r other.txt", None),
    ],
)
def test_a_range(line: str, expected: object) -> None:
    assert bounds(line) == expected


FORK = "git+https://github.com/someone/transformers-fork"


@pytest.mark.parametrize(
    ("line", "is_source"),
    [
        (f"transformers @ {FORK}.git", True),
        (f"transformers[torch] @ {FORK}", True),
        (f"{FORK}.git#egg=transformers", True),
        (f"{FORK}@4a2b#subdirectory=python&egg=transformers[torch]", True),
        (f"-e {FORK}.git#egg=transformers", True),
        (f"--editable={FORK}@4a2b#egg=transformers", True),
        ("-e git+https://github.com/someone/transformers.git@4a2b", True),
        ("-e git+https://github.com/huggingface/transformers.git#egg=transformers", None),  # the newest one
        (f"-e {FORK}", None),  # of another name
        ("-e .", None),
        ("git+ssh://git@github.com/huggingface/transformers.git@4a2b", True),
        ("git+https://github.com/huggingface/transformers.git", None),  # the newest one
        (f"{FORK}", None),  # of another name
        ("transformers>=4.32", False),
        (f"transformers @ git+https://github.com/{'a/' * 1_000}b", None),
    ],
)
def test_a_repository_has_no_known_release(line: str, is_source: bool | None) -> None:
    found = ranges([line]).get("transformers")
    assert (found.is_source if found else None) is is_source
    assert found is None or found.is_before((99,)) is is_source


def test_the_tag_of_a_release_is_that_release() -> None:
    tagged = "git+https://github.com/huggingface/transformers@v4.46.1"
    assert ranges([f"-e {tagged}#egg=transformers"])["transformers"] == exactly("transformers", (4, 46, 1))
    assert ranges([f"{tagged}-release"])["transformers"].is_source  # a branch
    assert ranges([tagged.replace("huggingface", "someone")])["transformers"].is_source  # a fork's own


def test_the_text_is_what_is_asked_for() -> None:
    assert ranges(["Transformers >= 4.32, <5"])["transformers"].text == "Transformers>=4.32,<5"
    assert ranges(["pytorch_lightning<2"]) == {"lightning": Range("pytorch_lightning<2", None, (2,))}


def test_of_several_the_widest_counts() -> None:
    assert bounds("transformers>=4.32,<4.38", "transformers>=4.30,<5") == ((4, 30), (5,))
    assert bounds("transformers<5", "transformers>=4.30") == (None, None)
    assert bounds("transformers<5", "transformers<5") == (None, (5,))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "torch\ntransformers<5\n"),
        ("setup.py", 'from setuptools import setup\nsetup(name="a", install_requires=["torch", "transformers<5"])\n'),
        ("setup.py", 'NEEDS = ["transformers <5"]\nsetup(install_requires=NEEDS)\n'),
        ("setup.py", 'NEEDS = ["torch"] + ["transformers<5"]\nsetup(install_requires=["numpy", *NEEDS])\n'),
        (
            "setup.py",
            'D = ["torch", "transformers<5"]\nd = table(D)\nNEEDS = [d["transformers"]]\nsetup(install_requires=NEEDS)',
        ),
        ("setup.py", 'd = {"transformers": "transformers[torch] <5"}\nsetup(install_requires=[d["transformers"]])\n'),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    transformers<5\n"),
        ("env.yml", "dependencies:\n  - pip:\n    - transformers<5\n"),
        ("environment.yml", 'dependencies:\n  - pip:\n    - "transformers<5"\n'),
        ("pyproject.toml", '[project]\ndependencies = ["torch", "transformers<5"]\n'),
        ("pyproject.toml", '[tool.poetry.dependencies]\npython = "^3.11"\ntransformers = "<5"\n'),
        ("pyproject.toml", '[dependency-groups]\ntrain = ["transformers<5", { include-group = "other" }]\n'),
    ],
)
def test_every_kind_of_file_has_ranges(name: str, text: str) -> None:
    assert bounds(*requirements(text.encode(), name)) == (None, (5,))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "setup.py",
            'D = ["transformers<5", "transformers<4"]\nd = table(D)\nsetup(install_requires=[d["transformers"]])',
        ),
        ("setup.py", 'D = ["transformers<5"]\nd = table(D)\nsetup(install_requires=[d["torch"]])'),
        ("setup.py", "A = B\nB = A\nsetup(install_requires=A)\n"),
        ("setup.py", 'setup(install_requires=read("requirements.txt"), extras_require={"a": ["transformers<5"]})\n'),
        ("setup.cfg", "[options.extras_require]\ntrain =\n    transformers<5\n"),
        ("setup.cfg", "[flake8]\nignore = E1\n"),
    ],
)
def test_what_setuptools_is_not_given_has_no_range(name: str, text: str) -> None:
    assert bounds(*requirements(text.encode(), name)) is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ('"^4.44"', ((4, 44), (5,))),
        ('"^0.3.1"', ((0, 3, 1), (0, 4))),
        ('"^0.0.3"', ((0, 0, 3), (0, 0, 4))),
        ('"^0"', ((0,), (1,))),
        ('"~4.44.1"', ((4, 44, 1), (4, 45))),
        ('"~4"', ((4,), (5,))),
        ('">= 4.40, < 5"', ((4, 40), (5,))),
        ('{ version = "^4.44", extras = ["torch"] }', ((4, 44), (5,))),
        ('{ version = "^4.44", python = ">=3.12" }', None),
        ('{ git = "https://host/transformers" }', (None, None)),
        ('"*"', None),
        ('"4.46.1"', ((4, 46, 1), (4, 46, 2))),
    ],
)
def test_poetry_has_words_of_its_own(wanted: str, expected: object) -> None:
    text = f"[tool.poetry.dependencies]\ntransformers = {wanted}\n"
    assert bounds(*requirements(text.encode(), "pyproject.toml")) == expected


@pytest.mark.parametrize(
    ("text", "is_source"),
    [
        ('[tool.uv.sources]\ntransformers = { git = "https://github.com/someone/transformers", rev = "4a2b" }\n', True),
        ('[tool.poetry.dependencies]\ntransformers = { git = "https://github.com/someone/x.git" }\n', True),
        ('[tool.uv.sources]\ntransformers = { git = "https://github.com/huggingface/transformers" }\n', None),  # newest
        ("[tool.uv.sources]\ntransformers = { workspace = true }\n", None),
        ('[tool.uv]\nsources = "none"\n', None),
    ],
)
def test_uv_and_poetry_name_repositories_in_tables(text: str, is_source: bool | None) -> None:
    found = ranges(requirements(text.encode(), "pyproject.toml")).get("transformers")
    assert (found.is_source if found else None) is is_source


def test_a_lock_file_asks_for_nothing() -> None:
    assert list(requirements(b"transformers<5", "uv.lock")) == []


def test_ranges_are_those_of_the_nearest_folder_that_says_anything(tmp_path: Path) -> None:
    (tmp_path / "inner" / "empty").mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("transformers<5\ntrl==0.9.6\n")
    (tmp_path / "inner" / "requirements.txt").write_text("transformers<4.40\n")
    declared = Declared(tmp_path)
    high = {file: declared.ranges(file)["transformers"].high for file in ("a.py", "inner/a.py", "inner/empty/a.py")}
    assert high == {"a.py": (5,), "inner/a.py": (4, 40), "inner/empty/a.py": (4, 40)}
    assert declared.versions("inner/a.py") == {"trl": (0, 9, 6)}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("README.md", "conda install pytorch==1.11.0 torchvision==0.12.0 -c pytorch;", (1, 11, 0)),
        ("README.md", "```\npip install 'torch==1.11.0+cu113' \\\n  timm\n```", (1, 11, 0)),
        ("Dockerfile", "RUN pip3 install --no-cache torch==1.11.0 && pip install timm", (1, 11, 0)),
        ("setup.sh", "uv pip install torch==1.11.0", (1, 11, 0)),
        ("h100.sh", "pip3 install torch==1.11.0\ntorchrun train.py", (1, 11, 0)),
        ("run.sh", "python -m pip install torch==1.11.0\ntorchrun \\\n  -m src.train", (1, 11, 0)),
        ("h100.sh", "# H100\npip3 install torch==1.11.0 && pip3 install wandb\nA=1\nexport B=1", (1, 11, 0)),
        ("install_all.sh", "pip install torch==1.11.0\npython setup.py develop", (1, 11, 0)),
        ("serve.sh", "pip install torch==1.11.0\nvllm serve model", None),
        ("lint.sh", "pip install torch==1.11.0 && pytest", None),
        ("other.sh", "pip install torch==1.11.0\npython evaluate.py --train", None),
        ("README.md", "pip install torch>=1.11.0", None),
        ("README.md", "tested with torch==1.11.0", None),
        ("README.md", "pip install torch==1.11.0\npip install torch==2.1.0", None),
        ("NOTES.md", "pip install torch==1.11.0", None),
    ],
)
def test_what_instructions_install(tmp_path: Path, name: str, text: str, expected: tuple[int, ...] | None) -> None:
    (tmp_path / name).write_text(text)
    assert Declared(tmp_path).versions("train.py").get("torch") == expected


@pytest.mark.parametrize("folder", ["docs", "ci", "recipe/tools"])
def test_shell_scripts_of_other_folders_install_for_others(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "install.sh").write_text("pip install torch==1.11.0\npython train.py\n")
    assert Declared(tmp_path).versions("recipe/train.py") == {}


def test_a_config_gets_what_the_script_that_starts_it_installs(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("pip install trl==0.9.6\ntrl sft --config sft.yaml\n")
    declared = Declared(tmp_path)
    assert [declared.versions(name) for name in ("sft.yaml", "run.sh", "dpo.yaml")] == [{"trl": (0, 9, 6)}] * 2 + [{}]


def test_the_nearest_instructions_of_each_package_count(tmp_path: Path) -> None:
    (tmp_path / "recipe").mkdir()
    (tmp_path / "README.md").write_text("pip install torch==1.11.0 trl==0.9.6\n")
    (tmp_path / "recipe" / "run.sh").write_text("pip install torch==2.1.0\npython train.py\n")
    (tmp_path / "recipe" / "h200.sh").write_text("pip install peft==0.10.0\n")
    expected = {"torch": (2, 1, 0), "peft": (0, 10, 0), "trl": (0, 9, 6)}
    assert Declared(tmp_path).versions("recipe/train.py") == expected


def test_a_pin_or_a_range_goes_before_instructions(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("pip install torch==1.11.0 trl==0.9.6 peft==0.10.0\n")
    (tmp_path / "requirements.txt").write_text("torch==2.1.0\ntrl>=0.12\n")
    assert Declared(tmp_path).versions("train.py") == {"torch": (2, 1, 0), "peft": (0, 10, 0)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("requirement.txt", (1, 11, 0)),
        ("requirements-train.txt", (1, 11, 0)),
        ("dev-requirements.txt", (1, 11, 0)),
        ("reqs.txt", (1, 11, 0)),
        ("pip-packages.txt", (1, 11, 0)),
        ("notes.txt", None),
        ("requirement.md", None),
    ],
)
def test_lists_for_pip_have_several_names(tmp_path: Path, name: str, expected: tuple[int, ...] | None) -> None:
    (tmp_path / name).write_text("torch==1.11.0\n")
    assert Declared(tmp_path).versions("train.py").get("torch") == expected


@given(st.text())
def test_no_text_is_a_traceback(text: str) -> None:
    assert all(isinstance(one, Range) for one in ranges(text.splitlines()).values())


CONDA = "name: x\ndependencies:\n  - python=3.8.16\n  - numpy=1.23.5=py38h14f4228_0\n  - pip:\n      - peft==0.10.0\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"docker/environment.yml": CONDA}, (1, 23, 5)),
        ({"envs/train-gpu.yaml": CONDA}, (1, 23, 5)),
        ({"requirements/train.txt": "numpy==1.23.5\n"}, (1, 23, 5)),
        ({"Docker/Dockerfile": "RUN pip install numpy==1.23.5\n"}, (1, 23, 5)),
        ({"docker/environment.yml": CONDA, "requirements.txt": "torch==2.1.0\n"}, (1, 23, 5)),
        ({"docker/environment.yml": CONDA, "requirements.txt": "numpy==1.26.4\n"}, (1, 26, 4)),
        ({"docker/environment.yml": CONDA, "requirements.txt": "numpy>=1.20\n"}, None),
        ({"docker/environment.yml": CONDA, "README.md": "pip install numpy==1.26.4\n"}, (1, 26, 4)),
        ({"docker/environment.yml": CONDA, "src/requirements.txt": "numpy==1.26.4\n"}, (1, 26, 4)),
        ({"docker/environment.yml": CONDA, "src/envs/environment.yml": CONDA.replace("1.23.5", "1.20.3")}, (1, 20, 3)),
        ({"docker/environment.yml": CONDA, "env/environment.yml": CONDA.replace("1.23.5", "1.20.3")}, None),
        ({"docker/compose.yml": "services:\n  - numpy=1.23.5\n"}, None),
        ({"other/environment.yml": CONDA}, None),
        ({"docker/notes.txt": "numpy==1.23.5\n"}, None),
    ],
)
def test_folders_that_set_an_environment_up(tmp_path, files, expected) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "src").mkdir(exist_ok=True)
    assert Declared(tmp_path).versions("src/train.py").get("numpy") == expected


def test_ranges_of_folders_that_set_an_environment_up(tmp_path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/base.txt").write_text("transformers>=4.30,<4.40\ntrl<0.9\n")
    (tmp_path / "requirements.txt").write_text("trl<0.8\n")
    found = Declared(tmp_path).ranges("train.py")
    assert {name: one.high for name, one in found.items()} == {"transformers": (4, 40), "trl": (0, 8)}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a/README.md": "pip install transformers==4.43.4"}, ((4, 43, 4), (4, 43, 5))),
        ({"a/README.md": "pip install transformers==4.43.4", "b/requirements.txt": "transformers<5"}, (None, (5,))),
        ({"a/README.md": "pip install transformers==4.43.4", "b/requirements.txt": "transformers>=4.2"}, None),
        ({"a/README.md": "transformers", ".venv/requirements.txt": "transformers<5"}, None),
    ],
)
def test_what_the_project_asks_for_elsewhere(tmp_path: Path, files: dict[str, str], expected: object) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = Declared(tmp_path).elsewhere().get("transformers")
    assert ((found.low, found.high) if found else None) == expected
