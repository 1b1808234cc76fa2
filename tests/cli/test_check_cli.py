from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from autotune import cli
from autotune.cli import run
from autotune.report import formats

HEAVY = ("torch", "transformers", "optuna", "psutil", "pynvml", "rich", "matplotlib", "numpy", "jsonschema", "ruamel")

SCRIPT = """
    import torch
    from torch.utils.data import DataLoader

    model = torch.nn.Linear(1, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for x in DataLoader(open_dataset(), batch_size=4):
        loss = model(x.cuda()).sum()
        loss.backward()
        optimizer.step()
        torch.cuda.empty_cache()
"""

CONFIG = "output_dir: x\nper_device_train_batch_size: 2\nnum_train_epochs: 1\nevaluation_strategy: steps\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_here_is_checked_by_default(project, capsys) -> None:
    assert run(["check", "--fail-on", "never"]) == 0
    out, err = capsys.readouterr()
    assert "train.py" in out
    assert "SY005" in out
    assert err == ""


@pytest.mark.parametrize("format_", formats("check"))
def test_every_format_has_the_finding(format_: str, project, capsys) -> None:
    assert run(["check", ".", "--format", format_, "--select", "SY005", "--fail-on", "never"]) == 0
    out = capsys.readouterr().out
    assert "SY005" in out
    assert out.endswith("\n")


def test_the_facts_of_a_script_are_printed_as_an_example_has_them(project, capsys) -> None:
    (project / ".python-version").write_text("3.12\n")
    assert run(["check", "--facts", "--fail-on", "info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# train.py"
    assert '"software.python" = "3.12"  # run' in lines
    facts = tomllib.loads("\n".join(dict.fromkeys(line for line in lines if line.startswith('"'))))
    assert facts["code.num_empty_cache_in_step"] == 1
    assert "loader.wait_share" not in facts


@pytest.mark.parametrize(("fail_on", "code"), [("never", 0), ("critical", 0), ("medium", 1), ("low", 1), ("info", 1)])
def test_the_exit_code_says_how_grave_it_is(fail_on: str, code: int, project, capsys) -> None:
    assert run(["check", "--select", "SY005", "--fail-on", fail_on]) == code


@pytest.mark.parametrize(("paths", "code"), [(["train.py"], 2), (["other.py", "sub/../train.py"], 2), (["."], 0)])
def test_a_named_file_that_cannot_be_parsed_is_no_success(paths: list[str], code: int, project, capsys) -> None:
    (project / "sub").mkdir()
    (project / "other.py").write_text("x = 1\n")
    (project / "train.py").write_text(textwrap.dedent(SCRIPT) + "x = = 1\n")
    assert run(["check", *paths, "--fail-on", "never"]) == code
    out, err = capsys.readouterr()
    assert "invalid Python" in out
    assert ("train.py: named on the command line" in err) is (code == 2)


def test_nothing_found_is_exit_0(project, capsys) -> None:
    (project / "train.py").unlink()
    assert run(["check"]) == 0


def test_output_goes_to_a_file(project, capsys) -> None:
    assert run(["check", "--format", "json", "--output", "out.json", "--select", "SY005,DL"]) in (0, 1)
    assert capsys.readouterr().out == ""
    assert {row["rule"] for row in json.loads((project / "out.json").read_text())["findings"]} >= {"SY005"}
    assert run(["check", "--output", "no/such/folder.txt"]) == 2


def test_selectors_may_be_lists_in_any_case(project, capsys) -> None:
    run(["check", "--format", "json", "--select", "dl, sy005", "--select", "EN", "--ignore", "dl004"])
    rules = {row["rule"] for row in json.loads(capsys.readouterr().out)["findings"]}
    assert "SY005" in rules
    assert "DL004" not in rules


def test_a_baseline_is_written_and_used(project, capsys) -> None:
    assert run(["check", "--all", "--fail-on", "info", "--write-baseline", "b.json", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    known = sum(one["by"] == "baseline" for one in json.loads(out)["silenced"])
    assert err == f"b.json: written, with {known} findings; use it with --baseline b.json\n"
    assert run(["check", "--all", "--fail-on", "info", "--baseline", "b.json"]) == 0
    assert run(["check", "--fail-on", "info"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "xml"], "is not one of"),
        (["--fail-on", "bad"], "is not one of"),
        (["--max", "step.mean_ms=3"], "--max needs --profile"),
        (["--max", "x", "--profile", "last"], "is not a limit"),
        (["--max", "x=nan", "--profile", "last"], "is not a limit"),
        (["--max-regression", "5%"], "--max-regression needs --profile"),
        (["--max-regression", "5%", "--profile", "last"], "--max-regression needs --against"),
        (["--max-regression", "5", "--profile", "a", "--against", "b"], "is not a percentage; write e.g. 5%"),
        (["--against", "last"], "--against needs --max-regression"),
        (["--python", "python"], "--python needs --env"),
        (["--select", "XX"], "XX"),
        (["gone"], "gone"),
        (["--profile", "last"], "no run"),
        (["--baseline", "gone.json"], "gone.json"),
    ],
)
def test_wrong_usage_is_exit_2(arguments: list[str], said: str, project, capsys) -> None:
    assert run(["check", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_a_bug_of_ours_is_exit_4(project, monkeypatch, capsys) -> None:
    monkeypatch.setattr("autotune.cli.check.check", lambda *_, **__: 1 / 0)
    assert run(["check"]) == cli.BUG
    assert "internal error" in capsys.readouterr().err


def loaded(*arguments: str) -> set[str]:
    code = "import sys; from autotune.cli import run; run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def heavy(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules} & set(HEAVY)


def test_nothing_heavy_is_loaded(project) -> None:
    assert heavy(loaded("check")) == set()


def test_yaml_loads_its_parser_and_nothing_else(project) -> None:
    (project / "c.yaml").write_text(CONFIG)
    assert heavy(loaded("check")) == {"ruamel"}


LATER = {
    "autotune.scan.bundle", "autotune.engine.evaluate", "autotune.engine.parse", "dataclasses", "difflib", "hashlib",
    "json", "lzma", "packaging", "tomllib", "traceback",
}  # fmt: skip
"""What `check` needs only where something trains, or after a mistake: each takes a part of its start."""


def test_a_tree_without_training_starts_with_little(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(2))\n")
    loaded("check")  # fills the cache
    assert loaded("check") & LATER == set()


def test_the_project_is_left_as_it_was(project, capsys) -> None:
    before = sorted(project.rglob("*"))
    run(["check"])
    assert sorted(project.rglob("*")) == before


def test_on_a_card_that_is_too_small(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--on fails a launch that surely cannot fit, says the number, and does not import torch."""
    (project / "a.yml").write_text(
        "base_model: a/llama-8b\nmicro_batch_size: 1\ndatasets: [x]\noptimizer: adamw_torch\n"
    )
    (project / "run.sh").write_text("torchrun --nproc_per_node 1 -m axolotl.cli.train a.yml\n")
    assert run(["check", "--on", "a100-40", "--select", "ME011"]) == 1
    assert "at least 51 GiB" in " ".join(capsys.readouterr().out.split())
    assert run(["check", "--on", "a100-80", "--select", "ME011"]) == 0
    assert run(["check", "--on", "a100-4", "--select", "ME011"]) == 2
    assert "Did you mean a100-40?" in capsys.readouterr().err
