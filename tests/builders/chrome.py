"""Chrome traces as torch.profiler writes them. Times in microseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PID, TID, BACKWARD_TID = 100, 100, 200
DEVICE = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 80 << 30, "computeMajor": 8, "computeMinor": 0}


class Chrome:
    """Collects events; `text()` is the file. Correlation numbers and ids are counted up."""

    def __init__(self, **head: Any) -> None:
        self.head = {"schemaVersion": 1, "deviceProperties": [DEVICE]} | head
        self.events: list[dict[str, Any]] = []
        self._number = 0

    def add(self, cat: str, name: str, ts: float, dur: float, tid: Any = TID, pid: Any = PID, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
        )

    def op(self, name: str, ts: float, dur: float, tid: Any = TID, **args: Any) -> None:
        self.add("cpu_op", name, ts, dur, tid, **args)

    def mark(self, name: str, ts: float, dur: float) -> None:
        self.add("user_annotation", name, ts, dur)

    def frame(self, name: str, ts: float, dur: float) -> None:
        self.add("python_function", name, ts, dur)

    def call(self, name: str, ts: float, dur: float, tid: Any = TID) -> int:
        self._number += 1
        self.add("cuda_runtime", name, ts, dur, tid, correlation=self._number)
        return self._number

    def launch(self, name: str, at: float, start: float, dur: float, tid: Any = TID, stream: int = 7) -> None:
        """A kernel that is launched at `at` and runs from `start` on."""
        number = self.call("cudaLaunchKernel", at, 2, tid)
        self.add("kernel", name, start, dur, stream, 0, device=0, stream=stream, correlation=number)

    def copy(self, kind: str, at: float, blocked: float, start: float, dur: float) -> None:
        number = self.call("cudaMemcpyAsync", at, blocked)
        self.add("gpu_memcpy", f"Memcpy {kind}", start, dur, 7, 0, device=0, stream=7, correlation=number, bytes=4096)

    def text(self) -> str:
        return json.dumps({**self.head, "traceEvents": self.events})

    def write(self, path: Path) -> Path:
        path.write_text(self.text(), encoding="utf-8")
        return path


def training(steps: int = 4, marked: bool = True, **head: Any) -> Chrome:
    """Steps of 1000 us from 0 on: 300 us of data wait, a copy, forward, backward on a thread of its own, an update.

    The device copies from 320 to 340 and computes from 420 to 700 and from 720 to 900 of each step, the communication
    of 720 to 800 hidden behind nothing but 780 to 800.
    """
    made = Chrome(**head)
    for number in range(steps):
        at = 1000 * number
        if marked:
            made.mark(f"ProfilerStep#{number + 3}", at, 1000)
        made.frame("train.py(12): train_step", at + 1, 990)
        made.mark("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 2, 298)
        made.op("aten::to", at + 310, 30)
        made.op("aten::copy_", at + 311, 28)
        made.copy("HtoD (Pageable -> Device)", at + 312, 20, at + 320, 20)
        made.op("aten::linear", at + 400, 40)
        made.op("aten::addmm", at + 402, 30)
        made.launch("ampere_sgemm_128x64_tn", at + 405, at + 420, 280)
        node = "autograd::engine::evaluate_function: AddmmBackward0"
        made.op(node, at + 450, 100, BACKWARD_TID)
        made.op("aten::mm", at + 455, 20, BACKWARD_TID)
        made.launch("ampere_sgemm_64x64_nt", at + 460, at + 780, 120, BACKWARD_TID)
        made.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", at + 500, at + 720, 80, BACKWARD_TID, stream=20)
        made.mark("Optimizer.step#AdamW.step", at + 600, 50)
        made.op("aten::item", at + 700, 210)
        made.op("aten::_local_scalar_dense", at + 701, 205)
        made.call("cudaStreamSynchronize", at + 710, 195)
    return made
