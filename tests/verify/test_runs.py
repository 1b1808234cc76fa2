"""Where a start runs and what its Recordings say; the measurement itself is made up."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune import collect
from autotune.machine import MachineSamples
from autotune.model.derived import Derived
from autotune.model.recording import Event, Fetch, RecordedWindow, Recording
from autotune.model.report import Step
from autotune.model.verified import AFTER, BEFORE, SIDES, TimeSlicing
from autotune.verify import disturbances, runs
from autotune.verify.runs import SideRunner
from autotune.verify.scratch import Mirror
from autotune.verify.sides import Sides

pytestmark = pytest.mark.usefixtures("few_beside")

EMPTY = dict.fromkeys(("events", "fetches", "batches", "samples", "loaders", "optimizers", "models", "calls"), ())
UNKNOWN = dict.fromkeys(("error", "device", "io", "compile", "kernels"))
RECORDING = Recording(
    outcome="completed", origin_ns=0, process={"argv": ["train.py"]}, software={}, frameworks={}, torch_state={},
    environment={}, memory={}, what_ifs=(), side_effects={}, overhead={}, sampler_interval_ns=1, losses=(2.0, 1.0),
    window=RecordedWindow(3, 20, 0, 10, (1,) * 23, "optimizer", "steps"), **UNKNOWN, **EMPTY,
)  # fmt: skip
STATUS = collect.Status()
STEP = Step(20, 50.0, 50.0, 60.0, {}, samples_per_s=640.0)
SAMPLED = MachineSamples(wall_s=5.0, num_samples=10, cpu_s=4.0, rss_peak_bytes=1000)


@dataclass
class Asked:
    """What the measurement was asked for, and what it brings."""

    collected: collect.Collected
    step: Step | None = STEP
    command: collect.PlannedCommand | None = None
    folder: Path | None = None
    cwd: Path | None = None
    environ: dict | None = None
    seen: str = ""
    requests: list = field(default_factory=list)
    began: int = 0
    window_s: float = 0.3
    protected: Path | None = None


@pytest.fixture
def asked(monkeypatch):
    made = Asked(collect.Collected(Path(), (RECORDING,), "probe", 0, 5.0, 1.0, SAMPLED))
    readings = iter([disturbances.CpuReading(10.0, 100.0), disturbances.CpuReading(18.0, 110.0)])

    def run(request, command, folder, *, cwd, environ, show, stdout, stderr, hold, protected):
        assert stderr.parent == folder
        made.protected = protected
        made.command, made.folder, made.cwd, made.environ = command, folder, cwd, environ
        made.requests.append(request)
        made.seen = (cwd / "settings.py").read_text()
        assert folder.is_dir()
        assert stdout is not None
        if hold is collect.isolation_gaps:
            return made.collected
        with subprocess.Popen(["sleep", "9"], start_new_session=True) as child, hold(child.pid):
            made.began += 1
            number = made.began
            end = time.monotonic() + 0.6
            while time.monotonic() < end:
                show(STATUS)
                time.sleep(0.01)
            child.kill()
        # The second one's is later by as many windows as there are seconds, if that is more than one.
        begin_s = end - 0.6 + made.window_s * (number if made.window_s > 1 else 1)
        ends = tuple(int((begin_s + n / 100 - 0.02) * 1e9) for n in range(23))
        window = replace(RECORDING.window, start_ns=ends[2], end_ns=ends[-1], step_ends_ns=ends)
        recordings = tuple(replace(one, window=window) for one in made.collected.recordings)
        return replace(made.collected, recordings=recordings)

    monkeypatch.setattr(runs.collect, "collect", run)
    monkeypatch.setattr(runs.derive, "derive", lambda recordings: Derived((), (), made.step))
    monkeypatch.setattr(runs.disturbances, "read", lambda: next(readings))
    return made


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "settings.py").write_text("old")
    (tmp_path / "train.py").write_text("")
    return tmp_path


def runner(root: Path, *, mirrored: bool) -> SideRunner:
    path = root / "settings.py"
    files = {BEFORE: {path: b"old"}, AFTER: {path: b"new"}}
    words = ("train.py", f"--config={root}/settings.py")
    sides = Sides("x", {BEFORE: words, AFTER: words}, files)
    (root / ".autotune").mkdir()
    places = {side: root / ".autotune" / f"mirror-{side}" for side in SIDES}
    mirrors = {side: Mirror(root, place, frozenset([path])) for side, place in places.items()} if mirrored else {}
    environ = {"PYTHONPATH": str(root), "PWD": str(root), "HOME": str(root)}
    return SideRunner(root, root, environ, "python", sides, mirrors, lambda status: None)


def test_a_start_runs_in_the_mirror_with_the_files_of_its_side(root, asked) -> None:
    made = runner(root, mirrored=True)
    place = made.mirrors[BEFORE].place
    for side, text in ((BEFORE, "old"), (AFTER, "new"), (BEFORE, "old")):
        asked.seen = ""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs.disturbances, "read", lambda: None)
            made.run(side, collect.Request())
        assert asked.seen == text
    assert asked.cwd == place
    assert asked.command.argv == ("python", "train.py", f"--config={place}/settings.py")
    assert asked.environ == {"PYTHONPATH": str(place), "PWD": str(place), "HOME": str(root)}
    assert made.with_real_paths(f"KeyError at {place}/train.py:3") == f"KeyError at {root}/train.py:3"


def test_a_command_that_is_typed_elsewhere_is_led_into_the_mirror(root, asked, tmp_path_factory) -> None:
    """By relative names and links; what does not lead into the project stays."""
    cwd = tmp_path_factory.mktemp("elsewhere")
    (cwd / "link.py").symlink_to(root / "train.py")
    (cwd / "settings.py").write_text("its own")
    (cwd / "data").mkdir()
    made, up = runner(root, mirrored=True), f"../{root.name}"
    place = made.mirrors[AFTER].place
    for script in (f"{root}/train.py", "link.py", f"../../{root.parent.name}/{root.name}/train.py"):
        words = (script, f"--config=../../{root.parent.name}/{up[3:]}/settings.py", "--data", "data", f"{root}/new.txt")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs.disturbances, "read", lambda: None)
            replace(made, cwd=cwd, sides=replace(made.sides, words=dict.fromkeys(SIDES, words))).run(
                AFTER, collect.Request()
            )
        assert asked.cwd == cwd
        config = f"--config={place}/settings.py"
        assert asked.command.argv == ("python", f"{place}/train.py", config, "--data", "data", f"{place}/new.txt")


def test_the_real_project_is_protected_as_well(root, asked) -> None:
    runner(root, mirrored=True).run(BEFORE, collect.Request())
    assert asked.protected == root


def test_without_a_mirror_the_command_is_as_it_was_given(root, asked) -> None:
    made = runner(root, mirrored=False)
    made.run(AFTER, collect.Request())
    assert (asked.cwd, asked.command.script) == (root, root / "train.py")
    assert asked.command.argv == ("python", "train.py", f"--config={root}/settings.py")
    assert asked.seen == "old"
    assert made.with_real_paths("as it is") == "as it is"


def test_what_a_start_says(root, asked) -> None:
    _, start, derived = runner(root, mirrored=False).run(AFTER, collect.Request())
    assert (start.side, start.step_ms, start.steps, start.warmup, start.wall_s) == (AFTER, 50.0, 20, 3, 5.0)
    assert start.samples == pytest.approx(32.0)
    assert start.losses == (2.0, 1.0)
    assert (start.memory_bytes, start.is_on_device) == (1000, False)
    assert (start.others_share, start.busy_share) == (pytest.approx(0.4), pytest.approx(0.8))
    assert derived.step is STEP
    assert not asked.folder.exists()


def test_batches_that_workers_had_ready_are_no_pace(root, asked) -> None:
    came = tuple(Event("fetch", at, at + 1, 0, 1) for at in range(10))
    prepared = Fetch(0, 7, 0, 1, 1, 0, 0, 8, False)
    asked.collected = replace(asked.collected, recordings=(replace(RECORDING, events=came, fetches=(prepared,)),))
    _, start, _ = runner(root, mirrored=False).run(AFTER, collect.Request())
    assert start.step_ms == pytest.approx(50.0 * 10 / 2)


def test_what_workers_used_up_to_their_end_is_not_of_others(root, asked, monkeypatch) -> None:
    waited = iter([100.0, 107.0])
    monkeypatch.setattr(runs.disturbances, "waited_s", lambda: next(waited))
    _, start, _ = runner(root, mirrored=False).run(AFTER, collect.Request())
    assert (start.others_share, start.busy_share) == (pytest.approx(0.1), pytest.approx(0.8))


def test_memory_of_a_device_is_the_largest_of_all_ranks(root, asked) -> None:
    ranks = [replace(RECORDING, memory={"peak_reserved_bytes": size}) for size in (70, 90)]
    asked.collected = replace(asked.collected, recordings=(RECORDING, *ranks))
    _, start, _ = runner(root, mirrored=False).run(BEFORE, collect.Request())
    assert (start.memory_bytes, start.is_on_device) == (90, True)


def test_what_is_unknown_stays_unknown(root, asked) -> None:
    asked.step = replace(STEP, samples_per_s=None)
    asked.collected = replace(asked.collected, sampled=None)
    _, start, _ = runner(root, mirrored=False).run(BEFORE, collect.Request())
    assert (start.samples, start.memory_bytes, start.others_share, start.busy_share) == (None,) * 4


@pytest.mark.parametrize("recordings", [(), (replace(RECORDING, window=None),)])
def test_no_window_is_no_start(root, asked, recordings) -> None:
    asked.collected = replace(asked.collected, recordings=recordings)
    collected, start, derived = runner(root, mirrored=False).run(BEFORE, collect.Request())
    assert (collected, start, derived) == (asked.collected, None, None)


def test_no_measured_step_is_no_start(root, asked) -> None:
    asked.step = None
    assert runner(root, mirrored=False).run(BEFORE, collect.Request())[1] is None


REQUEST = collect.Request(time_limit_s=10.0, startup_limit_s=20.0)


def test_sides_that_take_turns_share_the_machine_and_have_patience(root, asked) -> None:
    asked.collected = replace(asked.collected, sampled=replace(SAMPLED, cpu_s=2.0))
    requests = {BEFORE: REQUEST, AFTER: replace(REQUEST, time_limit_s=30.0)}
    found = runner(root, mirrored=True).in_turns(requests, TimeSlicing(0.05, 0.05))
    assert list(found) == [BEFORE, AFTER]
    assert [start.side for _, start, _ in found.values()] == [BEFORE, AFTER]
    assert [start.others_share for _, start, _ in found.values()] == [pytest.approx(0.4)] * 2
    assert sorted((one.time_limit_s, one.startup_limit_s) for one in asked.requests) == [(20.0, 40.0), (60.0, 40.0)]
    for _, start, _ in found.values():
        # 20 steps of 10 ms, about half of which it was stopped.
        assert 2.0 <= start.step_ms <= 8.0
        assert start.wall_s < 0.6


@pytest.mark.parametrize(
    ("fields", "window_s"),
    [
        ({"ended_by": "script", "exit_code": 1}, 0.3),
        ({"recordings": ()}, 0.3),
        ({}, 0.0),  # a window that began while both went on
        ({}, 5.0),  # windows that do not overlap
    ],
)
def test_sides_that_did_not_measure_in_their_turns_are_none(root, asked, fields, window_s: float) -> None:
    asked.collected = replace(asked.collected, **fields)
    asked.window_s = window_s
    assert runner(root, mirrored=True).in_turns({BEFORE: REQUEST, AFTER: REQUEST}, TimeSlicing(0.1, 0.05)) is None


def test_starts_hash_text_alike_unless_the_user_says_how() -> None:
    assert 0 < int(runs.fixed_hash_seed({})["PYTHONHASHSEED"]) < 2**32
    assert runs.fixed_hash_seed({"PYTHONHASHSEED": "7", "HOME": "/"}) == {"PYTHONHASHSEED": "7", "HOME": "/"}
