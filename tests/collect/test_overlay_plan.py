"""Which mounts hold a run: planned on made-up folders, nothing is mounted."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from autotune.collect import overlay_plan
from autotune.collect.overlay_plan import Bind, NotPossibleError, OverlayMount, OverlayRequest, plan
from autotune.machine import identity
from autotune.machine.mounts import Mount

RUN = "20260101-000000-abcdef"


@pytest.fixture
def disk(tmp_path):
    """A project, a cache and a folder for scratch on one file system; the planner sees nothing above it as writable."""
    for name in ("home/project/.autotune/runs/" + RUN, "home/project/data", "home/.cache", "home/other", "scratch"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home" / "notes.txt").write_text("notes")
    (tmp_path / "home" / "link").symlink_to("notes.txt")
    return tmp_path


@pytest.fixture
def wanted(disk):
    home = disk / "home"
    return OverlayRequest(
        run_dir=str(home / "project" / ".autotune" / "runs" / RUN),
        protected=(str(home / "project"),),
        exempt=(str(home / ".cache"), str(disk / "scratch")),
        nearby=(str(disk / "scratch"),),
        sockets=(),
        is_privileged=False,
        user=os.geteuid(),
        group=os.getegid(),
    )


@pytest.fixture(autouse=True)
def little_world(monkeypatch, disk):
    """Nothing outside the test's own folder can be written, and nothing there is special."""
    access = os.access

    def may(path, mode, **keywords):
        return access(path, mode) and (not mode & os.W_OK or overlay_plan.is_below(str(path), str(disk)))

    monkeypatch.setattr(overlay_plan.os, "access", may)
    monkeypatch.setattr(overlay_plan, "_SPECIAL", ("/dev", "/proc", "/sys", "/run"))


def table(disk, *more):
    return [Mount("/", str(disk), "ext4", "x"), *more]


def made(mounts, kind):
    return {mount.at for mount in mounts if isinstance(mount, kind)}


@pytest.fixture
def own(monkeypatch, disk):
    """Without privileges folders above the test's are not the user's."""
    is_own = overlay_plan._Planner._is_own
    monkeypatch.setattr(
        overlay_plan._Planner,
        "_is_own",
        lambda planner, folder: overlay_plan.is_below(folder, str(disk)) and is_own(planner, folder),
    )


@pytest.mark.usefixtures("own")
def test_what_the_user_owns_is_covered_and_caches_and_the_run_folder_show_through(disk, wanted):
    found = plan(replace(wanted, nearby=(str(disk / "scratch"),)), table(disk))
    home = str(disk / "home")
    assert made(found.mounts, OverlayMount) == {home}
    assert made(found.mounts, Bind) >= {home + "/.cache", wanted.run_dir}
    assert found.user_namespace
    assert found.gaps == ()
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_a_folder_above_the_scratch_gets_a_stand_in(disk, wanted):
    found = plan(replace(wanted, nearby=(str(disk / "home" / "other"),)), table(disk))
    (stand_in,) = [one for one in found.stand_ins if one.real == str(disk / "home")]
    assert sorted(os.listdir(stand_in.copy)) == [".cache", "link", "notes.txt", "other", "project"]
    assert os.readlink(stand_in.copy + "/link") == "notes.txt"
    assert os.stat(stand_in.copy + "/notes.txt").st_mtime == os.stat(disk / "home" / "notes.txt").st_mtime
    assert str(disk / "home" / "project") in made(found.mounts, OverlayMount)
    overlay_plan.remove(found.scratch)
    assert not any(os.path.exists(path) for path in found.scratch)


@pytest.mark.usefixtures("own")
def test_without_privileges_a_folder_with_a_mount_below_is_not_covered_but_what_lies_in_it(disk, wanted):
    inner = disk / "home" / "project" / "data"
    found = plan(wanted, table(disk, Mount("/", str(inner), "nfs4", "server:/data")))
    assert str(disk / "home") not in made(found.mounts, OverlayMount)
    assert str(disk / "home" / "other") in made(found.mounts, OverlayMount)
    assert str(inner) in made(found.mounts, OverlayMount), "its scratch lies on another file system"
    overlay_plan.remove(found.scratch)


def test_with_privileges_it_is_covered_and_the_mount_below_again(disk, wanted, monkeypatch):
    monkeypatch.setattr(overlay_plan, "_VIRTUAL", overlay_plan._VIRTUAL | {"virtual"})
    inner, virtual = disk / "home" / "project" / "data", disk / "home" / "other"
    mounts = table(disk, Mount("/", str(inner), "nfs4", "x"), Mount("/", str(virtual), "virtual", "x"))
    found = plan(replace(wanted, is_privileged=True), mounts)
    at = {mount.at.removeprefix(found.stage): mount for mount in found.mounts}
    assert isinstance(at[str(inner)], OverlayMount)
    assert isinstance(at[str(virtual)], Bind)
    assert found.stage
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_a_socket_that_somebody_listens_on_shows_through(disk, wanted):
    path = str(disk / "home" / "other" / "s")
    found = plan(replace(wanted, sockets=(path, "/run/x")), table(disk))
    assert found.mounts[-1] == Bind(path, path)
    assert not any(mount.at == "/run/x" for mount in found.mounts)
    overlay_plan.remove(found.scratch)


@pytest.fixture
def beside(disk, wanted, monkeypatch):
    """A scratch in home/other, below a folder that no overlay can cover as something is mounted in it."""
    monkeypatch.setattr(overlay_plan, "_share", lambda path, copy: False)
    return replace(wanted, nearby=(str(disk / "home" / "other"),)), table(
        disk, Mount("/", f"{disk}/home/.cache", "x", "x")
    )


@pytest.mark.usefixtures("own")
def test_a_large_file_beside_the_scratch_is_shown_read_only(disk, beside, monkeypatch):
    monkeypatch.setattr(overlay_plan, "MOST_COPIED", 3)
    found = plan(*beside)
    notes = str(disk / "home" / "notes.txt")
    assert Bind(notes, notes, read_only=True) in found.mounts
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_all_copies_together_have_a_limit(disk, beside, monkeypatch):
    for name in "abc":
        (disk / "home" / name).write_text("1234")
    monkeypatch.setattr(overlay_plan, "MOST_COPIED", 10)
    found = plan(*beside)
    shown = [path for path in made(found.mounts, Bind) if os.path.isfile(path)]
    assert sorted(shown) == [f"{disk}/home/{name}" for name in ("c", "notes.txt")]
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_a_large_file_of_the_project_is_never_read_only(disk, beside, monkeypatch):
    monkeypatch.setattr(overlay_plan, "MOST_COPIED", 3)
    wanted, mounts = beside
    with pytest.raises(NotPossibleError, match=r"notes\.txt is too large to copy"):
        plan(replace(wanted, protected=(str(disk / "home"),)), mounts)
    assert os.listdir(disk / "home" / "other") == []


@pytest.mark.usefixtures("own")
def test_entries_of_all_stand_ins_have_a_limit(disk, beside, monkeypatch):
    monkeypatch.setattr(overlay_plan, "MOST_ENTRIES", 4)
    wanted, mounts = beside
    found = plan(wanted, mounts)
    assert str(disk / "home") in found.gaps
    assert str(disk / "home" / "project") not in found.gaps
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("large", ["of the project", "beside it"])
def test_where_copies_will_not_do_an_overlay_lies_between(disk, wanted, monkeypatch, large):
    home = str(disk / "home")
    monkeypatch.setattr(overlay_plan, "MOST_COPIED", 3 if large == "beside it" else 1 << 20)
    protected = (str(disk),) if large == "of the project" else wanted.protected
    found = plan(replace(wanted, nearby=(home + "/other",), protected=protected), table(disk))
    folder = home if large == "beside it" else str(disk)
    (overlay,) = [row for row in found.mounts if isinstance(row, OverlayMount) and row.lower == folder]
    assert overlay.below.startswith(home + "/other/" + overlay_plan.SCRATCH)
    assert overlay.is_needed
    assert not [row for row in found.stand_ins if row.real == folder]
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_a_scratch_in_the_covered_folder_is_hidden(disk, wanted):
    home = str(disk)
    found = plan(replace(wanted, nearby=(), exempt=(), protected=(home,)), table(disk))
    (overlay,) = [row for row in found.mounts if isinstance(row, OverlayMount)]
    (name,) = os.listdir(overlay.upper)
    assert found.scratch == (f"{home}/{name}",)
    about = os.lstat(f"{overlay.upper}/{name}")
    assert (stat.S_ISCHR(about.st_mode), about.st_rdev) == (True, 0), "a whiteout"
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_scratch_is_made_outside_of_protected_folders_where_there_is_room(disk, wanted):
    home = str(disk / "home")
    found = plan(replace(wanted, nearby=(home + "/.cache", str(disk / "scratch")), protected=(home,)), table(disk))
    assert [os.path.dirname(path) for path in found.scratch] == [str(disk / "scratch")]
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_the_scratch_names_the_process_that_made_it(disk, wanted):
    found = plan(wanted, table(disk))
    (scratch,) = found.scratch
    assert json.loads((Path(scratch) / "run.json").read_text()) == identity()
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_of_exempt_and_protected_folders_the_deepest_decides(disk, wanted):
    home = disk / "home"
    (home / "project" / "hf" / "own").mkdir(parents=True)
    exempt = (*wanted.exempt, str(home / "project" / "hf"))
    protected = (str(home), str(home / "project"), str(home / "project" / "hf" / "own"))
    found = plan(replace(wanted, exempt=exempt, protected=protected), table(disk))
    assert made(found.mounts, OverlayMount) == {str(home), protected[-1]}
    assert made(found.mounts, Bind) >= {str(home / ".cache"), str(home / "project" / "hf"), wanted.run_dir}
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_below_a_real_folder_mounts_are_covered(disk, wanted):
    shared = disk / "home" / "shared"
    (shared / "volume").mkdir(parents=True)
    mounts = [Mount("/", str(shared), "autofs", "x"), Mount("/", str(shared / "volume"), "nfs4", "x")]
    found = plan(wanted, table(disk, *mounts))
    assert str(shared / "volume") in made(found.mounts, OverlayMount)
    assert str(shared) not in made(found.mounts, OverlayMount)
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("kind", ["vfat", "exfat", "ntfs3"])
def test_what_the_kernel_lets_nothing_cover_stays_real_and_is_told(disk, wanted, kind):
    stick = str(disk / "home" / "other")
    found = plan(replace(wanted, is_privileged=True), table(disk, Mount("/", stick, kind, "x")))
    assert found.gaps == (stick,)
    assert found.stage + stick in made(found.mounts, Bind)
    overlay_plan.remove(found.scratch)
    with pytest.raises(NotPossibleError, match="other cannot be covered"):
        plan(replace(wanted, is_privileged=True, protected=(stick,)), table(disk, Mount("/", stick, kind, "x")))


@pytest.mark.parametrize("root", ["/disk/home/other", "/elsewhere"])
def test_a_folder_mounted_at_two_places_is_known_to_hold_the_scratch(disk, wanted, root):
    view = disk / "view"
    view.mkdir()
    mounts = [Mount("/disk", str(disk), "ext4", "x"), Mount(root, str(view), "ext4", "x")]
    nearby = (str(disk / "home" / "other"),)
    found = plan(replace(wanted, is_privileged=False, nearby=nearby, protected=(str(view),)), mounts)
    (overlay,) = [row for row in found.mounts if isinstance(row, OverlayMount) and row.lower == str(view)]
    assert bool(overlay.below) is (root == "/disk/home/other")
    overlay_plan.remove(found.scratch)


def test_only_overlays_of_protected_folders_are_needed(disk, wanted):
    other, inner = str(disk / "scratch"), str(disk / "home" / "project" / "data")
    mounts = table(disk, Mount("/", other, "nfs4", "a"), Mount("/", inner, "nfs4", "b"))
    found = plan(replace(wanted, is_privileged=True, exempt=(), nearby=()), mounts)
    needed = {row.lower: row.is_needed for row in found.mounts if isinstance(row, OverlayMount)}
    assert (needed[other], needed[inner]) == (False, True)
    overlay_plan.remove(found.scratch)


@pytest.mark.usefixtures("own")
def test_no_room_for_scratch_is_said(disk, wanted):
    with pytest.raises(NotPossibleError, match="no local file system"):
        plan(wanted, [Mount("/", str(disk), "nfs4", "server:/")])


@pytest.mark.usefixtures("own")
def test_a_project_that_cannot_be_covered_is_said_and_leaves_nothing(disk, wanted, monkeypatch):
    monkeypatch.setattr(overlay_plan, "MOST_ENTRIES", 0)
    monkeypatch.setattr(overlay_plan._Planner, "_can_be_covered", lambda planner, folder: False)
    with pytest.raises(NotPossibleError, match="cannot be covered"):
        plan(wanted, table(disk))
    assert os.listdir(disk / "scratch") == []


@pytest.mark.usefixtures("own")
def test_the_scratch_of_another_run_is_no_part_of_the_world(disk, wanted):
    (disk / "home" / (overlay_plan.SCRATCH + "another")).mkdir()
    found = plan(replace(wanted, nearby=(str(disk / "home" / "other"),)), table(disk))
    assert not any(overlay_plan.SCRATCH + "another" in mount.at for mount in found.mounts)
    overlay_plan.remove(found.scratch)


def test_what_the_kernel_locked_is_deleted(tmp_path):
    locked = tmp_path / "1" / "work" / "work"
    locked.mkdir(parents=True)
    (locked / "file").touch()
    locked.chmod(0)
    overlay_plan.remove([str(tmp_path)])
    assert not tmp_path.exists()
