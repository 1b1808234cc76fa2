"""What the kernels of the profiled steps were: matrix products by their arithmetic, attention by its backend.

Known by name: cuBLAS, cuDNN and CUTLASS put the arithmetic into their kernels' names, PyTorch and FlashAttention the
backend. What is plain softmax and products is known by the operators of torch that launched it. A kernel that Triton
compiled, or that a CUDA graph launched, has no operator: where such kernels may be what is asked for, nothing is said.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from autotune.derive.intervals import Stretch, common, merged, total, without
from autotune.derive.recording_view import MS, RecordingView
from autotune.model.recording import Event, Json

FP32_GEMM = re.compile(r"sgemm|f32f32_f32f32_f32|gemmSN\w*<float|gemmk1_kernel<\w+, float", re.IGNORECASE)
"""ampere_sgemm_128x64_nn, cutlass_80_simt_sgemm_256x128_8x4_nn_align1, sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_..."""

OTHER_ARITHMETIC = re.compile(r"tensorop|tf32|fp16|__half|bfloat16|conv|fprop|dgrad|wgrad", re.IGNORECASE)
"""On tensor cores after all, 16-bit storage, or a convolution, which has a switch of its own."""

PLAIN_NAME = re.compile(r"\w+")
"""Triton names a kernel as its author named a function; CUDA C++ adds its types."""

LIBRARY_NAME = re.compile(r"[a-z\d]gem[mv]|xmma|cutlass|nvjet|cudnn|fmha|flash|nccl", re.IGNORECASE)
"""Plain names that tell nevertheless: ampere_sgemm_128x64_tn, nvjet_tst_128x192_64x4_1x2_h_bz_coopA_NNT."""

NO_PRODUCT = re.compile(r"triton_(poi|red|per|for|spl)_")
"""Inductor's pointwise kernels, reductions and so on: its products are templates (_inductor/wrapper_benchmark.py)."""

MOST_UNNAMED = 0.05
"""Of the kernels' time: what no name tells below that moves no share past a rule's limit by itself."""

FUSED_ATTENTION = (
    ("cudnn", re.compile(r"cudnn\w*sdpa")),
    ("efficient", re.compile(r"fmha_cutlass|PyTorchMemEffAttention")),
    ("flash", re.compile(r"flash_(fwd|bwd)|flash::|FlashAttn")),
)
"""The first that fits: cuDNN's kernels also have "flash" in their names."""

SOFTMAX = ("aten::_softmax", "aten::_softmax_backward_data", "aten::_safe_softmax")
PRODUCTS = ("aten::bmm", "aten::baddbmm")
"""Linear layers are aten::mm and addmm: batched products are attention's, where its softmax is beside them."""

COMMUNICATION = re.compile(
    r"^(nccl|rccl|nvshmem)|^void (nccl|rccl)|multimem_\w*(reduce|gather)|(one|two)_shot_all_reduce|cross_device_reduce"
    r"|deep_ep::|symm_mem\w*(reduce|gather)",
    re.IGNORECASE,
)
"""NCCL and RCCL, torch's symmetric memory (multimem_all_reduce_kernel), vLLM's cross_device_reduce, DeepEP."""

COLLECTIVES = (
    ("all-to-all", re.compile(r"all_?to_?all|deep_ep::", re.IGNORECASE)),
    ("reduce-scatter", re.compile(r"reduce_?scatter", re.IGNORECASE)),
    ("all-gather", re.compile(r"all_?gather|multimem_\w*gather", re.IGNORECASE)),
    ("all-reduce", re.compile(r"all_?reduce|cross_device_reduce", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast", re.IGNORECASE)),
    ("reduce", re.compile(r"reduce", re.IGNORECASE)),
    ("send and receive", re.compile(r"send|recv", re.IGNORECASE)),
)
"""By the name of the collective or of its kernel; the first that fits. NCCL sends all-to-all by SendRecv, and RCCL all
by kernels named Generic."""

CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw|batched_transpose_\d+x\d+")
"""Kernels of cuDNN and of MIOpen that turn a tensor around because the next one wants its channels last, or first."""

LEAST_SOFTMAX = 0.1
"""Of the products' time. Attention's softmax reads and writes the scores that its products write and read; that of a
router of experts, whose products are batched too, is smaller by orders of magnitude."""

OTHER_WAITS = ("iter", "fetch", "h2d", "checkpoint", "evaluation")
"""Idle time inside these has a cause of its own."""


def shares(view: RecordingView) -> Mapping[str, float | str | None]:
    """Facts by name: shares of the device's busy time, and busy_share and pageable_share of the step.

    Kernels take what they take; but a profiler slows the host, so the step is the window's. Outside of waits for
    batches, which differ from step to step, the device was busy for at least the share of the profiled step.
    """
    table = view.recording.kernels
    steps_ns = view.window.without_ms("checkpoint", "evaluation") * MS * table["steps"] if table and view.window else 0
    if table is None or steps_ns <= 0:
        return {}
    rows = totals(table)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    count, busy_ns = sum(row["count"] for row in kernels), total(busy(table))
    training_ns = steps_ns - (view.window.phase_ms("data_wait") or 0.0) * MS * table["steps"] if view.window else 0
    waits = merged((one.start_ns, one.end_ns) for one in view.recording.events if one.kind in ("iter", "fetch"))
    profiled_ns = table["end_ns"] - table["start_ns"] - total(common(idle(table), waits))
    pageable_ns = _total(row for row in rows if row["kind"] == "copy" and "Pageable ->" in row["name"])
    values: dict[str, float | str | None] = {
        "busy_share": _share(busy_ns, min(training_ns, profiled_ns)) * training_ns / steps_ns,
        "pageable_share": _share(pageable_ns, steps_ns),
        "communication_share": _share(total(exposed_communication(table)), steps_ns),
        "exposed_collective": next((kind for kind, ns in exposed_by_collective(table).items() if ns), None),
    }
    if not busy_ns:
        return values
    backend, attention_ns = attention(kernels)
    return {
        **values,
        "gemm_fp32_share": _share_or_none(fp32_products_ns(kernels), busy_ns),
        "attention_share": _share_or_none(attention_ns, busy_ns),
        "attention_backend": backend,
        "mean_kernel_us": _total(kernels) / count / 1e3,
        "convolution_share": _share(_total(row for row in kernels if CONVOLUTION.search(row["operator"])), busy_ns),
        "layout_share": _share(_total(row for row in kernels if LAYOUT.search(row["name"])), busy_ns),
    }


def totals(table: Json) -> list[Json]:
    """The rows of the table, each with the `count` of its launches and their `total_ns`."""
    count, length = [0] * len(table["rows"]), [0] * len(table["rows"])
    for row, _, _, ns in table["launches"]:
        count[row] += 1
        length[row] += ns
    both = zip(table["rows"], count, length, strict=True)
    return [{**row, "count": number, "total_ns": ns} for row, number, ns in both]


def busy(table: Json) -> list[Stretch]:
    """When at least one kernel ran."""
    return _running(table, lambda row: True)


def idle(table: Json) -> list[Stretch]:
    """When none did."""
    return without([(table["start_ns"], table["end_ns"])], busy(table))


def communication(table: Json) -> list[Stretch]:
    """When a kernel of a collective ran, waits for other ranks included."""
    return _running(table, is_communication)


def exposed_communication(table: Json) -> list[Stretch]:
    """When only kernels of collectives ran."""
    return without(communication(table), _running(table, lambda row: not is_communication(row)))


def is_communication(row: Json) -> bool:
    return bool(COMMUNICATION.search(row["name"]))


def collective_of(row: Json) -> str:
    """Which collective a kernel of communication belongs to: "all-reduce" ...; "other" where no name tells."""
    for name in (row["operator"].partition(":")[2] if ":" in row["operator"] else "", row["name"]):
        found = next((kind for kind, pattern in COLLECTIVES if pattern.search(name)), None)
        if found is not None:
            return found
    return "other"


def exposed_by_collective(table: Json) -> Mapping[str, int]:
    """Nanoseconds in which only kernels of collectives ran, by collective, the largest first. Those of two collectives
    at once count for both."""
    compute = _running(table, lambda row: not is_communication(row))
    kinds = {collective_of(row) for row in table["rows"] if row["kind"] == "kernel" and is_communication(row)}
    found = {kind: total(without(_running(table, partial(_is_collective, kind)), compute)) for kind in kinds}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _is_collective(kind: str, row: Json) -> bool:
    return is_communication(row) and collective_of(row) == kind


def _running(table: Json, is_wanted: Callable[[Json], bool]) -> list[Stretch]:
    wanted = [row["kind"] == "kernel" and is_wanted(row) for row in table["rows"]]
    end_ns = table["end_ns"]
    return merged((start, min(start + ns, end_ns)) for row, _, start, ns in table["launches"] if wanted[row])


def fp32_products_ns(kernels: Sequence[Json]) -> int | None:
    """Nanoseconds of fp32 products outside tensor cores; None where too much has a name that does not tell."""
    unnamed = [row for row in kernels if not row["operator"] and not tells_products(row["name"])]
    return None if _are_many(unnamed, kernels) else _total(row for row in kernels if is_fp32_product(row))


def tells_products(name: str) -> bool:
    """Whether a kernel's name alone says if it multiplies matrices."""
    return not PLAIN_NAME.fullmatch(name) or bool(LIBRARY_NAME.search(name) or NO_PRODUCT.match(name))


def is_fp32_product(row: Json) -> bool:
    """Whether a kernel multiplies fp32 matrices without tensor cores."""
    name = str(row["name"])
    return bool(FP32_GEMM.search(name)) and not OTHER_ARITHMETIC.search(f"{row['operator']} {name}")


def attention(kernels: Sequence[Json]) -> tuple[str | None, int | None]:
    """(backend, nanoseconds) of attention: fused kernels, else softmax and batched products.

    (None, 0) without any; (None, None) where kernels of no operator, or the products of experts, may hide it.
    """
    fused: Counter[str] = Counter()
    for row in kernels:
        found = next((backend for backend, name in FUSED_ATTENTION if name.search(row["name"])), None)
        if found is not None:
            fused[found] += row["total_ns"]
    if fused:
        return fused.most_common(1)[0][0], fused.total()
    softmax = _total(row for row in kernels if row["operator"] in SOFTMAX)
    products = _total(row for row in kernels if row["operator"] in PRODUCTS)
    if softmax and products:
        return ("math", softmax + products) if softmax >= LEAST_SOFTMAX * products else (None, None)
    unnamed = [row for row in kernels if not row["operator"] and "nccl" not in row["name"]]
    return None, None if _are_many(unnamed, kernels) else 0


def user_sync_idle_share(view: RecordingView) -> float | None:
    """Idle device after host reads by the user's code, of the step.

    The profiler slows the host, and with it every gap: the idle time of the measured step is divided among the gaps.
    On both sides without the waits that have a cause of their own, which differ from step to step.
    """
    table, window, busy_share = view.recording.kernels, view.window, shares(view).get("busy_share")
    if table is None or window is None or not isinstance(busy_share, float):
        return None
    waits = merged((one.start_ns, one.end_ns) for one in view.recording.events if one.kind in OTHER_WAITS)
    idle_ns = total(without(idle(table), waits))
    after_ns = total(without(gaps_after_reads(view), waits))
    waited_ms = sum(window.phase_ms(phase) or 0.0 for phase in ("data_wait", "h2d"))
    idle_share = max(0.0, 1 - busy_share - waited_ms / window.without_ms("checkpoint", "evaluation"))
    return idle_share * min(1.0, after_ns / idle_ns) if idle_ns > 0 else 0.0


def gaps_after_reads(view: RecordingView) -> list[tuple[int, int]]:
    """Gaps of the device that began when a read of the user's code had waited for the last work in the queue.

    A read that found the device idle waited for nothing, unless an earlier read is what it is idle from.
    """
    table = view.recording.kernels
    if table is None:
        return []
    gaps = idle(table)
    starts = [start for start, _ in gaps]
    found: list[tuple[int, int]] = []
    for read in _reads(view, table):
        at = bisect_right(starts, read.end_ns) - 1
        gap = gaps[at] if at >= 0 and read.end_ns < gaps[at][1] else None
        near = gaps[max(0, bisect_right(starts, read.start_ns) - 1) : at + 1]
        idle_ns = total(common([(read.start_ns, read.end_ns)], near))
        waited = 2 * idle_ns <= read.end_ns - read.start_ns
        is_next = bool(found) and found[-1][0] <= read.start_ns <= found[-1][1]
        if gap is not None and gap not in found[-1:] and (waited or is_next):
            found.append(gap)
    return found


def _reads(view: RecordingView, table: Json) -> Iterator[Event]:
    """The user's reads within the profiled steps, in the order of time."""
    calls = view.recording.calls
    for event in sorted(view.recording.events, key=lambda event: event.start_ns):
        is_within = event.end_ns > table["start_ns"] and event.start_ns < table["end_ns"]
        if event.kind == "sync" and is_within and not calls[event.ref]["is_library"]:
            yield event


def _total(rows: Iterator[Json] | Sequence[Json]) -> int:
    return sum(row["total_ns"] for row in rows)


def _are_many(rows: Sequence[Json], kernels: Sequence[Json]) -> bool:
    return _total(rows) > MOST_UNNAMED * _total(kernels)


def _share_or_none(part: float | None, whole: float) -> float | None:
    return None if part is None else _share(part, whole)


def _share(part: float, whole: float) -> float:
    """`part` / `whole`, at most 1; both in nanoseconds."""
    return min(1.0, part / max(1.0, whole))
