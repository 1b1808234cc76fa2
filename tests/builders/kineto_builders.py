"""Events as torch's profiler gives them on CUDA, as far as they are asked."""

from __future__ import annotations

from typing import Any

import torch

CUDA, CPU = torch._C._autograd.DeviceType.CUDA, torch._C._autograd.DeviceType.CPU


class Event:
    """A _KinetoEvent of `length` ns from `start` on. `identity` is its correlation id, `linked` that of the operator it
    belongs to, `sequence` the number of the node, `thread` the one that it ran in, `of` the one that made its node.
    """

    def __init__(self, name: str, start: int, length: int, device: Any = CUDA, identity: int = 0, **given: Any) -> None:
        more = {"linked": 0, "annotation": False, "resource": 7, "sequence": -1, "thread": 1, "of": 0} | given
        self.name = lambda: name
        self.start_ns = lambda: start
        self.duration_ns = lambda: length
        self.device_type = lambda: device
        self.correlation_id = lambda: identity
        self.linked_correlation_id = lambda: more["linked"]
        self.is_user_annotation = lambda: more["annotation"]
        self.device_resource_id = lambda: more["resource"]
        self.sequence_nr = lambda: more["sequence"]
        self.start_thread_id = lambda: more["thread"]
        self.fwd_thread_id = lambda: more["of"]
        self.dtypes = lambda: ["float"]
