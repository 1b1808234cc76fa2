"""Measurements that do not go as they should, and what is left behind: no process, no scratch folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import autotune
from autotune.collect.artefacts import new_run
from autotune.collect.command import PlannedCommand
from autotune.collect.request import Request
from autotune.collect.run import _probe_has_left, collect
from autotune.diagnose import outcome
from autotune.errors import InternalError, ScriptError

CHECKOUT = Path(autotune.__file__).parent.parent
pytestmark = pytest.mark.train

LOOP = """
    import sys, time
    import torch

    class Model(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            during(self.calls)
            return super().forward(x)

    def during(call):
        {during}

    def main(steps={steps}):
        {before}
        model = Model(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
        {after}

    main()
"""


def script(during="pass", before="pass", after="pass", steps=10**6):
    return LOOP.format(during=during, before=before, after=after, steps=steps)


@dataclass(frozen=True)
class Case:
    """A script, how it is started, and what is asked."""

    text: str
    words: tuple[str, ...] = ("train.py",)
    request: dict = field(default_factory=dict)
    files: dict = field(default_factory=dict)


NO_MEMORY = 'raise RuntimeError("[enforce fail] DefaultCPUAllocator: can\'t allocate memory: 9 bytes")'
AFTER = """
        torch.save(model.state_dict(), "final.pt")
        hooked = [torch.nn.Module.__call__, torch.autograd.backward, torch.optim.Optimizer.__init__, torch.save,
                  torch.optim.SGD.step, torch.utils.data.DataLoader.__init__]
        print("HOOKED", [one.__qualname__ for one in hooked if "/autotune/probe/" in one.__code__.co_filename])
"""
CASES = {
    "raises before": Case(script(before="raise ValueError('private text')")),
    "raises in forward": Case(script(during="assert call < 6"), request={"steps": 50}),
    "asks": Case(script(before="input('token? ')")),
    "no memory": Case(script(during=NO_MEMORY)),
    "no step": Case(script(steps=0, before="Model(2, 1)(torch.ones(1, 2))")),
    "no torch": Case("print('hello')"),
    "exits": Case("import torch, sys; sys.exit(7)"),
    "ends early": Case(script(steps=5), request={"steps": 50}),
    "hangs before": Case(
        "import torch, time\ndef load_data():\n    time.sleep(60)\nload_data()", request={"startup_limit_s": 9.0}
    ),
    "hangs in step 7": Case(
        script(during="time.sleep(60 if call == 7 else 0)"), request={"steps": 50, "time_limit_s": 0.5}
    ),
    "isolated": Case(script(), ("python", "-I", "train.py", "--lr", "1")),
    "own PYTHONPATH": Case(script(), ("bash", "-c", "PYTHONPATH=. python train.py")),
    "env -i": Case(script(), ("env", "-i", "OMP_NUM_THREADS=1", sys.executable, "train.py")),
    "three stages": Case(
        script(),
        ("run.sh",),
        files={"run.sh": "python a.py\npython train.py\npython c.py\n", "a.py": "print('A')", "c.py": "print('C')"},
    ),
    "python -m": Case(script(), ("python", "-m", "train")),
    "keeps going": Case(
        script(steps=200, after=AFTER),
        request={"keep_going": True},
    ),
    "torchrun": Case(
        """
        import os, torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        while True:
            model(torch.ones(4, 2)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        ("torchrun", "--nproc-per-node", "2", "train.py"),
    ),
    "a bug of ours": Case(
        script(before="sys.modules['_autotune_probe.window'].StepWindow._is_late = lambda *moment: {}['private text']"),
    ),
    "mp.spawn": Case(
        """
        import torch
        import torch.distributed as dist

        def train(rank, size, store):
            dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            while True:
                model(torch.ones(4, 2)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

        if __name__ == "__main__":
            import tempfile
            torch.multiprocessing.spawn(train, args=(2, tempfile.mktemp()), nprocs=2)
        """,
        request={"what_ifs": True},
    ),
    "lightning ddp": Case(
        """
        import torch
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(2, 1)

            def training_step(self, batch):
                return self.layer(batch[0]).sum()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        data = torch.utils.data.TensorDataset(torch.ones(4000, 2))
        trainer = lightning.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False,
        )
        trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=4))
        """,
        request={"what_ifs": True},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def results(place_in, tmp_path_factory):
    """{name: (place, measurement)} of all cases; two run at a time, because most of a start is waiting."""
    root = tmp_path_factory.mktemp("cases")

    def run(name):
        case, place = CASES[name], place_in(root / name.replace(" ", "-"))
        place.write("train.py", case.text)
        for file, text in case.files.items():
            place.write(file, text)
        return place, place.measure(*case.words, **case.request)

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(CASES, pool.map(run, CASES), strict=True))


def processes_of(folder):
    """Processes whose environment names a Request below `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AUTOTUNE_REQUEST", "").startswith(str(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def verdict(measured, words=("train.py",)):
    """(RunSummary, the message of ScriptError or None)."""
    run = outcome.summarise(measured.collected, words, sys.executable, "asked for", False, Path.cwd())
    try:
        outcome.check(run, measured.collected)
    except ScriptError as error:
        return run, str(error)
    return run, None


WITH_WORKERS = """
    import os
    from multiprocessing.util import get_temp_dir
    import torch

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 10**6

        def __getitem__(self, i):
            return torch.ones(2)

    if __name__ == "__main__":
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(Data(), 4, num_workers=2, multiprocessing_context="{context}")
        for batch in loader:
            assert any(name.startswith("listener-") for name in os.listdir(get_temp_dir()))
            model(batch).sum().backward()
            optimizer.step()
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_leave_no_sockets(place_in, tmp_path, monkeypatch, context):
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    place = place_in(tmp_path / "project")
    place.write("train.py", WITH_WORKERS.format(context=context))
    measured = place.measure("train.py", environ={"TMPDIR": str(tmp_path / "t")})
    assert (measured.collected.ended_by, measured.recording.window.steps) == ("probe", 6)
    left = {path.name.partition("-")[0] for path in (tmp_path / "t").iterdir()}
    assert not left & {"pymp", "atmp"}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.long
def test_nothing_is_left_behind(results, name):
    place, measured = results[name]
    assert processes_of(place.cwd) == []
    assert not (measured.collected.folder / "scratch-folders").exists()
    expected = {".autotune", "train.py", *CASES[name].files, *(["final.pt"] if name == "keeps going" else [])}
    assert {path.name for path in place.cwd.iterdir()} == expected


MEASURED = ("isolated", "own PYTHONPATH", "env -i", "three stages", "python -m", "keeps going")


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.long
def test_every_way_to_start_a_script_is_measured(results, name):
    _, measured = results[name]
    one = measured.recording
    assert (one.outcome, one.window.steps, one.window.ended_by) == ("completed", 6, "steps")
    assert one.process["main_file"].endswith("/train.py")
    assert verdict(measured)[1] is None


@pytest.mark.long
def test_an_isolated_interpreter_keeps_its_flags_and_arguments(results):
    _, measured = results["isolated"]
    assert measured.recording.process["argv"] == ["train.py", "--lr", "1"]


@pytest.mark.long
def test_a_later_stage_of_a_shell_script_never_runs(results):
    _, measured = results["three stages"]
    assert measured.out.split() == ["A"]
    assert measured.collected.ended_by == "probe"


@pytest.mark.parametrize("name", ["torchrun", "mp.spawn", "lightning ddp"])
@pytest.mark.long
def test_every_rank_reports(results, name):
    _, measured = results[name]
    ranks = measured.collected.recordings
    told = [[one.process[name] for one in ranks] for name in ("rank", "local_rank", "world_size", "local_world_size")]
    assert told == [[0, 1], [0, 1], [2, 2], [2, 2]]
    assert [path.read_text() for path in measured.collected.folder.glob("left-*")] == ["2", "2"]
    first, second = ([(tried.name, tried.arguments) for tried in one.what_ifs] for one in ranks)
    assert first == second
    assert {what for what, _ in first} <= ({"replay_changed"} if name != "torchrun" else set())  # where steps are short
    assert [one.window.steps for one in ranks] == [6, 6]
    assert [one.outcome for one in ranks] == ["completed", "completed"]
    assert measured.collected.ended_by == "probe"
    assert len({one.process["pid"] for one in ranks}) == 2


@pytest.mark.long
def test_keep_going_finishes_natively(results):
    place, measured = results["keeps going"]
    assert (measured.collected.ended_by, measured.collected.exit_code) == ("probe", 0)
    assert measured.out == "HOOKED []\n"
    assert (place.cwd / "final.pt").stat().st_size > 0


@pytest.mark.parametrize(
    ("name", "expected", "exit_code", "said"),
    [
        ("raises before", "raised", 1, "failed before its first optimizer step: ValueError at "),
        ("asks", "raised", 1, "asked for input"),
        ("no torch", "no_step", 0, "ended without an optimizer step"),
        ("no step", "no_step", 0, "ended without an optimizer step"),
        ("exits", "raised", 7, "exit code 7"),
        ("hangs before", "timed_out", None, "; it was in "),
    ],
)
@pytest.mark.long
def test_a_script_without_a_step_is_an_error_that_says_why(results, name, expected, exit_code, said):
    _, measured = results[name]
    run, message = verdict(measured)
    assert run.outcome == expected
    assert measured.collected.exit_code == exit_code
    assert said in message
    assert "private text" not in message


@pytest.mark.long
def test_a_bug_of_ours_is_no_failure_of_the_script(results):
    _, measured = results["a bug of ours"]
    (note,) = measured.collected.bugs
    assert note.startswith("KeyError\n  ")
    assert "window.py" in note
    assert "private text" not in note
    with pytest.raises(InternalError, match=r"(?s)internal error.*KeyError"):
        verdict(measured)


@pytest.mark.long
def test_the_frame_of_a_long_start_is_named(results):
    _, measured = results["hangs before"]
    assert measured.collected.ended_by == "startup_limit"
    assert measured.collected.waiting_in.endswith("train.py:3 load_data")


@pytest.mark.long
def test_a_script_that_raises_has_its_steps_and_its_phase(results):
    _, measured = results["raises in forward"]
    one = measured.recording
    assert one.outcome == "raised"
    assert (one.error["type"], one.error["phase"], one.error["message"]) == ("AssertionError", "forward", "")
    assert one.error["traceback"][-1].endswith("train.py:14 during")
    assert len(one.window.step_ends_ns) == 5
    assert one.window.ended_by == "error"
    assert verdict(measured)[1] is None, "steps were measured: there is something to report"


@pytest.mark.long
def test_a_death_of_memory_before_the_first_step_is_a_diagnosis(results):
    _, measured = results["no memory"]
    one = measured.recording
    assert (one.outcome, one.error["phase"], one.window) == ("out_of_memory", "forward", None)
    assert "can't allocate memory" in one.error["message"]
    assert one.memory["rss_peak_bytes"] > 0
    run, message = verdict(measured)
    assert (run.outcome, message) == ("out_of_memory", None)


@pytest.mark.long
def test_a_short_script_is_a_normal_case(results):
    _, measured = results["ends early"]
    one = measured.recording
    assert (one.outcome, one.window.warmup_steps, one.window.steps) == ("ended_early", 2, 3)
    assert (measured.collected.ended_by, measured.collected.exit_code) == ("script", 0)
    assert verdict(measured)[1] is None


@pytest.mark.long
def test_a_hanging_step_ends_at_the_time_limit(results):
    _, measured = results["hangs in step 7"]
    one = measured.recording
    assert (one.outcome, one.window.ended_by, len(one.window.step_ends_ns)) == ("completed", "time_limit", 6)
    assert measured.collected.ended_by == "probe"


def test_a_program_that_cannot_be_started_is_said_to_be_so(tmp_path):
    program = tmp_path / "train"
    program.write_text("no interpreter line")
    with pytest.raises(ScriptError, match="cannot be started") as caught:
        collect(
            Request(), PlannedCommand((str(program),), None), new_run(tmp_path), cwd=tmp_path, environ={}, show=print
        )
    assert caught.value.where == str(program)


def test_messages_can_go_into_a_file_and_their_end_comes_back(tmp_path, capfd):
    words = PlannedCommand(("sh", "-c", "printf '10%%\\r20%%\\nno such file\\n' >&2; exit 3"), None)
    environ = {"PATH": os.environ["PATH"]}
    for stderr, said in ((tmp_path / "stderr", "20%\nno such file"), (None, "")):
        collected = collect(
            Request(), words, new_run(tmp_path), cwd=tmp_path, environ=environ, show=lambda seen: None, stderr=stderr
        )
        assert (collected.exit_code, collected.said) == (3, said)
        assert ("no such file" in capfd.readouterr().err) == (stderr is None)


INTERRUPTED = """
    import os, sys, time
    moment = sys.argv[1]

    def pause(now):
        if now == moment:
            os.write(1, b"NOW\\n")
            time.sleep(60)

    pause("before torch")
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    pause("before step 1")
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x,) in enumerate(DataLoader(TensorDataset(torch.ones(4096, 2)), batch_size=4, num_workers=1)):
        torch.save(model.state_dict(), "checkpoint.pt")
        model(x).sum().backward()
        optimizer.step()
        pause({1: "warm-up", 4: "window", 10: "what-ifs"}.get(step))
"""
MOMENTS = ("before torch", "before step 1", "warm-up", "window", "what-ifs")


@pytest.fixture(scope="module")
def interrupted(place_in, tmp_path_factory):
    """{moment: (place, exit code, stderr)} of diagnose with a Ctrl-C at that moment."""
    root = tmp_path_factory.mktemp("interrupted")

    def run(moment):
        place = place_in(root / moment.replace(" ", "-"))
        place.write("train.py", INTERRUPTED)
        words = ("--no-lock", "--steps", "6", "--warmup", "2", "train.py", moment)
        child = subprocess.Popen(
            [sys.executable, "-m", "autotune", "diagnose", *words],
            cwd=place.cwd,
            # The home of a place is its folder: the tool's own cache goes elsewhere.
            env={**place.environ, "PYTHONPATH": str(CHECKOUT), "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"]},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert child.stdout.readline() == "NOW\n", child.stderr.read()
        child.send_signal(signal.SIGINT)
        errors = child.communicate(timeout=60)[1]
        return place, child.returncode, errors

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(MOMENTS, pool.map(run, MOMENTS), strict=True))


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_leaves_nothing_behind(interrupted, moment):
    place, code, errors = interrupted[moment]
    assert code == 130
    assert "Traceback" not in errors
    assert processes_of(place.cwd) == []
    assert {path.name for path in place.cwd.iterdir()} == {".autotune", "train.py"}
    assert list(place.cwd.rglob("*scratch*")) == []
    (run,) = place.cwd.glob(".autotune/runs/*")
    assert (f"the window was measured: autotune report {run.name}\n" in errors) == (moment == "what-ifs")


@pytest.mark.parametrize(
    ("markers", "left"),
    [({}, False), ({1: "1"}, True), ({1: "2"}, False), ({1: "2", 2: "2"}, True), ({1: "1", 2: "2", 3: "2"}, True)],
)
def test_the_job_is_over_when_all_its_processes_have_said_so(tmp_path, markers, left):
    for pid, text in markers.items():
        (tmp_path / f"left-{pid}").write_text(text)
    assert _probe_has_left(tmp_path) is left
