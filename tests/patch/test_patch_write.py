"""All files or none, whatever fails and whenever the process dies; undo restores every byte."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import importlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from autotune.errors import UsageError
from autotune.patch import recover, undo, write
from autotune.patch.file_operations import Disk
from autotune.patch.journal import Journal, PatchStore, journals, with_state

written = importlib.import_module("autotune.patch.write")
"""The module, whose name in the package is its function."""

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


def store(project: Path) -> PatchStore:
    """Its journals lie in it here: nothing that they do depends on where they are."""
    return PatchStore(project, journal_folder(project))


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
    write(store(project), "count", files(project), disk)
    undo(store(project))
    return disk.count


def test_an_undo_of_several_files_one_of_which_is_gone_names_it_and_changes_nothing(project: Path) -> None:
    write(store(project), "patch", files(project))
    before = contents(project)
    gone = files(project)[0][0]
    gone.unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file or directory; nothing was changed") as error:
        undo(store(project))
    assert error.value.where == str(gone)
    assert contents(project) == {name: data for name, data in before.items() if name != gone.name}


def test_write_and_undo(project: Path) -> None:
    journal = write(store(project), "two settings", files(project))
    assert contents(project) == AFTER
    assert journal.number == 1
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755
    undone = undo(store(project))
    assert (undone.number, undone.title, undone.state) == (1, "two settings", "undone")
    assert contents(project) == BEFORE
    assert (project / "run.sh").stat().st_mode & 0o777 == 0o755


def test_undo_takes_the_newest_first_and_any_by_number(project: Path) -> None:
    folder = journal_folder(project)
    write(PatchStore(project, folder), "first", [(project / "a.yaml", BEFORE["a.yaml"], b"1")])
    write(PatchStore(project, folder), "second", [(project / "run.sh", BEFORE["run.sh"], b"2")])
    assert undo(PatchStore(project, folder), 1).title == "first"
    assert undo(PatchStore(project, folder)).title == "second"
    assert contents(project) == BEFORE
    with pytest.raises(UsageError, match="no applied patch"):
        undo(PatchStore(project, folder))


OWN = b"import mine\r\n"


def with_own(states: dict[str, bytes]) -> dict[str, bytes]:
    """The files with what a person wrote into train.py, and run.sh as it was before."""
    return {**states, "train.py": OWN + states["train.py"], "run.sh": BEFORE["run.sh"]}


def edited(project: Path) -> Journal:
    """A written patch, of whose files a person then edited one and restored another."""
    journal = write(store(project), "t", files(project))
    for name, data in with_own(AFTER).items():
        (project / name).write_bytes(data)
    return journal


def test_undo_keeps_what_a_person_wrote_since(project: Path) -> None:
    edited(project)
    undone = undo(store(project))
    assert (undone.state, undone.merged, undone.restored) == ("undone", (0,), (2,))
    assert contents(project) == with_own(BEFORE)
    assert [one.merged for one in journals(journal_folder(project))] == [(0,)]
    with pytest.raises(UsageError, match="no applied patch"):
        undo(store(project))


@pytest.mark.parametrize("own", [b"", OWN])
def test_a_patch_whose_files_were_restored_counts_as_taken_back(project: Path, own: bytes) -> None:
    """Also beside edits of another time: nothing of the patch was in the file, so nothing was taken out of it."""
    write(store(project), "t", files(project))
    restored = {**BEFORE, "train.py": own + BEFORE["train.py"]}
    for name, data in restored.items():
        (project / name).write_bytes(data)
    undone = undo(store(project))
    assert (undone.state, undone.merged, undone.restored) == ("undone", (), (0, 1, 2))
    assert contents(project) == restored
    (project / "train.py").write_bytes(BEFORE["train.py"])
    write(store(project), "again", files(project))
    assert undo(store(project)).title == "again"


def test_a_kill_at_any_operation_of_an_undo_beside_own_edits_keeps_them(project: Path) -> None:
    counted = Breaking(-1, Killed())
    edited(project)
    undo(store(project), disk=counted)
    for at, after in kills(counted.count):
        for name, data in BEFORE.items():
            (project / name).write_bytes(data)
        edited(project)
        try:
            undo(store(project), disk=Breaking(at, Killed(), after))
        except Killed:
            recover(store(project))
        assert contents(project) in (with_own(BEFORE), with_own(AFTER)), f"operation {at}"
        if contents(project) == with_own(AFTER):
            undo(store(project))
        assert contents(project) == with_own(BEFORE)


def test_undo_refuses_a_file_that_changed_since(project: Path) -> None:
    write(store(project), "t", files(project))
    (project / "a.yaml").write_bytes(b"edited by hand")
    with pytest.raises(UsageError, match="edited by hand"):
        undo(store(project))
    assert contents(project) == {**AFTER, "a.yaml": b"edited by hand"}


def test_write_refuses_a_stale_file(project: Path) -> None:
    (project / "run.sh").write_bytes(b"edited by hand")
    with pytest.raises(UsageError, match="changed since"):
        write(store(project), "t", files(project))
    assert contents(project) == {**BEFORE, "run.sh": b"edited by hand"}


def test_a_symbolic_link_stays_one(project: Path) -> None:
    (project / "real").mkdir()
    target = project / "real" / "t.py"
    target.write_bytes(b"old")
    link = project / "link.py"
    link.symlink_to(target)
    write(store(project), "t", [(link, b"old", b"new")])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_file_without_the_right_to_write_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser may write everything: the answer of access is what is tested.
    monkeypatch.setattr(os, "access", lambda place, mode: Path(place).name != "a.yaml")
    with pytest.raises(UsageError, match="cannot be written; nothing was changed"):
        write(store(project), "t", files(project))
    assert contents(project) == BEFORE


def test_a_second_writer_is_refused(project: Path) -> None:
    folder = journal_folder(project)
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another autotune"):
            write(PatchStore(project, folder), "t", files(project))
    assert contents(project) == BEFORE


def test_a_full_disk_changes_nothing(project: Path) -> None:
    total = num_operations(project)
    assert total > 10
    for at in range(1, total + 1):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with pytest.raises(UsageError, match="the disk is full"):
            write(store(project), "t", files(project), Breaking(at, full))
        recover(store(project))
        assert contents(project) == BEFORE, f"operation {at}"


def kills(total: int) -> Iterator[tuple[int, bool]]:
    return itertools.product(range(1, total + 1), (False, True))


def test_a_kill_at_any_operation_of_write_leaves_all_old_or_all_new(project: Path) -> None:
    seen = set()
    for at, after in kills(num_operations(project)):
        with pytest.raises(Killed):
            write(store(project), "t", files(project), Breaking(at, Killed(), after))
        recover(store(project))
        is_new = contents(project) == AFTER
        assert is_new or contents(project) == BEFORE, f"operation {at}"
        seen.add(is_new)
        if is_new:
            undo(store(project))
    assert seen == {False, True}


def test_a_kill_at_any_operation_of_undo_leaves_all_old_or_all_new(project: Path) -> None:
    folder = journal_folder(project)
    for at, after in kills(num_operations(project)):
        write(PatchStore(project, folder), "t", files(project))
        try:
            undo(PatchStore(project, folder), disk=Breaking(at, Killed(), after))
        except Killed:
            recover(PatchStore(project, folder))
        assert contents(project) in (BEFORE, AFTER), f"operation {at}"
        if contents(project) == AFTER:
            undo(PatchStore(project, folder))


def test_a_kill_during_recovery_is_recovered_too(project: Path) -> None:
    folder = journal_folder(project)
    total = num_operations(project)
    for at in range(1, total + 1):
        with pytest.raises(Killed):
            write(PatchStore(project, folder), "t", files(project), Breaking(total - 3, Killed()))
        try:
            recover(PatchStore(project, folder), Breaking(at, Killed(), after=True))
        except Killed:
            recover(PatchStore(project, folder))
        assert contents(project) == BEFORE


def test_recovery_keeps_what_a_person_wrote_meanwhile(project: Path) -> None:
    folder = journal_folder(project)
    total = num_operations(project)
    with pytest.raises(Killed):
        write(PatchStore(project, folder), "t", files(project), Breaking(total - 3, Killed()))
    (project / "train.py").write_bytes(b"by hand")
    (left,) = recover(PatchStore(project, folder))
    assert (left.state, left.left) == ("left", (0,))
    assert str(left.before(0)) in left.exceptions
    assert contents(project) == {**BEFORE, "train.py": b"by hand"}
    assert left.before(0).read_bytes() == BEFORE["train.py"]


def interrupted(project: Path) -> Journal:
    """A patch that a crash left half undone: two files are new still."""
    journal = with_state(write(store(project), "t", files(project)), "undoing", Disk())
    (project / "run.sh").write_bytes(BEFORE["run.sh"])
    return journal


@pytest.mark.parametrize("lost", ["the file", "the file's folder", "the kept bytes"])
def test_what_a_crash_left_blocks_no_later_patch(project: Path, lost: str) -> None:
    journal = interrupted(project)
    if lost == "the kept bytes":
        journal.before(0).unlink()
    else:
        (project / "train.py").unlink()
    if lost == "the file's folder":
        (project / "train.py").mkdir()
    (left,) = recover(store(project))
    assert (left.state, left.left) == ("left", (0,))
    assert contents(project)["a.yaml"] == BEFORE["a.yaml"]
    assert recover(store(project)) == ()
    later = write(store(project), "later", [(project / "run.sh", BEFORE["run.sh"], b"later")])
    with pytest.raises(UsageError, match="patch 1 was undone except what changed since") as error:
        undo(store(project), 1)
    assert error.value.to_do == f"Applied and not undone: {later.number}."
    assert undo(store(project)).title == "later"
    assert contents(project)["run.sh"] == BEFORE["run.sh"]


def test_a_disk_that_fails_during_recovery_is_no_traceback(project: Path) -> None:
    interrupted(project)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(UsageError, match="the disk is full; an interrupted patch is not undone yet"):
        recover(store(project), Breaking(5, full))
    assert [one.state for one in recover(store(project))] == ["undone"]
    assert contents(project) == BEFORE


def test_a_patch_that_is_written_meanwhile_is_not_taken_back(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process ends between the look at the journals and the lock."""
    journal = with_state(write(store(project), "t", files(project)), "writing", Disk())
    real = written._lock

    def late(folder: Path, without: str) -> AbstractContextManager[None]:
        with_state(journal, "written", Disk())
        return real(folder, without)

    monkeypatch.setattr(written, "_lock", late)
    assert recover(store(project)) == ()
    assert contents(project) == AFTER


def test_a_lock_that_cannot_be_made_says_what_is_not_done(project: Path) -> None:
    interrupted(project)
    (journal_folder(project) / "lock").unlink()
    (journal_folder(project) / "lock").mkdir()
    with pytest.raises(UsageError, match=r"cannot be written: .*; an interrupted patch is not undone yet"):
        recover(store(project))


def test_what_another_process_writes_now_is_left_to_it(project: Path) -> None:
    interrupted(project)
    with (journal_folder(project) / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert recover(store(project)) == ()
    assert len(recover(store(project))) == 1


def test_a_file_of_two_names_is_refused(project: Path) -> None:
    (project / "link.py").symlink_to("train.py")
    twice = [(project / name, BEFORE["train.py"], name.encode()) for name in ("train.py", "link.py")]
    with pytest.raises(UsageError, match="the file is given twice; nothing was changed"):
        write(store(project), "t", twice)
    assert contents(project)["train.py"] == BEFORE["train.py"]


def test_a_hard_link_is_not_cut(project: Path) -> None:
    (project / "second.py").hardlink_to(project / "train.py")
    with pytest.raises(UsageError, match=r"a second name \(a hard link\)"):
        write(store(project), "t", files(project))
    assert contents(project) == {**BEFORE, "second.py": BEFORE["train.py"]}


def test_a_file_outside_the_project_is_refused(project: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("other") / "x.py"
    path.write_bytes(b"old")
    with pytest.raises(UsageError, match="lies outside the project"):
        write(store(project), "t", [(path, b"old", b"new")])
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("state", ["writing", "undoing", "written"])
def test_a_file_that_a_link_leads_elsewhere_by_now_stays(project: Path, state: str, tmp_path_factory) -> None:
    (project / "configs").mkdir()
    (project / "configs" / "x.py").write_bytes(b"old")
    journal = write(store(project), "t", [(project / "configs" / "x.py", b"old", b"new")])
    with_state(journal, state, Disk())
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "x.py").write_bytes(b"new")
    (project / "configs").rename(project / "moved")
    (project / "configs").symlink_to(elsewhere)
    if state == "written":
        with pytest.raises(UsageError, match="outside the project"):
            undo(store(project))
    else:
        (left,) = recover(store(project))
        assert (left.state, left.left) == ("left", (0,))
    assert [each.name for each in elsewhere.iterdir()] == ["x.py"]
    assert (elsewhere / "x.py").read_bytes() == b"new"


def nobody(*_: object) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def test_the_group_is_kept_where_the_owner_cannot_be(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def member(path: Path, uid: int, gid: int) -> None:
        if uid != -1:
            nobody()
        given.append(gid)

    monkeypatch.setattr(os, "chown", member)
    write(store(project), "t", files(project))
    assert given == [(project / name).stat().st_gid for name in BEFORE]


@pytest.mark.parametrize(("mode", "is_refused"), [(0o660, True), (0o640, True), (0o644, False), (0o600, False)])
def test_a_group_that_would_lose_its_rights(
    project: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_refused: bool
) -> None:
    (project / "a.yaml").chmod(mode)
    real = Path.stat

    def foreign(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*found[:5], found.st_gid + 1, *found[6:10])) if path.name == "a.yaml" else found

    monkeypatch.setattr(Path, "stat", foreign)
    monkeypatch.setattr(os, "chown", nobody)
    with pytest.raises(UsageError, match="not in its group") if is_refused else contextlib.nullcontext():
        write(store(project), "t", files(project))
    assert contents(project) == (BEFORE if is_refused else AFTER)
    assert os.stat(project / "a.yaml").st_mode & 0o777 == mode


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has none")
def test_extended_attributes_stay_and_the_time_is_new(project: Path) -> None:
    path = project / "a.yaml"
    os.utime(path, (1, 1))
    with contextlib.suppress(OSError):  # not every file system has them
        os.setxattr(path, "user.autotune", b"1")
    names = os.listxattr(path)
    write(store(project), "t", files(project))
    assert os.listxattr(path) == names
    assert path.stat().st_mtime > 1


DIE = """
import os, signal, sys
from pathlib import Path
from autotune.patch import write
from autotune.patch.file_operations import Disk
from autotune.patch.journal import PatchStore
class Dying(Disk):
    left = int(sys.argv[2])
    def replace(self, source, target):
        Dying.left -= 1
        if Dying.left == 0: os.kill(os.getpid(), signal.SIGKILL)
        super().replace(source, target)
root = Path(sys.argv[1])
names = ["train.py", "a.yaml", "run.sh"]
files = [(root / name, (root / name).read_bytes(), b"new " + name.encode()) for name in names]
write(PatchStore(root, root / ".autotune" / "patches"), "t", files, Dying())
"""


@pytest.mark.parametrize("at", range(1, 6))
def test_a_real_sigkill(project: Path, at: int) -> None:
    ended = subprocess.run([sys.executable, "-c", DIE, str(project), str(at)], timeout=60)
    assert ended.returncode == -signal.SIGKILL
    recover(store(project))
    assert contents(project) == BEFORE
    write(store(project), "again", files(project))
    assert contents(project) == AFTER
    assert [each.state for each in journals(journal_folder(project))][-1] == "written"


def test_an_undo_that_is_typed_again_ends_the_interrupted_one_and_takes_no_older(project: Path) -> None:
    folder = journal_folder(project)
    (project / "other.py").write_bytes(b"1")
    write(PatchStore(project, folder), "older", [(project / "other.py", b"1", b"2")])
    write(PatchStore(project, folder), "newer", files(project))
    with pytest.raises(Killed):
        undo(PatchStore(project, folder), None, Ending(project))
    assert undo(PatchStore(project, folder)).title == "newer"
    assert (project / "other.py").read_bytes() == b"2"
    assert undo(PatchStore(project, folder)).title == "older"
    assert (project / "other.py").read_bytes() == b"1"


class Ending(Disk):
    """A disk whose process dies before the second file of the project is replaced."""

    def __init__(self, project: Path) -> None:
        self.project, self.count = project, 0

    def replace(self, source: Path, target: Path) -> None:
        self.count += target.parent == self.project
        if self.count == 2:
            raise Killed
        super().replace(source, target)


def test_an_ended_undo_is_no_written_patch(project: Path) -> None:
    write(store(project), "first", files(project))
    with pytest.raises(Killed):
        undo(store(project), 1, Ending(project))
    assert undo(store(project), 1).state == "undone"
    assert contents(project) == BEFORE
    with pytest.raises(UsageError, match="no applied patch 1"):
        undo(store(project), 1)


DAMAGED = [b"", b"{", b"[]", b"\xff", b"null", b'{"files": 1}', b'{"files": [], "state": "written", "title": "t"}']


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_journal_is_set_aside_and_keeps_everything(project: Path, data: bytes) -> None:
    folder = journal_folder(project)
    write(PatchStore(project, folder), "first", files(project))
    kept = {each.name: each.read_bytes() for each in (folder / "1").iterdir()}
    (folder / "1" / "journal.json").write_bytes(data)
    with pytest.raises(UsageError, match=r"a damaged journal .* was set aside") as error:
        recover(PatchStore(project, folder))
    assert error.value.where == str(folder / "1.damaged")
    assert "before-0" in error.value.to_do
    aside = {each.name: each.read_bytes() for each in (folder / "1.damaged").iterdir()}
    assert aside == {**kept, "journal.json": data}
    assert recover(PatchStore(project, folder)) == ()
    assert contents(project) == AFTER


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"written"', '"finished"'),
        ('"written"', "[1]"),
        ('"left": []', '"left": [7]'),
        ('"changes": []', '"changes": [["loader.num_workers"]]'),
        ('"path": "', '"path": 1, "x": "'),
    ],
)
def test_a_journal_that_makes_no_sense_is_damaged(project: Path, old: str, new: str) -> None:
    folder = journal_folder(project)
    write(PatchStore(project, folder), "first", files(project))
    path = folder / "1" / "journal.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match="set aside"):
        recover(PatchStore(project, folder))


@pytest.mark.parametrize("is_undone", [True, False])
def test_a_damaged_journal_is_named_before_anything_is_written_or_undone(project: Path, is_undone: bool) -> None:
    folder = journal_folder(project)
    one, two = [(project / name, BEFORE[name], AFTER[name]) for name in ("a.yaml", "run.sh")]
    write(PatchStore(project, folder), "first", [one])
    write(PatchStore(project, folder), "second", [two])
    (folder / "2" / "journal.json").write_bytes(b"{")
    before = contents(project)
    with pytest.raises(UsageError, match="set aside"):
        undo(PatchStore(project, folder)) if is_undone else write(
            PatchStore(project, folder), "third", [(two[0], two[2], b"z\n")]
        )
    assert contents(project) == before
    assert write(PatchStore(project, folder), "third", [(two[0], two[2], b"z\n")]).number == 3
    assert undo(PatchStore(project, folder)).number == 3
    assert undo(PatchStore(project, folder)).number == 1
    assert (folder / "2.damaged" / "before-0").read_bytes() == BEFORE["run.sh"]


def test_a_journal_that_the_disk_does_not_give_is_left_as_it_is(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = journal_folder(project)
    write(PatchStore(project, folder), "first", files(project))
    journal, read = folder / "1" / "journal.json", Path.read_bytes

    def failing(path: Path) -> bytes:
        if path == journal:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", failing)
        for act in (recover, undo, lambda store: write(store, "second", files(project))):
            with pytest.raises(UsageError, match="Input/output error; nothing was changed") as error:
                act(PatchStore(project, folder))
            assert error.value.where == str(journal)
    assert undo(PatchStore(project, folder)).number == 1
    assert contents(project) == BEFORE


def test_a_folder_of_patches_that_the_disk_does_not_give(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = journal_folder(project)
    write(PatchStore(project, folder), "first", files(project))

    def failing(_: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", failing)
    with pytest.raises(UsageError, match="Permission denied; nothing was changed"):
        undo(PatchStore(project, folder))
