from __future__ import annotations

import errno
import json
import subprocess
import sys

import click
import pytest

from autotune import __version__, cli
from autotune.cli import run
from autotune.engine import load
from autotune.engine.load import load_rules
from autotune.engine.static import decides_without_a_run
from autotune.errors import BusyError, RuleError, ScriptError, UsageError
from autotune.explain.rules import find_rule
from autotune.report import render

HEAVY = ("torch", "transformers", "optuna", "psutil", "pynvml", "rich", "numpy", "jsonschema")


def printed(capsys, *arguments: str) -> str:
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_rules_lists_every_rule_in_80_columns(capsys) -> None:
    out = printed(capsys, "rules")
    assert max(map(len, out.splitlines())) <= 80
    heads = [line.split() for line in out.splitlines() if not line.startswith(" ")]
    assert [head[:3] for head in heads] == [[rule.id, rule.severity.value, rule.name] for rule in load_rules()]
    marked = [head[0] for head in heads if head[3:] == ["[check]"]]
    assert marked == [rule.id for rule in load_rules() if decides_without_a_run(rule)]
    text = " ".join(out.split())
    assert all(rule.summary in text for rule in load_rules())


def test_rules_as_json(capsys) -> None:
    data = json.loads(printed(capsys, "rules", "--format", "json"))
    assert data["schema"] == 1
    assert [row["id"] for row in data["rules"]] == [rule.id for rule in load_rules()]
    assert {row["id"]: row["decides_without_a_run"] for row in data["rules"] if row["id"] in ("DL002", "PR005")} == {
        "DL002": True,
        "PR005": True,
    }
    first = next(row for row in data["rules"] if row["id"] == "DL001")
    assert (first["severity"], first["subject"], first["settings"][0]) == ("high", "loader", "loader.num_workers")


def test_no_rules_is_empty_text() -> None:
    assert render("rules", ()) == ""


@pytest.mark.parametrize("rule", load_rules(), ids=lambda rule: rule.id)
def test_explain_says_all_that_the_file_says(rule, capsys) -> None:
    out = printed(capsys, "explain", rule.id)
    assert out.startswith(f"{rule.id} {rule.name}\n{rule.severity} severity, {rule.confidence} confidence")
    assert all(len(line) <= 80 or " " not in line.strip() for line in out.splitlines())
    text = " ".join(out.split())
    for said in (rule.summary, rule.why, rule.when, *rule.references, *(limit.why for limit in rule.limits.values())):
        assert " ".join(said.split()) in text
    assert " ".join(rule.as_static().when.split()) in text
    assert ("\nWithout a run (autotune check)\n" in out) == decides_without_a_run(rule)
    for fix in (*rule.fixes, *rule.as_static().fixes):
        assert (
            f"- {fix.setting} = {' '.join(fix.value.split())}"
            if fix.setting
            else fix.text.split("{")[0].split("[")[0].strip()
        ) in text
    assert ("\nGain\n" in out) == (rule.gain is not None)
    own = f"{rule.code.before}\n{rule.code.after}".splitlines() if rule.code else []
    assert not [line for line in out.splitlines() if "{" in line and not any(line.endswith(code) for code in own)]


def test_explain_shows_limits_effects_and_meanings(capsys) -> None:
    out = " ".join(printed(capsys, "explain", "DL001").split())
    assert "- min_wait_share = 5 %: below 5 %" in out
    assert "equivalent: the same training; other rounding or random draws" in out
    assert "- loader.is_train: its batches are trained on: most of its batches, or one" in out
    assert "When (for each loader)" in out
    assert "workers" in out


@pytest.mark.parametrize("name", ["DL001", "dl001", "batches-prepared-in-the-training-process"])
def test_a_rule_is_found_by_id_in_any_case_and_by_name(name: str) -> None:
    assert find_rule(name).id == "DL001"


@pytest.mark.parametrize(
    ("name", "near"),
    [("DL01", "DL001"), ("DL0001", "DL001"), ("DI001", "DL001"), ("batches-prepared-in-training", "DL001")],
)
def test_an_unknown_rule_names_the_near_ones(name: str, near: str, capsys) -> None:
    assert run(["explain", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f'autotune: there is no rule "{name}"\nDid you mean ')
    assert near in err
    assert "`autotune rules` lists them." in err


def test_nothing_near_is_not_guessed(capsys) -> None:
    assert run(["explain", "§§§"]) == 2
    assert capsys.readouterr().err == 'autotune: there is no rule "§§§"\n`autotune rules` lists them.\n'


@pytest.mark.parametrize("verb", ["rules", "explain"])
def test_a_broken_rule_file_is_exit_2_and_named(verb: str, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "_rules" / "x").mkdir(parents=True)
    (tmp_path / "_rules" / "x" / "XX001.toml").write_text("id = 'XX001'\n")
    monkeypatch.setattr(load, "_PACKAGE", tmp_path)
    assert run([verb] if verb == "rules" else [verb, "XX001"]) == 2
    err = capsys.readouterr().err
    assert "x/XX001.toml: when: " in err
    assert "Traceback" not in err


def test_version(capsys) -> None:
    assert printed(capsys, "--version") == f"autotune {__version__}\n"


def test_help_names_every_verb_without_importing_one(capsys, monkeypatch) -> None:
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: pytest.fail(f"imported {name}"))
    out = printed(capsys, "--help")
    assert all(f"  {name} " in out and verb.summary.split()[0] in out for name, verb in cli.VERBS.items())


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_can_be_imported_and_has_help(verb: str, capsys) -> None:
    assert printed(capsys, verb, "--help").startswith(f"Usage: autotune {verb}")


@pytest.mark.parametrize("arguments", [["no-such-verb"], ["rules", "--format", "xml"], ["explain"], ["--nope"]])
def test_wrong_usage_is_exit_2(arguments, capsys) -> None:
    assert run(arguments) == 2
    assert "Usage: autotune" in capsys.readouterr().err


def failing(error: BaseException):
    @click.command()
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UsageError("bad", where="a.toml", to_do="Repair it."), 2, "autotune: a.toml: bad\nRepair it.\n"),
        (RuleError("bad"), 2, "autotune: bad\n"),
        (BusyError("busy"), 2, "autotune: busy\n"),
        (ScriptError("it failed"), 3, "autotune: it failed\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.Abort(), 130, "interrupted"),
        (click.UsageError("no"), 2, "Error: no"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_exit_codes(error, code: int, said: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli.Verbs, "get_command", lambda self, ctx, name: failing(error))
    assert run(["rules"]) == code
    err = capsys.readouterr().err
    assert said in err
    assert "Traceback" not in err


def test_what_the_system_refuses_is_no_bug_of_ours(monkeypatch, capsys) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/p/.autotune/last")
    monkeypatch.setattr(cli.Verbs, "get_command", lambda self, ctx, name: failing(full))
    assert run(["rules"]) == 2
    assert capsys.readouterr().err == "autotune: /p/.autotune/last: No space left on device\n"


def test_anything_else_is_a_bug_of_ours(monkeypatch, capsys) -> None:
    monkeypatch.setattr(cli.Verbs, "get_command", lambda self, ctx, name: failing(ZeroDivisionError("oops")))
    assert run(["rules"]) == 4
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "ZeroDivisionError: oops" in err
    assert "internal error" in err
    assert f"autotune {__version__}, Python {sys.version.split()[0]}" in err


def test_a_verb_s_own_exit_code_is_kept(monkeypatch) -> None:
    @click.command()
    def command() -> int:
        return 1

    monkeypatch.setattr(cli.Verbs, "get_command", lambda self, ctx, name: command)
    assert run(["rules"]) == 1


@pytest.mark.parametrize("arguments", [["rules"], ["explain", "DL001"], ["--version"], ["--help"]])
def test_nothing_heavy_is_loaded(arguments) -> None:
    code = (
        "import sys; from autotune.cli import run; code = run(sys.argv[1:]); "
        f"print(code, sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == "0 []\n"


def test_python_m_autotune_into_a_closed_pipe() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "autotune", "explain", "DL001"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 1
