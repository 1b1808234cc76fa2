"""Which GPUs CUDA shows to a process: CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER and MIG.

Read as the CUDA programming guide and torch.cuda read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from autotune.machine import nvml

_ORDINAL = re.compile(r"[+-]?\d+")


class Device(Struct, frozen=True):
    """An NVML handle of what CUDA sees, and that of its whole board: they differ for a MIG slice."""

    handle: Any
    board: Any


def visible(library: nvml.Nvml, environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices that a CUDA program in `environ` sees, in the order of the list or of the PCI bus.

    A program sees one MIG slice only, and then no whole GPU beside it.
    """
    boards = [Device(board, board) for board in _boards(library)]
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        chosen = boards
    elif wanted.strip().startswith(("GPU-", "MIG-")):
        slices = [each for board in boards for each in _slices(library, board.board)]
        chosen = _by_uuid(library, wanted, [*boards, *slices])
    else:
        chosen = [boards[index] for index in ordinals(wanted, len(boards))]
    return _with_mig(library, chosen)


def ordinals(wanted: str, count: int) -> list[int]:
    """The indices in a list such as "1,0": up to the first that is no device; none when one is repeated."""
    indices: list[int] = []
    for element in wanted.split(","):
        found = _ORDINAL.match(element.strip())
        index = int(found[0]) if found else -1
        if not 0 <= index < count:
            break
        if index in indices:
            return []
        indices.append(index)
    return indices


def is_order_known(library: nvml.Nvml, environ: Mapping[str, str]) -> bool:
    """Whether CUDA numbers the GPUs as NVML does (by PCI bus), or the difference does not show.

    CUDA's default is the fastest GPU first; that is another order only where the models differ.
    """
    if environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    if environ.get("CUDA_VISIBLE_DEVICES", "").strip().startswith(("GPU-", "MIG-")):
        return True
    return len({nvml.text(nvml.ask(library, "nvmlDeviceGetName", board)) for board in _boards(library)}) <= 1


def _boards(library: nvml.Nvml) -> Iterator[Any]:
    for index in range(nvml.ask(library, "nvmlDeviceGetCount") or 0):
        board = nvml.ask(library, "nvmlDeviceGetHandleByIndex", index)
        if board is not None:
            yield board


def _slices(library: nvml.Nvml, board: Any) -> Iterator[Device]:
    mode = nvml.ask(library, "nvmlDeviceGetMigMode", board)
    if not mode or not mode[0]:
        return
    for index in range(nvml.ask(library, "nvmlDeviceGetMaxMigDeviceCount", board) or 0):
        handle = nvml.ask(library, "nvmlDeviceGetMigDeviceHandleByIndex", board, index)
        if handle is not None:
            yield Device(handle, board)


def _by_uuid(library: nvml.Nvml, wanted: str, devices: Sequence[Device]) -> list[Device]:
    """CUDA takes any unique beginning of a UUID; a list ends at the first that names no device."""
    chosen: list[Device] = []
    uuids = [nvml.text(nvml.ask(library, "nvmlDeviceGetUUID", device.handle)) or "" for device in devices]
    for element in (part.strip() for part in wanted.split(",")):
        matches = [device for device, uuid in zip(devices, uuids, strict=True) if uuid.startswith(element)]
        if len(matches) != 1 or not element:
            break
        if matches[0] in chosen:
            return []
        chosen.append(matches[0])
    return chosen


def _with_mig(library: nvml.Nvml, chosen: Sequence[Device]) -> tuple[Device, ...]:
    for device in chosen:
        if device.handle is not device.board:
            return (device,)
        mode = nvml.ask(library, "nvmlDeviceGetMigMode", device.board)
        if mode and mode[0]:
            return tuple(_slices(library, device.board))[:1]
    return tuple(chosen)
