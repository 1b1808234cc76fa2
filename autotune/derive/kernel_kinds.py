"""What a kernel does, by its name and by the operator of torch that launched it."""

from __future__ import annotations

import re

from autotune.derive.kernels import COMMUNICATION, FP32_GEMM, FUSED_ATTENTION, LAYOUT, OTHER_ARITHMETIC
from autotune.model.recording import Json

GEMM = re.compile(
    r"gem[mv]|nvjet|cublas|_mm_|matmul|Cijk_|dot_kernel|wmma|cutlass_\w+_(tensorop|simt)|xmma_gemm|splitKreduce",
    re.IGNORECASE,
)
"""Cijk_: Tensile's, on AMD."""

TF32 = re.compile(r"tf32|s1688|s161616?8?gemm_f32|tensorop_s1688", re.IGNORECASE)
HALF = re.compile(r"bf16|f16|fp16|half|__nv_bfloat16|s16816|h16816|s884|h884|BBS_|HHS_|_HB_|_BB", re.IGNORECASE)
FP8 = re.compile(r"e4m3|e5m2|fp8|f8f8", re.IGNORECASE)
CONVOLUTION = re.compile(r"conv|fprop|dgrad|wgrad|winograd|implicit_gemm|igemm|im2col|MIOpen", re.IGNORECASE)
OPTIMIZER = re.compile(r"multi_tensor_apply|Adam|FusedSgd|FusedLamb|adagrad", re.IGNORECASE)
NORM = re.compile(r"norm|bn_(fw|bw)|welford", re.IGNORECASE)
REDUCTION = re.compile(r"reduce|softmax|nll_loss|cross_entropy|sort|topk|scan", re.IGNORECASE)
INDEX = re.compile(r"index|gather|scatter|embedding|cat(array)?batched", re.IGNORECASE)
TURNED = re.compile(r"batched_transpose|SubTensorOp|transpose_kernel|permute", re.IGNORECASE)
ELEMENTWISE = re.compile(
    r"elementwise|vectorized|triton_poi|unrolled|fill|copy|dropout|activation|relu|gelu", re.IGNORECASE
)


def kind_of(row: Json) -> str:
    """The group of a kernel: "matrix products (TF32)", "communication", "element by element" ..."""
    name, operator = str(row["name"]), str(row["operator"])
    if COMMUNICATION.search(name):
        return "communication"
    if any(pattern.search(name) for _, pattern in FUSED_ATTENTION):
        return "fused attention"
    if LAYOUT.search(name) or TURNED.search(name):
        return "layout copies"
    is_convolution = "conv" in operator or CONVOLUTION.search(name)
    if is_convolution and not NORM.search(name):
        return f"convolutions ({_arithmetic(name)})" if _arithmetic(name) else "convolutions"
    if OPTIMIZER.search(name):
        return "optimizer"
    if GEMM.search(name):
        return f"matrix products ({_arithmetic(name)})" if _arithmetic(name) else "matrix products"
    for words, pattern in (
        ("normalisation", NORM),
        ("indexing and embeddings", INDEX),
        ("reductions", REDUCTION),
        ("element by element", ELEMENTWISE),
    ):
        if pattern.search(name) or (words == "normalisation" and "norm" in operator):
            return words
    return "compiled by Triton" if name.startswith("triton_") else "other"


def _arithmetic(name: str) -> str:
    """ "fp8", "16 bits", "TF32" or "fp32"; "" where the name does not tell."""
    if FP8.search(name):
        return "fp8"
    if TF32.search(name):
        return "TF32"
    if HALF.search(name):
        return "16 bits"
    is_fp32 = FP32_GEMM.search(name) and not OTHER_ARITHMETIC.search(name)
    return "fp32" if is_fp32 or re.search(r"<float\b|scudnn|_sgemm|f32f32_f32f32", name) else ""
