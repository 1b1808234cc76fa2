"""benchmarks/accuracy/peer_tools.py: how peers are started on a case, how they are read, and what is no verdict."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

PEERS = ("traceml", "gpuprof", "pytscope", "hotpath", "torchfix")
SUMMARY = {
    "primary_diagnosis": {"kind": "INPUT_BOUND", "severity": "crit"},
    "step_time": {
        "diagnosis": {"kind": "INPUT_BOUND", "severity": "crit"},
        "issues": [{"kind": "X", "severity": "info"}],
    },
    "step_memory": {"diagnosis": {"kind": "NO_GPU", "severity": "info"}},
}
PYTSCOPE = """pytscope — run  (runs/case)
● FINDINGS (3)
  [HIGH] Input pipeline is a bottleneck  (TIMING.DATALOADER_BOUND)
        98% of step time (12 ms/step).
  [LOW ] High step-time variance  (TIMING.JITTER)
  [MED ] 82% of wall time is recoverable (data_stall)  (EFFICIENCY.RECOVERABLE)
"""
HOTPATH = [
    {"rule_id": "KP001", "severity": "warning", "confidence": "high"},
    {"rule_id": "KP002", "severity": "info", "confidence": "high"},
    {"rule_id": "KP012", "severity": "warning", "confidence": "heuristic"},
]


@pytest.fixture
def tools(imported):
    return imported("benchmarks.accuracy.peer_tools")


@pytest.fixture
def cases(tools):
    labels = importlib.import_module("benchmarks.accuracy.cases")
    return {case.id: case for case in labels.read().cases}


def out(peer):
    return {
        "traceml": "",
        "gpuprof": json.dumps({"steps": 9, "insights": [["dataloader_stall", "high", "t"], ["x", "low", "t"]]}),
        "pytscope": PYTSCOPE,
        "hotpath": json.dumps({"files": [{"findings": HOTPATH}]}),
        "torchfix": "a/b.py:3:9: TOR401 Without workers\n",
    }[peer]


SAID = {
    "traceml": (("INPUT_BOUND", False), ("X", True), ("NO_GPU", True)),
    "gpuprof": (("dataloader_stall", False), ("x", True)),
    "pytscope": (
        ("TIMING.DATALOADER_BOUND", False),
        ("TIMING.JITTER", True),
        ("EFFICIENCY.RECOVERABLE data_stall", False),
    ),
    "hotpath": (("KP001", False), ("KP002", True)),
    "torchfix": (("TOR401", False),),
}


@pytest.fixture
def answer(tools, cases, monkeypatch, tmp_path):
    """The answer of a peer on a case when each of its processes ends as `ended` says; `commands` gets their words."""

    def answered(peer, name, ended=None, commands=None):
        case, folder = cases[name], tmp_path / "run"

        def run(argv, *, cwd, environ, limit_s):
            if commands is not None:
                commands.append(argv)
            (cwd / "logs" / "case").mkdir(parents=True, exist_ok=True)
            (cwd / "logs" / "case" / "final_summary.json").write_text(json.dumps(SUMMARY))
            return ended or tools.measuring.Ended(0, 2.0, 1.0, out(peer), "Finished checking 1 files.")

        monkeypatch.setattr(tools.measuring, "run", run)
        laid_out = importlib.import_module("benchmarks.accuracy.cases").laid_out
        start = laid_out(case, folder, None, is_changed=False)
        return tools.answer(peer, case, start, folder, Path("/envs") / peer / "bin")

    return answered


@pytest.mark.parametrize("peer", PEERS)
def test_an_answer_has_each_code_once_and_whether_it_was_said_low(answer, peer):
    assert answer(peer, "pytorch_23048_one_worker").said == SAID[peer]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize(("code", "why"), [(1, "exit 1: Killed"), (None, "stopped after")])
def test_a_crash_and_a_time_out_are_no_verdict(tools, answer, peer, code, why):
    with pytest.raises(tools.NoVerdictError, match=why):
        answer(peer, "pytorch_23048_one_worker", tools.measuring.Ended(code, 2.0, 1.0, out(peer), "Killed"))


@pytest.mark.parametrize("peer", PEERS[1:])
def test_an_end_without_a_report_is_no_verdict(tools, answer, peer):
    with pytest.raises((ValueError, LookupError)):
        answer(peer, "pytorch_23048_one_worker", tools.measuring.Ended(0, 2.0, 1.0, "", ""))


def test_a_summary_that_was_not_written_is_no_verdict(tools, tmp_path):
    with pytest.raises(OSError):
        tools.read_traceml([], tmp_path)


def test_findings_that_cannot_be_read_are_no_verdict(tools, tmp_path):
    changed = PYTSCOPE.replace("[LOW ]", "<low>")
    with pytest.raises(tools.NoVerdictError, match="2 of its 3 findings"):
        tools.read_pytscope([tools.measuring.Ended(0, 1.0, 1.0, changed, "")], tmp_path)


def test_a_file_that_a_linter_cannot_read_is_no_verdict(tools, tmp_path):
    broken = {"rule_id": "syntax-error", "severity": "error", "confidence": "high"}
    ended = tools.measuring.Ended(0, 1.0, 1.0, json.dumps({"files": [{"findings": [broken]}]}), "")
    with pytest.raises(tools.NoVerdictError, match="syntax-error"):
        tools.read_hotpath([ended], tmp_path)


def test_the_seconds_are_those_of_the_training(answer):
    assert answer("pytscope", "pytorch_23048_one_worker").wall_s == 2.0


def test_a_script_is_started_by_the_python_of_the_peer(answer):
    commands = []
    answer("gpuprof", "accelerate_one_worker", commands=commands)
    python = "/envs/gpuprof/bin/python"
    assert commands[0] == [python, "accelerate_3168_no_workers.py", "--num-workers", "1"]
    assert commands[1][0] == python


def test_torchrun_is_that_of_the_peer(answer):
    commands = []
    answer("pytscope", "ddp_averages_every_micro_batch", commands=commands)
    launcher = ["/envs/pytscope/bin/python", "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    assert commands[0] == [*launcher, "ddp_averages_every_micro_batch.py"]


def test_traceml_starts_processes_itself(answer):
    commands = []
    answer("traceml", "ddp_averages_every_micro_batch", commands=commands)
    head = ["/envs/traceml/bin/traceml", "run", "ddp_averages_every_micro_batch.py", "--nproc-per-node", "2"]
    assert commands[0] == [*head, "--logs-dir", "logs", "--run-name", "case", "--args"]


def test_braces_of_an_argument_stay(tools, tmp_path):
    start = tools.corpus.Case(("python", "train.py", "--set", "{'a': 1}"), tmp_path, {})
    use = tools.placed(tools.USES["gpuprof"], Path("/bin"))
    assert tools.begun(use, start) == ["/bin/python", "train.py", "--set", "{'a': 1}"]


@pytest.mark.parametrize("argv", [("accelerate", "launch", "train.py"), ("python", "-m", "a.py"), ("python",)])
def test_a_command_that_names_no_script_is_no_verdict(tools, tmp_path, argv):
    with pytest.raises(tools.NoVerdictError, match="not started by"):
        tools.script_at(tools.corpus.Case(argv, tmp_path, {}))


def test_a_linter_gets_the_script_and_the_files_with_the_fault(tools, cases, tmp_path):
    case = next(case for case in cases.values() if case.corpus and any("trainer.py" in str(row) for row in case.plant))
    start = tools.corpus.Case(("python", "main.py"), tmp_path / "project", {})
    planted = [tmp_path / row["file"] for row in case.plant]
    assert tools.sources(case, start, tmp_path) == [tmp_path / "project" / "main.py", *planted]
    one_by_one = tools.reading(tools.USES["hotpath"], case, start, tmp_path)
    assert [words[2] for words in one_by_one] == [str(path) for path in (tmp_path / "project" / "main.py", *planted)]


def test_a_case_without_python_is_nothing_to_read(tools, answer):
    with pytest.raises(tools.NoVerdictError, match="no Python file"):
        answer("hotpath", "llamafactory_6962_offloads_with_memory_free")


def test_static_and_public_cases_are_for_those_that_read(tools, cases):
    public = next(case for case in cases.values() if case.corpus)
    static = next(case for case in cases.values() if case.is_static)
    assert [tools.out_of_scope("traceml", case) for case in (public, static)] == ["public", "static"]
    assert [tools.out_of_scope("hotpath", case) for case in (public, static)] == ["", ""]
