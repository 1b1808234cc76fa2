"""How a trial ended, from measurements that are made up."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune import collect
from autotune.collect import Collected
from autotune.collect.isolation import SideEffects
from autotune.engine.evidence import join
from autotune.machine import MachineSamples
from autotune.model.derived import Derived
from autotune.model.evidence import RUN, Fact, Setting
from autotune.model.recording import RecordedWindow, Recording
from autotune.model.report import Step
from autotune.model.tuned import Outcome, OutOfMemoryNote, Space
from autotune.model.verified import AFTER, RunResult
from autotune.tune.realisation import DiagnosedScript
from autotune.tune.token_throughput import NOT_COUNTED
from autotune.tune.trial import BaselineRun, Trials, Workspace
from autotune.tune.trial_outcome import End, ended

EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "device", "io", "compile", "kernels"))
WINDOW = RecordedWindow(3, 20, 0, 10, (1,) * 23, "optimizer", "steps")
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"argv": ["train.py"]}, software={}, frameworks={}, torch_state={},
    environment={}, memory={}, what_ifs=(), side_effects={}, overhead={}, sampler_interval_ns=1, window=WINDOW,
    **UNKNOWN, **EMPTY,
)  # fmt: skip
START = RunResult(AFTER, 50.0, 20, 3, 5.0)
GOOD = Collected(Path(), (RECORDING,), "probe", None, 5.0, 1.0, MachineSamples(5.0, 10, num_oom_kills=0))
WORKERS = ("loader#train", "loader.num_workers")
SEEN = Derived((), (Setting("loader.num_workers", "loader#train", 2, "observed"),), None)
ERROR = {"type": "ValueError", "message": "no rows", "traceback": []}


def raised(kind: str, **error) -> tuple[Recording, ...]:
    return (replace(RECORDING, outcome=kind, window=None, error={**ERROR, **error}),)


def test_a_trial_that_had_what_was_asked_is_completed() -> None:
    assert ended(GOOD, START, SEEN, {WORKERS: 2}) == End(Outcome.COMPLETED)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({WORKERS: 4}, "loader.num_workers should have been 4: the run had 2"),
        ({("run", "train.compile"): True}, "train.compile should have been True: it was not observed"),
    ],
)
def test_a_trial_that_had_something_else_is_failed(asked, error: str) -> None:
    assert ended(GOOD, START, SEEN, asked) == End(Outcome.FAILED, error)


@pytest.mark.parametrize(
    ("had", "own", "error"),
    [
        (64, 64, ""),
        (1000, 1005, ""),
        (64, None, ""),
        (None, 64, ""),
        (128, 64, "its global batch has 128 samples, that of the baseline 64"),
        (63, 64, "its global batch has 63 samples, that of the baseline 64"),
    ],
)
def test_a_trial_of_another_global_batch_is_failed(had, own, error: str) -> None:
    facts = () if had is None else (Fact("run.global_batch", RUN, had),)
    outcome = Outcome.FAILED if error else Outcome.COMPLETED
    assert ended(GOOD, START, replace(SEEN, facts=facts), {WORKERS: 2}, own) == End(outcome, error)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"recordings": raised("out_of_memory", message="can't allocate")}, (Outcome.OUT_OF_MEMORY, "can't allocate")),
        ({"recordings": (), "ended_by": "script", "exit_code": -9, "sampled": MachineSamples(5.0, 1, num_oom_kills=1)},
         (Outcome.OUT_OF_MEMORY, "killed by signal 9")),
        ({"recordings": raised("raised"), "ended_by": "script", "exit_code": 1},
         (Outcome.FAILED, "ValueError: no rows")),
        ({"recordings": raised("raised", message="")}, (Outcome.FAILED, "ValueError")),
        ({"recordings": raised("raised", message="", traceback=["/x/scratch-mirror/train.py:3 main"])},
         (Outcome.FAILED, "ValueError at train.py:3 main")),
        ({"recordings": (), "ended_by": "script", "exit_code": 1, "said": "Traceback\nImportError: no such\n"},
         (Outcome.FAILED, "ImportError")),
        ({"recordings": (), "ended_by": "script", "exit_code": 3}, (Outcome.FAILED, "exit code 3")),
        ({"recordings": (), "ended_by": "script", "exit_code": -11}, (Outcome.FAILED, "killed by signal 11")),
        ({"recordings": (), "ended_by": "startup_limit", "waiting_in": "train.py:3 load"},
         (Outcome.TIMED_OUT, "no optimizer step in 5 s; it was in train.py:3 load")),
        ({"recordings": (), "ended_by": "time_limit"}, (Outcome.TIMED_OUT, "no step was measured in 5 s")),
        ({"recordings": (), "ended_by": "not_injected"}, (Outcome.FAILED, "ignores the environment")),
        ({"recordings": (), "ended_by": "script", "exit_code": 0}, (Outcome.FAILED, "ended before a step")),
        ({"recordings": (), "bugs": ("KeyError\nframe",)}, (Outcome.FAILED, "internal error: KeyError")),
    ],
)  # fmt: skip
def test_what_was_not_measured_says_why(fields, expected) -> None:
    end = ended(replace(GOOD, **fields), None, None, {})
    assert end.outcome is expected[0]
    assert expected[1] in end.error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"type": "OutOfMemoryError", "message": "CUDA out of memory. Tried to allocate 2.00 GiB"},
            OutOfMemoryNote.DEVICE,
        ),
        ({"type": "OutOfMemoryError", "message": "HIP out of memory"}, OutOfMemoryNote.DEVICE),
        ({"type": "RuntimeError", "message": "CUDA error: out of memory"}, OutOfMemoryNote.DEVICE),
        (
            {"type": "RuntimeError", "message": "DefaultCPUAllocator: can't allocate memory: 4 bytes"},
            OutOfMemoryNote.HOST,
        ),
        ({"type": "MemoryError", "message": ""}, OutOfMemoryNote.HOST),
        ({"type": "OSError", "message": "[Errno 12] Cannot allocate memory"}, OutOfMemoryNote.HOST),
    ],
)
def test_whose_memory_ran_out_is_told_by_the_error(error, expected: OutOfMemoryNote) -> None:
    out = replace(GOOD, recordings=raised("out_of_memory", **error), sampled=MachineSamples(5.0, 1, num_oom_kills=1))
    assert ended(out, None, None, {}).ran_out is expected


@pytest.mark.parametrize("recordings", [(), raised("raised"), (RECORDING,)], ids=["killed", "worker", "of a sibling"])
def test_the_kernel_kills_for_the_memory_of_the_host(recordings) -> None:
    end = ended(replace(GOOD, recordings=recordings, sampled=MachineSamples(5.0, 1, num_oom_kills=1)), None, None, {})
    assert (end.outcome, end.ran_out) == (Outcome.OUT_OF_MEMORY, OutOfMemoryNote.HOST)


def test_what_is_of_other_samples_and_not_counted_is_failed() -> None:
    assert ended(GOOD, START, SEEN, {}, None, "not counted") == End(Outcome.FAILED, "not counted")
    late = replace(GOOD, recordings=(replace(RECORDING, window=replace(WINDOW, ended_by="time_limit")),))
    assert ended(late, START, SEEN, {}, None, "not counted").outcome is Outcome.FAILED


@pytest.mark.parametrize("recordings", [(), raised("raised", message="", traceback=["train.py:3 main"])])
@pytest.mark.parametrize("said", ["RuntimeError: 401 for https://user:TOKEN@host", "TOKEN", "give up: TOKEN"])
def test_what_the_script_says_of_its_end_is_not_kept(recordings, said: str) -> None:
    failed = replace(GOOD, recordings=recordings, ended_by="script", exit_code=1, said=f"Traceback\n{said}\n")
    end = ended(failed, None, None, {})
    assert end.outcome is Outcome.FAILED
    assert end.error
    assert "TOKEN" not in end.error


def test_a_window_that_time_ended_is_of_a_loser() -> None:
    late = replace(RECORDING, window=replace(WINDOW, ended_by="time_limit"))
    end = ended(replace(GOOD, recordings=(late,)), START, SEEN, {})
    assert end.outcome is Outcome.PRUNED
    assert end.error == "50.0 ms a step after 20: too slow to win"


def test_a_script_that_fails_after_its_window_has_failed() -> None:
    late = (replace(RECORDING, outcome="raised", error=ERROR),)
    assert ended(replace(GOOD, recordings=late), START, SEEN, {}).outcome is Outcome.FAILED


class Ran:
    """A start whose batches held `useful` tokens a second."""

    def __init__(self, useful: float | None) -> None:
        self.useful = useful

    def run(self, side, request):
        step = Step(20, 200.0, 200.0, 200.0, {}, samples_per_s=40.0, useful_tokens_per_s=self.useful)
        had = (*SEEN.settings, Setting("data.packing", RUN, True, "observed"))
        return GOOD, replace(START, step_ms=200.0, samples=8.0), Derived((), had, step)

    def with_real_paths(self, text: str) -> str:
        return text


def trials(**facts) -> Trials:
    """Of a script whose diagnosis found these facts of the step."""
    evidence = join([Fact(f"step.{name}", RUN, value) for name, value in facts.items()], [])
    workspace = Workspace(Path(), Path(), {}, "no-python", {}, {}, lambda status: None)
    script = DiagnosedScript(("train.py",), evidence, None, {}, lambda name: b"")
    return Trials(workspace, script, Space(()), BaselineRun(0.2, 1.0, 8.0))


def test_what_other_tuners_write_into_the_study_is_no_change_by_the_script() -> None:
    measured = trials()
    measured.workspace = replace(measured.workspace, study="/p/study.journal")
    escaped = ("/p/model.pt", "/p/study.journal", "/p/study.journal.lock")
    wrote = replace(GOOD, effects=SideEffects(escaped=escaped))
    start, _ = measured.judged(Ran(None), (wrote, replace(START, escaped=escaped), SEEN), {}, {})
    assert start.escaped == ("/p/model.pt",)
    assert [one.escaped for one in measured.effects] == [("/p/model.pt",)]
    unstarted, _ = measured.judged(Ran(None), (wrote, None, None), {}, {})
    assert unstarted is None


@pytest.mark.parametrize("study", ["/p/study", "/p/study.db"])
def test_what_the_script_writes_beside_a_study_is_its_own(study: str) -> None:
    workspace = replace(trials().workspace, study=study)
    uuid = "0b6e0a52-7f0e-4c52-8f0c-9e6a5b7f6f6e"
    its = [study + end for end in ("", ".lock", f".lock{uuid}.rename", "-journal", "-wal", "-shm")]
    assert workspace.by_script(its) == ()
    others = ("/p/study_results/best.json", f"{study}.csv", f"{study}/a.lock", f"{study}-wal.txt", f"{study}.locks")
    assert workspace.by_script(others) == others
    assert replace(workspace, study="").by_script(its) == tuple(its)


KNOWN = {"samples_per_s": 40.0, "useful_tokens_per_s": 4000.0}
PACKED, WITH_WORKERS = {(RUN, "data.packing"): True}, {WORKERS: 2}


@pytest.mark.parametrize(
    ("known", "useful", "asked", "outcome", "samples"),
    [
        (KNOWN, 20_000.0, PACKED, Outcome.COMPLETED, 40.0),
        (KNOWN, None, PACKED, Outcome.FAILED, 8.0),
        ({}, 20_000.0, PACKED, Outcome.FAILED, 8.0),
        (KNOWN, 4_000.0, WITH_WORKERS, Outcome.COMPLETED, 8.0),
        # Tokens are counted of some batches: what holds the user's own samples is counted by these, which is exact.
        (KNOWN, 2_000.0, WITH_WORKERS, Outcome.COMPLETED, 8.0),
        ({}, None, WITH_WORKERS, Outcome.COMPLETED, 8.0),
    ],
)
def test_a_step_counts_by_what_it_holds_of_the_users_own_samples(known, useful, asked, outcome, samples) -> None:
    made = trials(**known)
    ran = Ran(useful)
    start, end = made.judged(ran, ran.run(AFTER, collect.Request()), asked, {})
    assert (end.outcome, start.samples) == (outcome, pytest.approx(samples))
    assert end.error == (NOT_COUNTED if outcome is Outcome.FAILED else "")
