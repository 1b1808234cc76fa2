from __future__ import annotations

import pytest

from autotune.machine.mounts import Mount, mounts, parse, unescape


@pytest.mark.parametrize(
    ("line", "mount"),
    [
        (
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
            Mount("/", "/", "ext4", "/dev/vda", ("rw", "discard")),
        ),
        (
            "40 27 0:35 / /data rw,relatime shared:2 master:7 - nfs4 fs01:/vol/a rw,vers=4.2",
            Mount("/", "/data", "nfs4", "fs01:/vol/a", ("rw", "vers=4.2")),
        ),
        (
            "41 27 254:0 /home/me/x /mnt/bind rw - ext4 /dev/vda rw",
            Mount("/home/me/x", "/mnt/bind", "ext4", "/dev/vda", ("rw",)),
        ),
        (
            r"42 27 0:36 / /my\040disk rw - cifs //srv/my\040share rw",
            Mount("/", "/my disk", "cifs", "//srv/my share", ("rw",)),
        ),
        ("43 27 0:37 / /odd rw - tmpfs tmpfs", Mount("/", "/odd", "tmpfs", "tmpfs", ())),
        ("no mount line", None),
        ("27 1 254:0 / / rw,relatime ext4 /dev/vda rw", None),
        ("", None),
    ],
)
def test_parse(line, mount):
    assert parse(line) == mount


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [(r"a\040b", "a b"), (r"\011", "\t"), (r"a\134040b", r"a\040b"), (r"\043x", "#x"), (r"\9", r"\9")],
)
def test_unescape(escaped, plain):
    assert unescape(escaped) == plain


def test_mounts_keeps_the_order_and_drops_broken_lines(fake_root):
    root = fake_root(
        {"proc/self/mountinfo": "1 1 0:1 / / rw - ext4 /dev/a rw\nbroken\n2 1 0:2 / /b rw - xfs /dev/b rw\n"}
    )
    assert [mount.mount_point for mount in mounts(root)] == ["/", "/b"]
    assert mounts(root / "nowhere") == ()
