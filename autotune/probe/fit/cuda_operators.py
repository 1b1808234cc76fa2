"""What CUDA's operators keep for backward where those of the host keep something else.

Autocast's lists are those of `at::autocast` for CUDA (ATen/autocast_mode.h of torch 2.13, AT_FORALL_FP32,
AT_FORALL_FP32_SET_OPT_DTYPE): the host's has neither softmax nor layer_norm in fp32. Dropout keeps a mask of one byte,
and fused attention with dropout stays fused.
"""

from __future__ import annotations

import functools
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..patches import Patches

FP32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal", "rsqrt", "sinh",
    "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus", "layer_norm", "native_layer_norm",
    "rms_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm", "nuclear_norm.dim", "cosine_similarity",
    "poisson_nll_loss", "cosine_embedding_loss", "nll_loss", "nll_loss2d", "hinge_embedding_loss", "kl_div", "l1_loss",
    "smooth_l1_loss", "huber_loss", "mse_loss", "margin_ranking_loss", "multilabel_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "binary_cross_entropy_with_logits", "dist", "pdist", "cdist", "renorm",
    "logsumexp", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_linear1d",
    "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "norm.Scalar", "norm.ScalarOpt_dim",
)  # fmt: skip
"""Their inputs are cast to fp32."""

FP32_UNLESS_ASKED = (
    "prod", "prod.dim_int", "softmax.int", "log_softmax.int", "cumprod", "cumsum", "linalg_vector_norm",
    "linalg_matrix_norm", "linalg_matrix_norm.str_ord", "sum", "sum.dim_IntList",
)  # fmt: skip
"""Their result is fp32 unless the call names a type."""

LOWER = ("einsum", "prelu", "addmv", "addr", "mv", "chain_matmul", "linalg_multi_dot", "conv_tbc")
"""Products in the lower precision that the host's list leaves out."""

KEY = "AutocastCPU"


def install(patches: Patches) -> None:
    """Give the host's operators CUDA's behaviour, until `patches` are restored."""
    import torch

    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is replaced
        for name in FP32:
            _register(library, name, _to_fp32, KEY)
        for name in FP32_UNLESS_ASKED:
            _register(library, name, _asking_for_fp32, KEY)
        for name in LOWER:
            _register(library, name, _to_lower, KEY)
        library.impl("dropout", _dropout, "AutogradCPU")
        library.impl("scaled_dot_product_attention", _attention, "AutogradCPU")
    patches.on_restore(library._destroy)


def _register(library: Any, name: str, make: Any, key: str) -> None:
    import torch

    packet, _, overload = name.partition(".")
    found = getattr(torch.ops.aten, packet, None)
    called = getattr(found, overload or "default", None) if found is not None else None
    if called is not None:
        library.impl(name, make(called), key)


def _below_autocast() -> Any:
    import torch

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ExcludeDispatchKeyGuard(keys)


def _cast(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        is_cast = value.is_floating_point() and value.dtype != torch.float64 and value.dtype != dtype
        return value.to(dtype) if is_cast else value
    return [_cast(each, dtype) for each in value] if isinstance(value, (list, tuple)) else value


def _to_fp32(called: Any) -> Any:
    import torch

    @functools.wraps(called)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return called(
                *(_cast(each, torch.float32) for each in args),
                **{key: _cast(value, torch.float32) for key, value in kwargs.items()},
            )

    return kernel


def _asking_for_fp32(called: Any) -> Any:
    import torch

    places = [argument.name for argument in called._schema.arguments]

    @functools.wraps(called)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        index = places.index("dtype") if "dtype" in places else -1
        given = kwargs.get("dtype") if index < 0 or index >= len(args) else args[index]
        first = args[0]
        is_lower = first.is_floating_point() and first.dtype in (torch.float16, torch.bfloat16)
        with _below_autocast():
            if given is None and is_lower and index >= 0:
                if index < len(args):
                    args = (*args[:index], torch.float32, *args[index + 1 :])
                else:
                    kwargs = {**kwargs, "dtype": torch.float32}
            return called(*args, **kwargs)

    return kernel


def _to_lower(called: Any) -> Any:
    import torch

    @functools.wraps(called)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _below_autocast():
            return called(*(_cast(each, torch.get_autocast_dtype("cpu")) for each in args), **kwargs)

    return kernel


def _dropout(tensor: Any, p: float, train: bool) -> Any:
    """CUDA's dropout keeps a mask of one byte for each element; the host's a float."""
    import torch

    return torch.native_dropout(tensor, p, train)[0] if train and p > 0 else tensor


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Flash or memory-efficient attention, whose dropout keeps a seed alone; the product written out in fp64.

    A mask of truth values becomes one of numbers, as on CUDA. For one that learns the host writes out the
    product, which takes more than CUDA's does.
    """
    import torch

    is_fused = query.dim() == 4 and query.is_floating_point() and query.dtype != torch.float64
    learns = attn_mask is not None and attn_mask.requires_grad
    if not is_fused or learns or query.shape[-1] != value.shape[-1]:
        return torch.ops.aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype)
    elif attn_mask is not None:
        attn_mask = attn_mask.to(query.dtype)
    if enable_gqa and key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale
    )[0]
