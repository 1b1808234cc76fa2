from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from build import Script, recording
from msgspec.structs import replace

from autotune.collect import Collected
from autotune.collect.isolation import SideEffects
from autotune.diagnose.notes import notes
from autotune.diagnose.outcome import check, interpreter, summarise
from autotune.errors import ScriptError
from autotune.model.evidence import RUN, Evidence
from autotune.model.finding import Gain
from autotune.model.recording import StartUp, StartUpTime
from autotune.predict.threads import undisturbed

NO_EFFECTS: dict[str, list[object]] = {"blocked": [], "not_isolated": []}
NONE = Collected(Path("/run"), (), "probe", 0, 1.0, 0.5, None)


@pytest.mark.parametrize(
    ("seen", "why", "expected"),
    [
        pytest.param("/one/bin/python", "--python", "--python", id="as planned"),
        pytest.param("/one/bin/python3.11", "--python", "the training process", id="another name of it"),
        pytest.param(
            "/two/bin/python",
            "--python",
            "the training process; --python /one/bin/python did not reach it",
            id="a shell found another one",
        ),
        pytest.param("/two/bin/python", "the active environment (VIRTUAL_ENV)", "the training process", id="no wish"),
    ],
)
def test_which_interpreter_trained(seen: str, why: str, expected: str) -> None:
    recording = SimpleNamespace(process={"executable": seen})
    collected = replace(NONE, recordings=(recording,))  # type: ignore[arg-type]
    assert interpreter(collected, "/one/bin/python", why) == (seen, expected)


def test_without_a_recording_it_is_the_planned_one() -> None:
    assert interpreter(NONE, "/one/bin/python", "--python") == ("/one/bin/python", "--python")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("train.py", "--key", "planted"), ("train.py", "--key", "***")),
        (("python", "train.py", "--key", "planted"), ("python", "train.py", "--key", "***")),
        (
            ("torchrun", "--nproc-per-node", "2", "train.py", "--key", "planted"),
            ("torchrun", "--nproc-per-node", "2", "train.py", "--key", "***"),
        ),
        (("train.py", "sub_verb", "--key", "planted"), ("train.py", "sub_verb", "--key", "***")),
        (("train.py", "--other", "planted", "--key", "planted"), ("train.py", "...", "--key", "***")),
        (
            ("env", "KEY=planted", "python", "train.py", "--key", "planted"),
            ("env", "KEY=***", "python", "train.py", "--key", "***"),
        ),
        (
            ("WANDB_API_KEY=planted", "OMP_NUM_THREADS=1", "train.py", "--key", "planted"),
            ("WANDB_API_KEY=***", "OMP_NUM_THREADS=1", "train.py", "--key", "***"),
        ),
        (
            ("CUDA_VISIBLE_DEVICES=", "python", "train.py", "--key", "planted"),
            ("CUDA_VISIBLE_DEVICES=", "python", "train.py", "--key", "***"),
        ),
        (("PYTHONHASHSEED=a b", "train.py", "--key", "planted"), ("PYTHONHASHSEED=***", "train.py", "--key", "***")),
        (("-m", "pkg.train", "--key", "planted"), ("-m", "pkg.train", "--key", "***")),
        (("uv", "run", "train.py", "--key", "planted"), ("uv", "run", "train.py", "--key", "***")),
        (("bash", "run.sh"), ("bash", "run.sh")),
        (("bash", "run.sh", "--key"), ("bash", "run.sh", "--key")),
        (("bash", "run.sh", "planted"), ("bash", "run.sh", "...", "--key", "***")),
        (
            ("accelerate", "launch", "--config_file", "a.yaml", "train.py", "--key", "planted"),
            ("accelerate", "launch", "--config_file", "a.yaml", "train.py", "--key", "***"),
        ),
        (("bash", "-c", "KEY=planted python train.py --key planted"), ("bash", "...", "--key", "***")),
    ],
)
def test_the_command_is_shown_without_secrets(words: tuple[str, ...], expected: tuple[str, ...]) -> None:
    process = {"argv": ["train.py", "--key", "***"], "executable": "python"}
    recording = SimpleNamespace(
        process=process, window=None, what_ifs=(), error=None, events=(), outcome="completed", side_effects=NO_EFFECTS
    )
    collected = replace(NONE, recordings=(recording,))  # type: ignore[arg-type]
    assert summarise(collected, words, "python", "", False, Path("/")).command == expected


def test_a_script_that_made_no_step_and_changed_files_is_told_so(tmp_path: Path) -> None:
    escaped = replace(NONE, effects=SideEffects(escaped=(str(tmp_path / "made.txt"), "/other")))
    with pytest.raises(ScriptError) as error:
        check(summarise(escaped, ("sh", "a.sh"), "python", "", False, tmp_path), escaped)
    assert error.value.to_do.endswith("Changed in your files meanwhile: made.txt, /other")


def test_a_full_disk_is_told_from_a_fault_of_the_script(tmp_path: Path) -> None:
    error = {"type": "OSError", "message": "[Errno 28] No space left on device", "traceback": ["train.py:3 main"]}
    recording = SimpleNamespace(
        process={"argv": ["train.py"], "executable": "python"}, window=None, what_ifs=(), error=error, events=(),
        outcome="raised", side_effects=NO_EFFECTS, startup=None,
    )  # fmt: skip
    full = replace(NONE, recordings=(recording,), exit_code=1)  # type: ignore[arg-type]
    with pytest.raises(ScriptError) as raised:
        check(summarise(full, ("train.py",), "python", "", False, tmp_path), full)
    assert raised.value.to_do.endswith("make room, or let it save less.")


def test_a_finding_that_is_left_out_is_named_with_the_reason() -> None:
    rule = SimpleNamespace(id="DL001")
    finding = SimpleNamespace(rule=rule, message="61 % of the step waits", gain=Gain(0.78, 0.7, 0.9, "modelled"))
    said = notes(Evidence({}, {}), (), (finding,))[-1]  # type: ignore[arg-type]
    assert (
        said
        == "DL001 is omitted (61 % of the step waits): the predicted gain of its change here is 0.78x (0.70 to 0.90)"
    )


@pytest.mark.parametrize(("others", "is_said"), [(1.6, True), (0.1, False), (None, False)])
def test_what_other_work_did_to_what_was_tried_is_said(others: float | None, is_said: bool) -> None:
    facts = {"machine.cpus_per_rank": 2.0, "run.num_threads": 2, "device.type": "cpu"}
    known = facts if others is None else {**facts, "replay.other_cpus": others}
    evidence = undisturbed(Evidence({RUN: known}, {}))
    said = [note for note in notes(evidence, [], ()) if note.startswith("other programs kept 1.6 CPUs")]
    assert bool(said) is is_said


@pytest.mark.parametrize(
    ("clocks", "said"),
    [
        ((True,), None),
        ((False,), "phases are timed"),
        ((False, False), "phases are"),
        ((True, False), "phases of 1 of 2 ranks are"),
    ],
)
def test_a_fall_back_to_the_hosts_clock_is_said(clocks: tuple[bool, ...], said: str | None) -> None:
    """Of each rank: beside a rank with a clock of the device, too."""
    script = Script()
    for _ in range(3):
        script.step()
    ranks = []
    for rank, has_clock in enumerate(clocks):
        one = recording(script)
        assert one.window is not None
        marks = ((0, 0), (5, 5)) if has_clock else ()
        ranks.append(
            replace(one, process={**one.process, "rank": rank}, window=replace(one.window, device_clock=marks))
        )
    found = [note for note in notes(Evidence({RUN: {"device.type": "cuda"}}), ranks, ()) if "on the host" in note]
    assert [note.startswith(said or "-") for note in found] == [True] * (said is not None)


def test_what_a_recording_counts_is_named_once_and_another_program_too() -> None:
    rows = {
        **NO_EFFECTS,
        "not_isolated": [{"what": "os.exec: cp (3 times)"}, {"what": "subprocess: rsync (in a shell)"}],
    }
    recording = SimpleNamespace(
        process={"argv": ["train.py"], "executable": "python"}, window=None, what_ifs=(), error=None, events=(),
        outcome="completed", side_effects=rows,
    )  # fmt: skip
    effects = SideEffects(not_isolated=("os.exec: cp", "subprocess: rsync"))
    collected = replace(NONE, recordings=(recording,), effects=effects)  # type: ignore[arg-type]
    named = summarise(collected, ("train.py",), "python", "", False, Path("/")).not_isolated
    assert named == ("os.exec: cp (3 times)", "subprocess: rsync (in a shell)", "subprocess: rsync")


def test_a_script_without_a_step_is_told_what_it_did_instead() -> None:
    rows = (StartUpTime("map", "", "/p/prepare.py", 41, "main", 50 * 10**9, 0, {}),)
    collected = replace(NONE, ended_by="startup_limit", wall_s=62.0, startup=StartUp(0, 10**9, 61 * 10**9, rows))
    run = summarise(collected, ("train.py",), "python", "", False, Path("/p"))
    with pytest.raises(ScriptError) as raised:
        check(run, collected)
    assert str(raised.value).splitlines()[2:] == [
        "What it did for 1 min 1 s:",
        "   82 %       50 s  map and filter of datasets: /p/prepare.py:41",
        "   16 %       10 s  the rest",
        "    2 %      1.0 s  all else",
    ]


def test_a_short_start_is_not_told() -> None:
    short = StartUp(0, 0, 9 * 10**9, (StartUpTime("code", "", "/p/a.py", 1, "f", 9 * 10**9, 0, {}),))
    collected = replace(NONE, ended_by="script", startup=short)
    with pytest.raises(ScriptError) as raised:
        check(summarise(collected, ("train.py",), "python", "", False, Path("/p")), collected)
    assert "What it did" not in str(raised.value)
