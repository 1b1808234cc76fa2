from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from autotune import reading

ME, OTHER = os.geteuid(), 12345


def refused(path: Path, **fields: object) -> int | None:
    with pytest.raises(OSError) as error:
        reading.read(path, **fields)
    return error.value.errno


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12")
    assert reading.read(tmp_path / "a", most_bytes=2) == b"12"


def test_a_link_is_followed_where_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to("a")
    assert refused(tmp_path / "link") == errno.ELOOP
    assert reading.read(tmp_path / "link", follow=True) == b"1"


def test_what_would_block_or_never_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refused(tmp_path / "fifo") == errno.EINVAL
    assert refused(tmp_path) == errno.EINVAL
    assert refused(Path("/dev/zero")) == errno.EINVAL
    (tmp_path / "long").write_bytes(b"123")
    assert refused(tmp_path / "long", most_bytes=2) == errno.EFBIG


@pytest.mark.parametrize(("mode", "may"), [(0o755, True), (0o777, False), (0o1777, False), (0o700, True)])
def test_a_folder_that_others_may_write_holds_no_project(tmp_path: Path, mode: int, may: bool) -> None:
    (tmp_path / "above" / "here").mkdir(parents=True)
    (tmp_path / "above").chmod(mode)
    assert reading.may_hold_project(tmp_path / "above", tmp_path / "above" / "here") is may


@pytest.mark.skipif(ME != 0, reason="only root may give files away")
def test_a_folder_of_another_owner_holds_no_project(tmp_path: Path) -> None:
    (tmp_path / "above" / "here").mkdir(parents=True)
    os.chown(tmp_path / "above", OTHER, -1)
    assert not reading.may_hold_project(tmp_path / "above", tmp_path / "above" / "here")
    os.chown(tmp_path / "above" / "here", OTHER, -1)  # root, in a project of a user
    assert reading.may_hold_project(tmp_path / "above", tmp_path / "above" / "here")
