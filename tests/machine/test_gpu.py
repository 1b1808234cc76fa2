from __future__ import annotations

import pytest

from autotune.machine import gpu, nvml


def values(gpus):
    return {fact.name: fact.value for fact in gpu.facts(gpus)}


@pytest.mark.parametrize(
    ("name", "driver"),
    [("NVIDIA H100 80GB HBM3", "570.86.15"), (b"NVIDIA H100 80GB HBM3", b"570.86.15")],
    ids=["str", "bytes"],
)
def test_facts_of_one_gpu(fake_nvml, board, name, driver):
    gpus = gpu.read(fake_nvml(board(name=name, pids=(7, 8), mask=0x20), driver=driver), {})
    assert values(gpus) == {
        "machine.driver": "570.86.15",
        "machine.driver_cuda": (12, 8),
        "machine.num_gpus": 1,
        "machine.gpu_name": "NVIDIA H100 80GB HBM3",
        "machine.gpu_memory_bytes": 81559 * 2**20,
        "machine.gpu_capability": (9, 0),
        "machine.gpu_max_clock_mhz": 1980,
        "machine.gpu_pcie_max_generation": 5,
        "machine.gpu_pcie_max_width": 16,
        "machine.gpu_slow_downs": "software thermal slow-down",
        "machine.num_foreign_gpu_processes": 2,
    }
    assert gpus.why_not == ""


def test_what_is_not_supported_is_absent(fake_nvml, board):
    dumb = board(capability=None, mask=None, clock=None, max_clock=None, pcie=None, pids=None)
    assert values(gpu.read(fake_nvml(dumb), {})).keys() == {
        "machine.driver",
        "machine.driver_cuda",
        "machine.num_gpus",
        "machine.gpu_name",
        "machine.gpu_memory_bytes",
    }


def test_own_processes_are_not_foreign(fake_nvml, board):
    gpus = gpu.read(fake_nvml(board(pids=(5, 7)), board(pids=(7, 9))), {}, own_pids=[7])
    assert [device.foreign_pids for device in gpus.devices] == [(5,), (9,)]
    assert values(gpus)["machine.num_foreign_gpu_processes"] == 2


def test_no_other_process_is_known_to_be_none(fake_nvml, board):
    assert values(gpu.read(fake_nvml(board()), {}))["machine.num_foreign_gpu_processes"] == 0


def test_no_driver_gives_no_facts_but_a_reason(monkeypatch):
    monkeypatch.setattr(nvml, "connect", lambda: (None, "no NVIDIA driver: not found"))
    gpus = gpu.read()
    assert gpu.facts(gpus) == ()
    assert gpus.why_not == "no NVIDIA driver: not found"


@pytest.mark.parametrize(
    ("boards", "environ", "why"),
    [
        (0, {}, "the driver lists no GPU"),
        (1, {"CUDA_VISIBLE_DEVICES": ""}, "CUDA_VISIBLE_DEVICES='' shows no GPU"),
        (1, {"CUDA_VISIBLE_DEVICES": "4"}, "CUDA_VISIBLE_DEVICES='4' shows no GPU"),
    ],
)
def test_a_driver_without_a_visible_gpu_counts_to_zero(fake_nvml, board, boards, environ, why):
    gpus = gpu.read(fake_nvml(*(board() for _ in range(boards))), environ)
    assert values(gpus) == {
        "machine.driver": "570.86.15",
        "machine.driver_cuda": (12, 8),
        "machine.num_gpus": 0,
    }
    assert gpus.why_not == why


def test_an_unknown_order_names_no_first_gpu(fake_nvml, board):
    library = fake_nvml(board(name="A"), board(name="B"))
    found = values(gpu.read(library, {}))
    assert found["machine.num_gpus"] == 2
    assert "machine.gpu_name" not in found
    assert values(gpu.read(library, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}))["machine.gpu_name"] == "A"


def test_a_slice_has_its_own_memory_and_its_boards_capability(fake_nvml, board):
    piece = board(name="H100 MIG 1g.10gb", uuid="MIG-1", memory=10 * 2**30, capability=None, pcie=None)
    found = values(gpu.read(fake_nvml(board(mig=1, slices=(piece,))), {}))
    assert found["machine.gpu_memory_bytes"] == 10 * 2**30
    assert found["machine.gpu_capability"] == (9, 0)
    assert found["machine.gpu_pcie_max_width"] == 16
