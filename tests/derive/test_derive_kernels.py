"""Synthetic tables of kernels: the names are those that profiles of CUDA runs show, the times are made up."""

from __future__ import annotations

import pytest
from build import (
    LIBRARY,
    MS,
    USER,
    Script,
    batches,
    facts_of,
    kernels,
    launches,
    loader,
    on_host,
    recording,
    steps,
)

from autotune.derive import derive
from autotune.derive.kernels import attention, collective_of, fp32_products_ns, is_fp32_product
from autotune.engine.evaluate import evaluate
from autotune.engine.evidence import join
from autotune.engine.load import load_rules
from autotune.model.evidence import Fact
from autotune.model.recording import Event

CUDA = {"type": "cuda", "name": "synthetic", "capability": "9.0", "index": 0}
STEP_MS = 65

SIMT = "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(cutlass_80_simt_sgemm_256x128_8x4_nn_align1"
FLASH = (
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t"
)
CUDNN = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0"
EFFICIENT = "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t"
FLEX = "triton_tem_fused_flex_attention_0"
TEMPLATE = "triton_tem_fused_mm_3"
POINTWISE = "triton_poi_fused_add_gelu_2"
FUSED_SOFTMAX = "triton_per_fused__softmax_div_1"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, false, false>(float*, float const*"


@pytest.mark.parametrize(
    ("name", "operator", "expected"),
    [
        (SIMT, "aten::mm", True),
        ("ampere_sgemm_128x64_tn", "aten::addmm", True),
        ("volta_sgemm_128x32_sliced1x4_nn", "", True),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_ffma_aligna4_alignc4_kernel",
            "aten::mm",
            True,
        ),
        ("void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true, cublasGemvTensorStridedBatched<float", "", True),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_tensor16x8x8_kernel", "aten::mm", False),
        ("cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4", "aten::mm", False),
        ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "aten::mm", False),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_kernel", "aten::mm", False),
        ("nvjet_tst_128x192_64x4_1x2_h_bz_coopA_NNT", "aten::mm", False),
        ("volta_fp16_sgemm_fp16_128x64_tn", "aten::mm", False),
        ("implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1>", "aten::cudnn_convolution", False),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw_tilesize128x128x8_kernel", "", False),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>", "aten::add", False),
        ("void magma_sgemmEx_kernel<float, __half, __half, true, false, 6, 4, 6, 3, 4>(int, int, int", "", False),
        ("void magma_sgemmEx_kernel<float, __nv_bfloat16, float, false, false, 6, 4, 6, 3, 4>(int", "", False),
        ("void magma_sgemmEx_kernel<float, float, float, true, false, 6, 4, 6, 3, 4>(int, int, int", "", True),
    ],
)
def test_fp32_products_outside_tensor_cores(name, operator, expected):
    assert is_fp32_product(launches(name, 1, operator)) is expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([launches(FLASH, 3), launches(SIMT, 9)], ("flash", 3 * MS), id="PyTorch's flash"),
        pytest.param(
            [launches("void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<", 2)],
            ("flash", 2 * MS),
            id="the package",
        ),
        pytest.param(
            [launches("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<", 2)],
            ("flash", 2 * MS),
            id="flash-attn 3",
        ),
        pytest.param([launches(CUDNN, 4)], ("cudnn", 4 * MS), id="cuDNN, whose names say flash too"),
        pytest.param([launches(EFFICIENT, 4), launches(FLASH, 1)], ("efficient", 5 * MS), id="most of the time counts"),
        pytest.param(
            [launches(SOFTMAX, 1, "aten::_softmax"), launches("ampere_sgemm_128x64_tn", 2, "aten::bmm")],
            ("math", 3 * MS),
            id="softmax and batched products",
        ),
        pytest.param(
            [launches("cunn_SoftMaxForward<LogSoftMax", 1, "aten::_log_softmax"), launches(SIMT, 2, "aten::bmm")],
            (None, 0),
            id="the loss is no attention",
        ),
        pytest.param([launches(SOFTMAX, 1, "aten::_softmax"), launches(SIMT, 2, "aten::mm")], (None, 0), id="a gate"),
        pytest.param([], (None, 0), id="nothing"),
        pytest.param(
            [launches(FLEX, 3), launches(POINTWISE, 1), launches(SIMT, 9, "aten::mm")],
            (None, None),
            id="flex attention, which inductor compiles",
        ),
        pytest.param(
            [launches(FUSED_SOFTMAX, 3), launches(SIMT, 9, "aten::bmm")], (None, None), id="a softmax in Triton"
        ),
        pytest.param([launches(SOFTMAX, 3), launches(SIMT, 9)], (None, None), id="a CUDA graph names no operator"),
        pytest.param(
            [launches(FLASH, 3), launches(FUSED_SOFTMAX, 9)], ("flash", 3 * MS), id="a compiled model's flash"
        ),
        pytest.param([launches(POINTWISE, 5), launches(SIMT, 95, "aten::mm")], (None, 0), id="too little to hide it"),
        pytest.param([launches(NCCL, 50), launches(SIMT, 50, "aten::mm")], (None, 0), id="communication hides none"),
        pytest.param(
            [launches(SOFTMAX, 0.01, "aten::_softmax", 32), launches(SIMT, 9, "aten::bmm", 64)],
            (None, None),
            id="a router's softmax beside the products of experts",
        ),
    ],
)
def test_attention_by_its_backend(rows, expected):
    assert attention(rows) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([launches(TEMPLATE, 9)], None, id="inductor's own product"),
        pytest.param([launches("_grouped_gemm_kernel", 9)], None, id="a Triton kernel of the script's"),
        pytest.param([launches(TEMPLATE, 6), launches(SIMT, 94, "aten::mm")], None, id="more than a little"),
        pytest.param([launches(TEMPLATE, 5), launches(SIMT, 95, "aten::mm")], 95 * MS, id="a little"),
        pytest.param([launches(POINTWISE, 60), launches(SIMT, 40, "aten::mm")], 40 * MS, id="pointwise by its name"),
        pytest.param(
            [launches("ampere_sgemm_128x64_tn", 40), launches("nvjet_tst_128x192_64x4_1x2_h_bz_coopA_NNT", 60)],
            40 * MS,
            id="a CUDA graph's cuBLAS kernels by their names",
        ),
        pytest.param([launches(ELEMENTWISE, 9)], 0, id="no product"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_the_time_of_fp32_products(rows, expected):
    assert fp32_products_ns(rows) == expected


def test_of_compiled_kernels_without_an_operator_no_share_is_stated():
    facts = of(kernels(launches(FLEX, 30), launches(TEMPLATE, 30), launches(SIMT, 18, "aten::mm"), busy=78, end=100))
    assert not {"device.gemm_fp32_share", "device.attention_share", "device.attention_backend"} & set(facts)
    assert {"device.busy_share", "device.mean_kernel_us"} <= set(facts)


def of(table, **fields):
    return facts_of(script=steps(3), device=CUDA, kernels=table, **fields)


def test_shares_of_the_busy_time_and_of_the_measured_step():
    rows = (
        launches(SIMT, 60, "aten::mm", count=200),
        launches(FLASH, 18, count=100),
        launches("Memcpy HtoD (Pageable -> Device)", 13, "aten::copy_", kind="copy"),
        launches("Memcpy HtoD (Pinned -> Device)", 7, "aten::copy_", kind="copy"),
        launches("Memcpy DtoH (Device -> Pageable)", 2, "aten::copy_", kind="copy"),
        launches("Memset (Device)", 2, kind="fill"),
    )
    facts = of(kernels(*rows, busy=78, end=400, steps=2))
    # The profiled steps took 200 ms each: the share is of the 65 ms that a step takes without the profiler.
    assert facts["device.busy_share"] == pytest.approx(78 / (2 * STEP_MS))
    assert facts["device.pageable_share"] == pytest.approx(13 / (2 * STEP_MS))
    assert facts["device.gemm_fp32_share"] == pytest.approx(60 / 78)
    assert facts["device.attention_share"] == pytest.approx(18 / 78)
    assert facts["device.attention_backend"] == "flash"
    assert facts["device.mean_kernel_us"] == pytest.approx(78_000 / 300)


CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4"
TURNED = "void nchwToNhwcKernel<__half, __half, float, false, true>(cudnnKernelArgs"


def test_convolutions_and_the_tensors_that_they_turn():
    rows = (launches(CONVOLUTION, 30, "aten::cudnn_convolution"), launches(TURNED, 10, "aten::cudnn_convolution"))
    facts = of(kernels(*rows, launches(ELEMENTWISE, 40, "aten::add"), busy=80, end=100))
    assert facts["device.convolution_share"] == pytest.approx(0.5)
    assert facts["device.layout_share"] == pytest.approx(0.125)


@pytest.mark.parametrize(
    ("busy", "alone"),
    [(60, 20), (50, 10), (40, 0), (30, 0)],
    ids=["all of it", "half of it", "none", "busier than one"],
)
def test_communication_that_nothing_hides(busy: int, alone: int) -> None:
    facts = of(kernels(launches(NCCL, 20), launches(SIMT, 40, "aten::mm"), busy=busy, end=100))
    assert facts["device.communication_share"] == pytest.approx(alone / STEP_MS)
    assert facts.get("device.exposed_collective") == ("all-reduce" if alone else None)


@pytest.mark.parametrize(
    ("name", "operator", "kind"),
    [
        (NCCL, "", "all-reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "nccl:all_to_all", "all-to-all"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "", "send and receive"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", "nccl:_reduce_scatter_base", "reduce-scatter"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "nccl:_allgather_base", "all-gather"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "aten::copy_", "other"),
        ("multimem_all_reduce_kernel", "", "all-reduce"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", "", "broadcast"),
        ("void deep_ep::intranode::dispatch<8>", "", "all-to-all"),
    ],
)
def test_the_collective_of_a_kernel(name: str, operator: str, kind: str) -> None:
    assert collective_of({"name": name, "operator": operator, "kind": "kernel"}) == kind


def test_a_share_is_at_most_one_and_nothing_is_claimed_of_no_kernel():
    # All but the wait for batches, 10 of 65 ms.
    assert of(kernels(launches(SIMT, 90), busy=90, end=100))["device.busy_share"] == pytest.approx(55 / 65)
    facts = of(kernels(busy=0, end=100))
    assert facts["device.busy_share"] == 0.0
    assert not {"device.mean_kernel_us", "device.gemm_fp32_share", "device.attention_share"} & set(facts)


def test_without_a_window_kernels_say_nothing():
    facts = facts_of(device=CUDA, kernels=kernels(launches(SIMT, 9), busy=9, end=10))
    assert not [name for name in facts if name.startswith(("device.busy", "calls."))]


def call(library=False):
    return {"kind": "sync", "site": LIBRARY if library else USER, "in_window": 3, "is_library": library}


def idle_share(reads, idle, busy=39.0, others=(), library=False):
    """calls.user_sync_idle_share of one profiled step from 1000 ms on; reads and gaps are (start, end) in ms."""
    script = steps(3)
    script.events += [Event("sync", int(a * MS), int(b * MS), 0) for a, b in reads]
    script.events += [Event(kind, int(a * MS), int(b * MS)) for kind, a, b in others]
    table = kernels(launches(SIMT, busy), busy=busy, start=1000, end=1100, idle=idle)
    return facts_of(script=script, device=CUDA, kernels=table, calls=(call(library),))["calls.user_sync_idle_share"]


# Of the 65 ms of a step the device is busy for 39 and the loop waits 10 for data; of the profiled 100 ms, 61 are idle.
IDLE = (STEP_MS - 39 - 10) / STEP_MS


@pytest.mark.parametrize(
    ("reads", "idle", "expected_ms"),
    [
        pytest.param([(1010, 1040.1)], [(1040, 1060)], 20, id="a read that waited for the queue"),
        pytest.param([(1045, 1045.1)], [(1040, 1060)], 0, id="a read of a device that was idle already"),
        pytest.param(
            [(1010, 1040.1), (1041, 1052.1)], [(1040, 1050), (1052, 1060)], 18, id="a second read, idle from the first"
        ),
        pytest.param([(1010, 1040.1), (1045, 1046)], [(1040, 1060)], 20, id="two reads before one gap"),
        pytest.param([(1010, 1030)], [(1040, 1060)], 0, id="more work was queued behind the read"),
        pytest.param([(10, 20)], [(1040, 1060)], 0, id="a read of the window, long before"),
        pytest.param([], [(1040, 1060)], 0, id="no read"),
    ],
)
def test_idle_after_the_users_reads(reads, idle, expected_ms):
    assert idle_share(reads, idle) == pytest.approx(IDLE * expected_ms / 61)


def test_a_librarys_reads_are_not_the_users():
    assert idle_share([(1010, 1040.1)], [(1040, 1060)], library=True) == 0.0


def test_waiting_for_data_after_a_read_is_no_cost_of_the_read():
    others = [("fetch", 1042, 1052), ("h2d", 1052, 1055), ("forward", 1055, 1090)]
    assert idle_share([(1010, 1040.1)], [(1040, 1060)], others=others) == pytest.approx(IDLE * 7 / (61 - 13))


def test_a_busy_device_has_no_idle_time_to_blame():
    assert idle_share([(1010, 1040.1)], [(1040, 1060)], busy=80.0) == 0.0


LAUNCHING = [on_host("aten::linear", 1045, 1075, place="model.py:3 (forward)")]


SHORT = [(at, at + 0.9) for at in range(1040, 1079)]
"""Gaps, 35 ms in all."""


def synthetic(rows, busy, pinned=False, host=LAUNCHING, library=False, idle=((1040, 1079),), **fields):
    """A synthetic CUDA Recording of steps of 65 ms, nothing that was measured."""
    script = Script()
    for _ in range(6):
        script.step(fetch=1, forward=24, backward=35)
    script.events += [Event("sync", 1010 * MS, 1040 * MS, 0)]
    return recording(
        script,
        device=CUDA,
        kernels=kernels(*rows, busy=busy, start=1000, end=1080, idle=idle, host=host),
        calls=(call(library),),
        loaders=(loader(arguments={"pin_memory": pinned}),),
        **fields,
    )


FP32 = (launches(SIMT, 30, "aten::mm", 4000), launches("elementwise_kernel<128, 2, at::native::gpu_kernel_impl", 9))
PAGEABLE = launches("Memcpy HtoD (Pageable -> Device)", 3, "aten::copy_", kind="copy")
MATH = (launches(SOFTMAX, 8, "aten::_softmax"), launches("ampere_bf16_s16816gemm_bf16_64x64_tn", 9, "aten::bmm"))
FUSED = launches(EFFICIENT, 30, "aten::_efficient_attention_forward")
EAGER = {"attention": "eager", "supports_sdpa": True, "output_attentions": False}


def fired(one, *more):
    derived = derive([one])
    evidence = join([*derived.facts, *more], derived.settings)
    return {each.rule.id for each in evaluate(load_rules(), evidence).findings}


@pytest.mark.parametrize(
    ("rule", "one"),
    [
        ("PR001", synthetic(FP32, busy=39)),
        ("PR002", synthetic(FP32, busy=39)),
        ("DL004", synthetic((*FP32, PAGEABLE), busy=39)),
        ("SY001", synthetic(FP32, busy=39)),
        ("CO001", synthetic(FP32, busy=39, idle=SHORT)),
        ("SY018", synthetic(FP32, busy=39, host=[on_host("cudaStreamSynchronize", 1030, 1041, "sync")], library=True)),
    ],
)
def test_a_rule_reads_what_the_kernels_say(rule, one):
    assert rule in fired(one)


def test_a_long_gap_is_work_of_the_host_and_not_a_launch():
    one = synthetic(FP32, busy=39)
    assert "CO001" not in fired(one)
    parts = derive([one]).devices[0].idle
    assert {part.kind for part in parts} == {"host"}
    assert [(part.name, part.place) for part in parts if part.name] == [("aten::linear", "model.py:3 (forward)")]


def test_gaps_in_which_one_operator_follows_another_are_for_launches():
    """Programs that share a GPU compute in turns: such a gap is longer than a launch, and the host is not its cause."""
    short = [on_host("aten::linear", at, at + 0.9) for at in range(1000, 1081)]
    parts = derive([synthetic(FP32, busy=39, host=short)]).devices[0].idle
    assert {part.kind for part in parts} == {"operator", "python"}


def test_the_same_rules_are_silent_where_the_kernels_say_otherwise():
    rows = (launches("nvjet_tst_128x192_64x4_1x2_h_bz_coopA_NNT", 63, "aten::mm", 9),)
    one = synthetic(rows, busy=63, pinned=True, host=None)
    assert not fired(one) & {"PR001", "PR002", "DL004", "CO001", "AT001", "AT004"}


def test_the_attention_rules_read_the_backend():
    script = steps(3)
    model = recording(script).models[0]
    eager = synthetic(MATH, busy=39, models=({**model, **EAGER},))
    assert "AT001" in fired(eager)
    sdpa = synthetic(
        (FUSED,),
        busy=39,
        models=({**model, **EAGER, "attention": "sdpa", "dtypes": {"bfloat16": 9}},),
        batches=batches([(3, 9), (4, 9)] * 8),
    )
    assert "AT004" in fired(sdpa, Fact("software.has_flash_attn", "run", True))


WRITTEN = (
    launches(SOFTMAX, 8, "aten::_softmax"),
    launches("ampere_sgemm_128x64_tn", 20, "aten::bmm"),
    launches(ELEMENTWISE, 9, "aten::add"),
)
NO_MODEL_TELLS = {"models": ({**recording(steps(3)).models[0], "attention": None},)}


def test_waits_for_batches_that_the_profiled_steps_lack_are_not_busy():
    """The workers have filled their queue while the window was closed: the profile waits for nothing."""
    script = Script()
    for _ in range(6):
        script.step(fetch=301, forward=24, backward=35)
    facts = facts_of(script=script, device=CUDA, kernels=kernels(launches(SIMT, 55), busy=55, start=5000, end=5065))
    assert facts["step.data_wait_share"] + facts["device.busy_share"] < 1
    assert facts["device.busy_share"] == pytest.approx((1 - facts["step.data_wait_share"]) * 55 / 64, abs=0.01)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ([on_host("aten::matmul", 1000, 1001)], True),
        ([on_host("aten::scaled_dot_product_attention", 1000, 1001)], False),
    ],
    ids=["written out", "torch's own function without a fused kernel"],
)
def test_attention_is_written_out_where_torchs_function_was_not_called(host, expected):
    assert ("AT011" in fired(synthetic(WRITTEN, busy=37, host=host, **NO_MODEL_TELLS))) is expected


def test_of_a_model_that_states_its_attention_and_of_a_trace_nothing_is_known():
    model = {"models": ({**recording(steps(3)).models[0], **EAGER},)}
    assert "AT011" not in fired(synthetic(WRITTEN, busy=37, **model))
    facts = {fact.name for fact in derive([synthetic(WRITTEN, busy=37, **model)]).facts}
    assert "device.scores_share" not in facts


def test_the_name_of_another_wait_is_not_that_of_the_scripts_own_reads():
    """40 ms idle after the script's own read, 9 ms after a mask."""
    host = [
        on_host(
            "cudaStreamSynchronize",
            1020,
            1039.5,
            "sync",
            operator="aten::_local_scalar_dense",
            place="train.py:26 (main)",
        ),
        on_host("cudaMemcpyAsync", 1085, 1090.5, "sync", operator="aten::nonzero", place="train.py:31 (main)"),
    ]
    script = Script()
    for _ in range(3):
        script.step(fetch=1, forward=50, backward=60)
    script.events += [Event("sync", 1010 * MS, 1040 * MS, 0)]
    table = kernels(launches(SIMT, 55), busy=55, start=1000, end=1110, idle=[(1039, 1080), (1090, 1100)], host=host)
    facts = facts_of(script=script, device=CUDA, kernels=table, calls=(call(),))
    assert facts["calls.user_sync_idle_share"] > facts["device.other_sync_idle_share"] > 0
    assert facts["device.other_sync_idle_at"] == "aten::nonzero (cudaMemcpyAsync) in train.py:31 (main)"
