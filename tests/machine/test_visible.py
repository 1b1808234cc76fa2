from __future__ import annotations

import pytest

from autotune.machine.visible import is_order_known, ordinals, visible

UUIDS = ("GPU-aaaa1111", "GPU-bbbb2222", "GPU-bbbb3333")


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        ("0", [0]),
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [0]),
        ("0,3,1", [0]),
        ("0,x,1", [0]),
        ("1,1", []),
        ("0,1,0", []),
        ("1gpu", [1]),
        ("+1", [1]),
        ("NoDevFiles", []),
        ("0,,1", [0]),
    ],
)
def test_ordinals(wanted, indices):
    assert ordinals(wanted, 3) == indices


@pytest.mark.parametrize(
    ("wanted", "uuids"),
    [
        (None, UUIDS),
        ("1,0", ("GPU-bbbb2222", "GPU-aaaa1111")),
        ("", ()),
        ("GPU-aaaa1111", ("GPU-aaaa1111",)),
        ("GPU-bbbb3,GPU-a", ("GPU-bbbb3333", "GPU-aaaa1111")),
        ("GPU-bbbb", ()),
        ("GPU-a,GPU-none,GPU-bbbb2", ("GPU-aaaa1111",)),
        ("GPU-a,GPU-a", ()),
        ("GPU-a,", ("GPU-aaaa1111",)),
        ("MIG-none", ()),
    ],
)
def test_whole_gpus(fake_nvml, board, wanted, uuids):
    library = fake_nvml(*(board(uuid=uuid) for uuid in UUIDS))
    environ = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    assert tuple(device.handle.uuid for device in visible(library, environ)) == uuids


@pytest.mark.parametrize(
    ("wanted", "uuids"),
    [
        (None, ("MIG-1",)),
        ("0", ("MIG-1",)),
        ("0,1", ("MIG-1",)),
        ("1", ("GPU-whole",)),
        ("MIG-2", ("MIG-2",)),
        ("MIG-2,MIG-1", ("MIG-2",)),
        ("GPU-whole", ("GPU-whole",)),
    ],
)
def test_one_mig_slice_at_most(fake_nvml, board, wanted, uuids):
    slices = (board(uuid="MIG-1"), None, board(uuid="MIG-2"))
    library = fake_nvml(board(uuid="GPU-cut", mig=1, slices=slices), board(uuid="GPU-whole", mig=0))
    environ = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    seen = visible(library, environ)
    assert tuple(device.handle.uuid for device in seen) == uuids
    boards = {"MIG-1": "GPU-cut", "MIG-2": "GPU-cut", "GPU-whole": "GPU-whole"}
    assert all(device.board.uuid == boards[device.handle.uuid] for device in seen)


def test_mig_without_a_slice_shows_nothing(fake_nvml, board):
    assert visible(fake_nvml(board(mig=1)), {}) == ()


@pytest.mark.parametrize(
    ("names", "environ", "known"),
    [
        (("A", "A"), {}, True),
        (("A", "B"), {}, False),
        (("A", "B"), {"CUDA_VISIBLE_DEVICES": "1"}, False),
        (("A", "B"), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, False),
        (("A", "B"), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, True),
        (("A", "B"), {"CUDA_VISIBLE_DEVICES": "GPU-x"}, True),
        ((), {}, True),
    ],
)
def test_order(fake_nvml, board, names, environ, known):
    assert is_order_known(fake_nvml(*(board(name=name) for name in names)), environ) is known
