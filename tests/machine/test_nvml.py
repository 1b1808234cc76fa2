from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from autotune.machine import nvml


def test_without_pynvml_there_is_a_reason():
    def load(name):
        raise ImportError(name)

    assert nvml.connect(load) == (None, "pynvml (nvidia-ml-py) is not installed")


def test_without_a_driver_there_is_a_reason():
    def refuse():
        raise pynvml.NVMLError_LibraryNotFound

    library = SimpleNamespace(nvmlInit=refuse, NVMLError=pynvml.NVMLError)
    assert nvml.connect(lambda _: library) == (None, "no NVIDIA driver: NVML Shared Library Not Found")


def test_connect_initialises():
    calls = []
    library = SimpleNamespace(nvmlInit=lambda: calls.append("init"), NVMLError=pynvml.NVMLError)
    assert nvml.connect(lambda _: library) == (library, "")
    assert calls == ["init"]


def test_ask_answers_none_for_what_is_not_supported_but_lets_bugs_through(fake_nvml, board):
    library = fake_nvml(board(clock=None))
    assert nvml.ask(library, "nvmlDeviceGetClockInfo", library.boards[0], 1) is None
    assert nvml.ask(library, "nvmlNoSuchFunction") is None
    with pytest.raises(TypeError):
        nvml.ask(library, "nvmlDeviceGetCount", "an argument too many")


@pytest.mark.parametrize(("answer", "text"), [(None, None), ("a", "a"), (b"a", "a")])
def test_text(answer, text):
    assert nvml.text(answer) == text


@pytest.mark.parametrize("event_reasons", [True, False], ids=["event", "throttle"])
def test_clock_reasons_by_both_names(fake_nvml, board, event_reasons):
    library = fake_nvml(board(mask=0x20), event_reasons=event_reasons)
    assert nvml.clock_reasons(library, library.boards[0]) == 0x20


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (pynvml.nvmlClocksEventReasonGpuIdle, ()),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, ()),
        (pynvml.nvmlClocksEventReasonSwPowerCap, ("power cap",)),
        (pynvml.nvmlClocksEventReasonHwSlowdown, ("hardware slow-down",)),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, ("software thermal slow-down",)),
        (
            pynvml.nvmlClocksEventReasonHwThermalSlowdown | pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
            ("hardware thermal slow-down", "power brake"),
        ),
        (pynvml.nvmlClocksEventReasonSyncBoost, ()),
    ],
)
def test_slow_downs_are_the_bits_of_the_real_header(mask, names):
    assert nvml.slow_downs(mask) == names


@pytest.mark.parametrize(
    ("mask", "power", "slowed"),
    [
        (0, (700, 700), False),
        (0x1, (700, 700), False),
        (0x20, (700, 700), True),
        (0x8, None, True),
        (0x4, (700, 700), False),
        (0x4, (665, 700), False),
        (0x4, (664, 700), True),
        (0x4, None, None),
        (0x4 | 0x40, (700, 700), True),
        (0x4 | 0x1, (700, 700), False),
    ],
)
def test_a_power_cap_alone_slows_a_gpu_down_where_its_limit_was_lowered(fake_nvml, board, mask, power, slowed):
    library = fake_nvml(board(power=power))
    assert nvml.is_slowed(library, library.boards[0], mask) is slowed


def test_the_sm_clock_is_pynvmls():
    assert nvml.CLOCK_SM == pynvml.NVML_CLOCK_SM


@pytest.mark.parametrize(
    "name",
    [
        "nvmlSystemGetDriverVersion",
        "nvmlSystemGetCudaDriverVersion_v2",
        "nvmlDeviceGetCount",
        "nvmlDeviceGetHandleByIndex",
        "nvmlDeviceGetName",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        "nvmlDeviceGetCurrPcieLinkWidth",
        "nvmlDeviceGetMaxPcieLinkWidth",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetCurrentClocksEventReasons",
    ],
)
def test_the_fake_speaks_as_pynvml_does(fake_nvml, name):
    assert callable(getattr(pynvml, name))
    assert callable(getattr(fake_nvml(), name))
