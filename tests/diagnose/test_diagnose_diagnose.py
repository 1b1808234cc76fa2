"""A measurement from the command to the Report, and the same Report from what was stored."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune import collect, machine
from autotune.collect import artefacts, lock
from autotune.diagnose import diagnose as api
from autotune.diagnose import job_summaries, notes, outcome
from autotune.errors import ScriptError, UsageError
from autotune.machine import FileSystem
from autotune.model.evidence import RUN
from autotune.report import job_summary

SCRIPT = """
    import os, sys
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Files(Dataset):
        root = "data"

        def __len__(self):
            return 400

        def __getitem__(self, index):
            return torch.ones(2)

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Files(), batch_size=4)
    os.makedirs("a-log", exist_ok=True)
    os.makedirs("elsewhere", exist_ok=True)
    os.chdir("elsewhere")
    with open("../a-log/log.txt", "w") as file:
        file.write("x")
    for step, x in enumerate(loader):
        model(x).sum().backward()
        optimizer.step()
        if step == 1:
            torch.save(model.state_dict(), "model.pt")
"""


def network(path):
    return FileSystem("nfs4", "server:/", "/", is_network=True)


def local(path):
    return FileSystem("ext4", "/dev/sda", "/", is_network=False)


@pytest.fixture(scope="module")
def measured(place_in, tmp_path_factory):
    """(the working folder, the Report, the paths whose file systems were asked for)."""
    place = place_in(tmp_path_factory.mktemp("diagnosed") / "project")
    place.write("train.py", SCRIPT)
    (place.cwd / "data").mkdir()
    asked = []

    def system(path):
        asked.append(path)
        return network(path)

    request = collect.Request(steps=5, warmup=2, what_ifs=False)
    words = ("train.py", "--wandb_key", "planted", "--lr=0.1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machine, "file_system", system)
        report = api.diagnose(
            api.DiagnoseOptions(words, request, sys.executable, lock=False),
            lambda status: None,
            cwd=place.cwd,
            environ=place.environ,
        )
    return place.cwd, report, asked


@pytest.fixture
def elsewhere(monkeypatch):
    """This machine has other disks than the one that measured."""
    monkeypatch.setattr(machine, "file_system", local)


def storage_of(report):
    subjects = [subject for subject in report.evidence.facts if subject.startswith("loader#")]
    lookups = [("loader.storage_is_network", subject) for subject in subjects]
    return [
        report.evidence.lookup(subject, name) for name, subject in [*lookups, ("checkpoint.storage_is_network", RUN)]
    ]


@pytest.mark.train
def test_disks_are_asked_for_absolute_paths_and_the_largest_output(measured):
    cwd, report, asked = measured
    assert asked == [cwd / "data", cwd / "elsewhere" / "model.pt"]
    assert storage_of(report) == [True, True]
    assert report.run.redirected == ("a-log/log.txt", "elsewhere/model.pt")


@pytest.mark.train
def test_a_stored_run_keeps_what_was_known(measured, elsewhere):
    cwd, report, _ = measured
    again = api.load("last", cwd=cwd)
    assert again.evidence.facts == report.evidence.facts
    assert again.machine == report.machine
    assert replace(again.run, folder=report.run.folder) == report.run
    assert notes.NO_MACHINE not in again.run.notes


@pytest.mark.train
def test_of_a_search_it_is_the_diagnosis_that_is_loaded(measured, elsewhere):
    cwd, report, _ = measured
    folder = artefacts.new_run(artefacts.project_root(cwd))
    artefacts.write_json(folder / artefacts.MANIFEST, {"tune": {"diagnosed": Path(report.run.folder).name}})
    assert api.load(folder.name, cwd=cwd).evidence.facts == report.evidence.facts


@pytest.mark.train
def test_a_recording_alone_says_that_its_machine_is_unknown(measured, elsewhere, tmp_path):
    _, report, _ = measured
    (recording,) = Path(report.run.folder).glob("recording-*.json")
    shutil.copy(recording, tmp_path / "from-afar.json")
    again = api.load("from-afar.json", cwd=tmp_path)
    assert again.run.notes[0] == notes.NO_MACHINE
    assert again.machine == {}
    assert storage_of(again) == [None, None]
    assert again.step == report.step
    assert again.evidence.lookup(RUN, "machine.cpus_per_rank") is None


@pytest.mark.train
def test_no_secret_is_kept(measured):
    _, report, _ = measured
    assert report.run.command == ("train.py", "--wandb_key", "***", "--lr=0.1")
    kept = [path for path in Path(report.run.folder).iterdir() if path.is_file()]
    assert len(kept) > 2
    assert [path.name for path in kept if b"planted" in path.read_bytes()] == []
    manifest = artefacts.read_json(Path(report.run.folder) / artefacts.MANIFEST)
    assert manifest["run"]["command"] == list(report.run.command)


def test_before_any_recording_only_the_program_is_shown(tmp_path):
    collected = collect.Collected(tmp_path, (), "script", 1, 1.0, None, None)
    run = outcome.summarise(collected, ("train.py", "--password", "planted"), "python", "", False, tmp_path)
    assert run.command == ("train.py",)


GOES_ON = """
    import os, sys, time
    import torch

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        while step == 12 and not os.path.exists("reported"):
            time.sleep(0.05)
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), "final.pt")
    sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def kept_going(place, tmp_path, monkeypatch):
    """kept_going(exit_code): diagnoses a training that waits for its report; (the folder, reports, the function)."""
    monkeypatch.setattr(lock, "lock_folder", lambda: tmp_path)
    place.write("train.py", GOES_ON)
    seen = []

    def publish(report):
        with lock.one_measurement("another"):
            seen.append((report, (place.cwd / "final.pt").exists()))
        (place.cwd / "reported").touch()

    def run(exit_code):
        request = collect.Request(steps=5, warmup=2, keep_going=True)
        options = api.DiagnoseOptions(("train.py", str(exit_code)), request, sys.executable)
        return api.diagnose(options, lambda status: None, cwd=place.cwd, environ=place.environ, publish=publish)

    return place.cwd, seen, run


@pytest.mark.train
def test_the_report_comes_and_the_lock_goes_when_the_probe_leaves(kept_going):
    cwd, seen, run = kept_going
    returned = run(0)
    ((report, was_saved),) = seen
    assert returned is report and report.run.kept_going and report.run.outcome == "completed"
    assert not was_saved and (cwd / "final.pt").exists()
    assert api.load("last", cwd=cwd).run.num_steps == report.run.num_steps == 7


@pytest.mark.train
def test_the_hours_that_are_lost_are_known_when_training_has_ended(kept_going, monkeypatch):
    """Of a run whose length was not known, half of which its changes would save."""
    monkeypatch.setattr(job_summary, "_lost_share", lambda report: 0.5)
    monkeypatch.setattr(job_summary, "_hours_lost", lambda report: None)
    save = job_summaries.save
    monkeypatch.setattr(job_summaries, "save", lambda *given: (save(*given), time.sleep(1.0)))  # training waits for it
    cwd, _, run = kept_going
    began = time.monotonic()
    folder = cwd / run(0).run.folder
    assert 0.5 / 3600 < job_summaries.read(folder).summary.hours_lost < 0.5 * (time.monotonic() - began) / 3600


@pytest.mark.train
def test_a_run_of_which_nothing_can_be_kept_says_so(kept_going, tmp_path, monkeypatch):
    (tmp_path / "no-folder").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "no-folder"))
    _, seen, run = kept_going
    run(0)
    (note,) = [one for one in seen[0][0].run.notes if "XDG_STATE_HOME" in one]
    assert "no-folder" in note and "`apply` will not trust its patch" in note


@pytest.mark.train
def test_a_training_that_fails_after_its_report_is_an_error(kept_going):
    _, seen, run = kept_going
    with pytest.raises(ScriptError, match="exit code 5, after the report") as raised:
        run(5)
    assert len(seen) == 1 and raised.value.status == 5


@pytest.mark.train
def test_a_report_that_cannot_be_printed_ends_no_training(kept_going, monkeypatch):
    cwd, _, run = kept_going

    def broken(*_, **__):
        (cwd / "reported").touch()
        raise UsageError("cannot be written")

    monkeypatch.setattr(api, "build_report", broken)
    with pytest.raises(UsageError):
        run(0)
    assert (cwd / "final.pt").exists()
