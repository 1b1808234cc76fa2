"""Fake machines: a root folder in place of "/", and an NVML that answers as pynvml does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate"


@pytest.fixture
def fake_root(tmp_path: Path) -> Callable[[Mapping[str, str]], Path]:
    """Writes files below a folder that stands for "/" and returns it."""

    def write(files: Mapping[str, str]) -> Path:
        root = tmp_path / "root"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        root.mkdir(exist_ok=True)
        return root

    return write


class NVMLError(Exception):
    """What pynvml raises for every refusal."""


@dataclass(eq=False)
class FakeBoard:
    """A GPU or a MIG slice. None stands for NVML_ERROR_NOT_SUPPORTED."""

    name: str | bytes = "NVIDIA H100 80GB HBM3"
    uuid: str = "GPU-aaaa1111"
    memory: int = 81559 * 2**20
    used: int = 2**30
    capability: tuple[int, int] | None = (9, 0)
    mask: int | None = 0
    clock: int | None = 1980
    max_clock: int | None = 1980
    power: tuple[int, int] | None = (700, 700)
    pcie: tuple[int, int, int, int] | None = (5, 5, 16, 16)
    utilisation: int | None = 50
    pids: tuple[int, ...] | None = ()
    process_bytes: int | None = None
    mig: int | None = None
    slices: tuple[FakeBoard | None, ...] = field(default=())


class FakeNvml:
    """The functions of pynvml that autotune calls, over FakeBoards."""

    NVMLError = NVMLError

    def __init__(self, *boards: FakeBoard, event_reasons: bool = True, driver: str | bytes = "570.86.15") -> None:
        self.boards, self.driver = boards, driver
        reasons = "EventReasons" if event_reasons else "ThrottleReasons"
        setattr(self, f"nvmlDeviceGetCurrentClocks{reasons}", lambda board: self._told(board.mask))

    @staticmethod
    def _told(value: Any) -> Any:
        if value is None:
            raise NVMLError("Not Supported")
        return value

    def nvmlSystemGetDriverVersion(self) -> str | bytes:
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 12080

    def nvmlDeviceGetCount(self) -> int:
        return len(self.boards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeBoard:
        return self.boards[index]

    def nvmlDeviceGetName(self, board: FakeBoard) -> str | bytes:
        return board.name

    def nvmlDeviceGetUUID(self, board: FakeBoard) -> str:
        return board.uuid

    def nvmlDeviceGetMemoryInfo(self, board: FakeBoard) -> SimpleNamespace:
        return SimpleNamespace(total=board.memory, used=board.used, free=board.memory - board.used)

    def nvmlDeviceGetCudaComputeCapability(self, board: FakeBoard) -> tuple[int, int]:
        return self._told(board.capability)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, board: FakeBoard) -> int:
        return self._told(board.pcie)[0]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, board: FakeBoard) -> int:
        return self._told(board.pcie)[1]

    def nvmlDeviceGetCurrPcieLinkWidth(self, board: FakeBoard) -> int:
        return self._told(board.pcie)[2]

    def nvmlDeviceGetMaxPcieLinkWidth(self, board: FakeBoard) -> int:
        return self._told(board.pcie)[3]

    def nvmlDeviceGetClockInfo(self, board: FakeBoard, kind: int) -> int:
        assert kind == 1, "NVML_CLOCK_SM"
        return self._told(board.clock)

    def nvmlDeviceGetMaxClockInfo(self, board: FakeBoard, kind: int) -> int:
        assert kind == 1, "NVML_CLOCK_SM"
        return self._told(board.max_clock)

    def nvmlDeviceGetEnforcedPowerLimit(self, board: FakeBoard) -> int:
        return 1000 * self._told(board.power)[0]

    def nvmlDeviceGetPowerManagementDefaultLimit(self, board: FakeBoard) -> int:
        return 1000 * self._told(board.power)[1]

    def nvmlDeviceGetUtilizationRates(self, board: FakeBoard) -> SimpleNamespace:
        return SimpleNamespace(gpu=self._told(board.utilisation), memory=3)

    def nvmlDeviceGetComputeRunningProcesses(self, board: FakeBoard) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=board.process_bytes) for pid in self._told(board.pids)]

    def nvmlDeviceGetMigMode(self, board: FakeBoard) -> list[int]:
        return [self._told(board.mig), self._told(board.mig)]

    def nvmlDeviceGetMaxMigDeviceCount(self, board: FakeBoard) -> int:
        return len(board.slices)

    def nvmlDeviceGetMigDeviceHandleByIndex(self, board: FakeBoard, index: int) -> FakeBoard:
        return self._told(board.slices[index])


@pytest.fixture
def board() -> type[FakeBoard]:
    return FakeBoard


@pytest.fixture
def fake_nvml() -> type[FakeNvml]:
    return FakeNvml


@pytest.fixture
def v2_mount() -> str:
    return V2_MOUNT
