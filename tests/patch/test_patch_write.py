"""All files or none, whatever fails and whenever the process dies; undo restores every byte."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.patch import recover, undo, write
from autotune.patch.disk import Disk
from autotune.patch.journal import journals

BEFORE = {"train.py": b"workers = 0\r\nno newline at the end", "a.yaml": b"\xef\xbb\xbfbatch: 1\n", "run.sh": b"x\n"}
AFTER = {"train.py": b"workers = 4\r\nno newline at the end", "a.yaml": b"\xef\xbb\xbfbatch: 16\n", "run.sh": b"y\n"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, data in BEFORE.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "run.sh").chmod(0o755)
    return tmp_path


def files(project: Path) -> list[tuple[Path, bytes, bytes]]:
    return [(project / name, BEFORE[name], AFTER[name]) for name in BEFORE]


def journal_folder(project: Path) -> Path:
    return project / ".autotune" / "patches"


def contents(project: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in project.iterdir() if each.is_file()}


class Killed(BaseException):
    """The process is gone: nothing after it runs."""


class Breaking(Disk):
    """A disk whose operation number `at` fails with `error`, before or after it was done."""

    def __init__(self, at: int, error: BaseException, after: bool = False) -> None:
        self.count, self.at, self.error, self.after = 0, at, error, after

    def _step(self, done: bool) -> None:
        if not done:
            self.count += 1
        if self.count == self.at and done is self.after:
            raise self.error

    def create(self, path: Path, data: bytes, like: Path | None = None) -> None:
        self._step(False)
        super().create(path, data, like)
        self._step(True)

    def replace(self, source: Path, target: Path) -> None:
        self._step(False)
        super().replace(source, target)
        self._step(True)

    def remove(self, path: Path) -> None:
        self._step(False)
        super().remove(path)
        self._step(True)


def num_operations(project: Path) -> int:
    disk = Breaking(-1, Killed())
    write(journal_folder(project), "count", files(project), disk)
    undo(journal_folder(project))
    return disk.count


def test_write_and_undo(project: Path) -> None:
    journal = write(journal_folder(project), "two settings", files(project))
    assert contents(project) == AFTER
    assert journal.number == 1
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755
    undone = undo(journal_folder(project))
    assert (undone.number, undone.title, undone.state) == (1, "two settings", "undone")
    assert contents(project) == BEFORE
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755


def test_undo_takes_the_newest_first_and_any_by_number(project: Path) -> None:
    folder = journal_folder(project)
    write(folder, "first", [(project / "a.yaml", BEFORE["a.yaml"], b"1")])
    write(folder, "second", [(project / "run.sh", BEFORE["run.sh"], b"2")])
    assert undo(folder, 1).title == "first"
    assert undo(folder).title == "second"
    assert contents(project) == BEFORE
    with pytest.raises(UsageError, match="no written patch"):
        undo(folder)


def test_undo_refuses_a_file_that_changed_since(project: Path) -> None:
    write(journal_folder(project), "t", files(project))
    (project / "a.yaml").write_bytes(b"edited by hand")
    with pytest.raises(UsageError, match="changed since"):
        undo(journal_folder(project))
    assert contents(project) == {**AFTER, "a.yaml": b"edited by hand"}


def test_write_refuses_a_stale_file(project: Path) -> None:
    (project / "run.sh").write_bytes(b"edited by hand")
    with pytest.raises(UsageError, match="changed since"):
        write(journal_folder(project), "t", files(project))
    assert contents(project) == {**BEFORE, "run.sh": b"edited by hand"}


def test_a_symbolic_link_stays_one(project: Path) -> None:
    (project / "real").mkdir()
    target = project / "real" / "t.py"
    target.write_bytes(b"old")
    link = project / "link.py"
    link.symlink_to(target)
    write(journal_folder(project), "t", [(link, b"old", b"new")])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_without_the_right_to_write_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write everything: the answer of access is what is tested.
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place).name != "a.yaml")
    with pytest.raises(UsageError, match="cannot be written; nothing was changed"):
        write(journal_folder(project), "t", files(project))
    assert contents(project) == BEFORE


def test_a_second_writer_is_refused(project: Path) -> None:
    folder = journal_folder(project)
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another autotune"):
            write(folder, "t", files(project))
    assert contents(project) == BEFORE


def test_a_full_disk_changes_nothing(project: Path) -> None:
    total = num_operations(project)
    assert total > 10
    for at in range(1, total + 1):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with pytest.raises(UsageError, match="the disk is full"):
            write(journal_folder(project), "t", files(project), Breaking(at, full))
        recover(journal_folder(project))
        assert contents(project) == BEFORE, f"operation {at}"


def kills(total: int) -> Iterator[tuple[int, bool]]:
    return itertools.product(range(1, total + 1), (False, True))


def test_a_kill_at_any_operation_of_write_leaves_all_old_or_all_new(project: Path) -> None:
    seen = set()
    for at, after in kills(num_operations(project)):
        with pytest.raises(Killed):
            write(journal_folder(project), "t", files(project), Breaking(at, Killed(), after))
        recover(journal_folder(project))
        is_new = contents(project) == AFTER
        assert is_new or contents(project) == BEFORE, f"operation {at}"
        seen.add(is_new)
        if is_new:
            undo(journal_folder(project))
    assert seen == {False, True}


def test_a_kill_at_any_operation_of_undo_leaves_all_old_or_all_new(project: Path) -> None:
    folder = journal_folder(project)
    for at, after in kills(num_operations(project)):
        write(folder, "t", files(project))
        try:
            undo(folder, disk=Breaking(at, Killed(), after))
        except Killed:
            recover(folder)
        assert contents(project) in (BEFORE, AFTER), f"operation {at}"
        if contents(project) == AFTER:
            undo(folder)


def test_a_kill_during_recovery_is_recovered_too(project: Path) -> None:
    folder = journal_folder(project)
    total = num_operations(project)
    for at in range(1, total + 1):
        with pytest.raises(Killed):
            write(folder, "t", files(project), Breaking(total - 3, Killed()))
        try:
            recover(folder, Breaking(at, Killed(), after=True))
        except Killed:
            recover(folder)
        assert contents(project) == BEFORE


def test_recovery_keeps_what_a_person_wrote_meanwhile(project: Path) -> None:
    folder = journal_folder(project)
    total = num_operations(project)
    with pytest.raises(Killed):
        write(folder, "t", files(project), Breaking(total - 3, Killed()))
    (project / "train.py").write_bytes(b"by hand")
    with pytest.raises(UsageError, match="changed since") as error:
        recover(folder)
    assert "before-0" in error.value.to_do
    assert (project / "train.py").read_bytes() == b"by hand"


DIE = """
import os, signal, sys
from pathlib import Path
from autotune.patch import write
from autotune.patch.disk import Disk
class Dying(Disk):
    left = int(sys.argv[2])
    def replace(self, source, target):
        Dying.left -= 1
        if Dying.left == 0: os.kill(os.getpid(), signal.SIGKILL)
        super().replace(source, target)
root = Path(sys.argv[1])
names = ["train.py", "a.yaml", "run.sh"]
files = [(root / name, (root / name).read_bytes(), b"new " + name.encode()) for name in names]
write(root / ".autotune" / "patches", "t", files, Dying())
"""


@pytest.mark.parametrize("at", range(1, 6))
def test_a_real_sigkill(project: Path, at: int) -> None:
    ended = subprocess.run([sys.executable, "-c", DIE, str(project), str(at)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    recover(journal_folder(project))
    assert contents(project) == BEFORE
    write(journal_folder(project), "again", files(project))
    assert contents(project) == AFTER
    assert [each.state for each in journals(journal_folder(project))][-1] == "written"
