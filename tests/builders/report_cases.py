"""The reports behind the golden files: one for each situation that a reader can meet."""

from __future__ import annotations

from msgspec.structs import replace
from report_builders import (
    TRAIN,
    change,
    evidence,
    finding,
    gain,
    gain_from,
    passed,
    recommendation,
    report,
    rule,
    run,
    skipped,
    step,
)

from autotune.model.evidence import Location, Setting
from autotune.model.finding import Recommendation
from autotune.model.outlook import (
    Comparison,
    DeviceSetup,
    MemoryBudget,
    MemoryPart,
    Outlook,
    Payback,
    Position,
    Restart,
    RestartForecast,
    RestartOption,
    ValueRange,
)
from autotune.model.report import Frame, Report
from autotune.model.rule import Effect, GainSpec, Severity

H100 = {
    "gpu_name": "H100",
    "num_gpus": 1,
    "gpu_memory_bytes": 80 * 2**30,
    "cpu_quota": 16.0,
    "host_cpus": 128,
    "cpu_name": "Xeon 8481C",
}
CONFIG = "/home/user/project/sft.yaml"


def full() -> Report:
    """The mockup: a TRL run on a GPU with one change that leaves training unchanged and two that do not."""
    return report(
        _checkpointing(),
        _padding(),
        _saves(),
        run=run(
            command=("trl", "sft", "--config", "sft.yaml"),
            wall_s=320.0,
            startup_s=190.0,
            planned_steps=7800,
            blocked=("wandb run", "hub push"),
            redirected=("checkpoint-10 (650 MB)",),
        ),
        step=step(
            backward=1670.0,
            forward=810.0,
            recompute=740.0,
            checkpoint=170.0,
            evaluation=120.0,
            optimizer=47.0,
            other=25.0,
            data_wait=22.0,
            h2d=7.0,
            logging=9.0,
        ),
        evidence=evidence(_FULL_FACTS, _FULL_SETTINGS),
        skipped=(
            skipped("DD006", "ranks.spread_share"),
            skipped("EN001", "machine.gpu_throttled_share"),
            skipped("CO001", "device.mean_kernel_us"),
            skipped("AT004", "device.attention_share", "device.mean_kernel_us"),
        ),
        passed=(
            *passed("PR002", "AT001", "PR001"),
            *passed("OP001", subject="optimizer#0"),
            *passed("DL001", "DL002", subject=TRAIN),
        ),
        price=2.5,
        machine=H100,
        software={
            "python": "3.11.9",
            "torch": "2.13.0",
            "trl": "1.16.0",
            "transformers": "5.23.0",
            "peft": "0.19.0",
        },
    )


_FULL_FACTS = {
    "run": {
        "run.framework": "trl",
        "run.world_size": 1,
        "step.noise_share": 0.008,
        "device.type": "cuda",
        "device.busy_share": 0.93,
        "device.gemm_fp32_share": 0.004,
        "optimizer.step_share": 0.013,
    },
    TRAIN: {"loader.wait_share": 0.006, "loader.is_train": True},
    "optimizer#0": {"optimizer.type": "AdamW"},
}
_FULL_SETTINGS = (
    Setting("train.precision", "run", "bf16-mixed", "observed"),
    Setting("model.attention", "run", "sdpa", "observed"),
    Setting("optimizer.fused", "run", True, "observed"),
)


def _checkpointing() -> Recommendation:
    of = rule("ME001", "activation-checkpointing-with-free-memory", gain=gain_from("step.recompute_share"))
    return recommendation(
        1,
        finding(
            of,
            "peak 31 of 80 GiB; 58 GiB without it on the longest sample",
            change("train.activation_checkpointing", True, False, (CONFIG, 23), spelling="gradient_checkpointing"),
            gain=gain(1.26, 1.24, 1.28, saved_s=5827.0),
        ),
    )


def _padding() -> Recommendation:
    return recommendation(
        2,
        finding(
            rule("BA001", "padding-waste"),
            "31 % of the tokens in 200 batches are padding; length p50 410, p99 1,860",
            change(
                "data.group_by_length",
                None,
                "group_by_length",
                (CONFIG, 18),
                effect=Effect.ALTERING,
                spelling="train_sampling_strategy",
                note="the order of samples changes: losses will not match step by step",
            ),
            gain=gain(1.35, 1.25, 1.4, "modelled", 7300.0),
        ),
        after=gain(1.238, 1.2, 1.27, "modelled", 5440.0),
    )


def _saves() -> Recommendation:
    of = rule("CK001", "saves-cost-much", gain=gain_from("checkpoint.cost_share"))
    return recommendation(
        3,
        finding(
            of,
            "650 MiB at 38 MiB/s to the nfs4 output folder: 17.1 s every 100 steps",
            change(
                "checkpoint.interval_steps",
                100,
                500,
                (CONFIG, 31),
                effect=Effect.ALTERING,
                spelling="save_steps",
                note="a crash loses up to 500 steps, now 100",
            ),
            gain=gain(1.04, 1.03, 1.05, "modelled", 1080.0),
        ),
        after=gain(1.04, 1.03, 1.05, "modelled", 1080.0),
    )


def healthy() -> Report:
    """Nothing to report: every rule was looked at, training computes."""
    return report(
        run=run(planned_steps=1000),
        step=step(
            data_wait=1.0,
            h2d=0.0,
            forward=50.0,
            recompute=0.0,
            backward=100.0,
            optimizer=12.0,
            checkpoint=0.0,
            evaluation=0.0,
            logging=1.0,
            other=4.0,
        ),
        evidence=evidence(
            {
                "run": {"device.type": "cpu", "step.num_micro_batches": 1.0, "step.noise_share": 0.02},
                TRAIN: {
                    "loader.wait_share": 0.006,
                    "loader.is_train": True,
                    "loader.persistent_workers": True,
                },
            }
        ),
        passed=(*passed("PR001", "CP001"), *passed("DL001", "DL002", "DL004", "DL007", subject=TRAIN)),
    )


def skipped_only() -> Report:
    """Nothing could be decided: no rule had its facts."""
    return report(
        run=run(overhead_share=None, num_processes=2),
        step=step(forward=20.0, backward=40.0, other=40.0),
        skipped=(
            skipped("DL001", "loader.wait_share", subject=TRAIN),
            skipped("DL002", "loader.wait_share", "loader.batch_ms", "loader.workers_needed", subject=TRAIN),
            skipped("DD006", "ranks.spread_share"),
            skipped("EN009", "software.torch_age_days"),
            skipped("MS006", "run.planned_s"),
        ),
        machine={},
        software={},
    )


def out_of_memory() -> Report:
    """Died of memory in backward, before the first step."""
    return report(
        recommendation(
            1,
            finding(
                rule("ME002", "out-of-memory", severity=Severity.CRITICAL),
                "died in backward of micro-batch 32 x 2,048 tokens",
                change(
                    "loader.batch_size",
                    32,
                    8,
                    ("/home/user/project/train.py", 41),
                    spelling="per_device_train_batch_size",
                ),
                change(
                    "train.accumulation_steps",
                    1,
                    4,
                    ("/home/user/project/train.py", 41),
                    spelling="gradient_accumulation_steps",
                ),
            ),
        ),
        recommendation(
            2,
            finding(
                rule("ME009", "optimizer-state-in-full-precision"),
                "AdamW keeps 8 bytes for each of 7.2 billion parameters",
                advice=("Train an adapter (LoRA), or use an 8-bit optimizer.",),
            ),
        ),
        run=run(
            "out_of_memory",
            startup_s=None,
            num_steps=0,
            overhead_share=None,
            error="OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ),
        step=None,
        evidence=evidence(
            {
                "run": {
                    "memory.limit_bytes": 80 * 2**30,
                    "memory.peak_bytes": 79 * 2**30,
                    "memory.used_share": 0.9875,
                    "memory.failing_phase": "backward",
                    "memory.ran_out": True,
                }
            }
        ),
        machine=H100,
    )


def ended_early() -> Report:
    """Seven steps in all, the length of the run unknown: a gain that was measured may not be called so."""
    of = rule(gain=GainSpec("measured_ceiling", {}))
    return report(
        recommendation(
            1,
            finding(
                of,
                "the training process prepares the batches itself: 60 % of the step",
                change("loader.num_workers", 0, 2, ("/home/user/project/train.py", 30), spelling="num_workers"),
                subject=TRAIN,
                gain=gain(2.4, 2.2, 2.5, "measured"),
            ),
        ),
        run=run("ended_early", num_steps=7, warmup_steps=2, wall_s=9.0, startup_s=3.2),
        step=step(5, data_wait=60.0, forward=15.0, backward=20.0, optimizer=3.0, other=2.0),
    )


def raw_loop() -> Report:
    """A raw loop with DL001, a bound beside it, advice without an edit, and time that no phase explains."""
    return report(
        recommendation(
            1,
            finding(
                rule(gain=GainSpec("measured_ceiling", {})),
                "num_workers=0: 72 % of the step waits while this process prepares the batch (121 ms each)",
                change("loader.num_workers", 0, 2, ("/home/user/project/train.py", 23), spelling="num_workers"),
                subject=TRAIN,
                gain=gain(3.4, 3.1, 3.5, saved_s=1186.0),
            ),
            finding(rule("DL006", "tokenising-in-getitem"), "88 % of that time is in a tokenizer", subject=TRAIN),
        ),
        recommendation(
            2,
            finding(
                rule("SY006", "gc-collect-in-the-loop", gain=gain_from("calls.gc_share")),
                "gc.collect() once a step, 11 ms",
                advice=("Delete the call, or run it once an epoch: Python collects by itself.",),
                location=Location("/home/user/project/train.py", 57),
                gain=gain(1.07, 1.0, 1.07, "bound", 98.0),
            ),
        ),
        run=run(
            planned_steps=10_000,
            not_isolated=("writes to /data/log.txt (a file opened before the probe)",),
            notes=("the machine had a load of 3.1 before the run",),
        ),
        step=replace(
            step(data_wait=121.0, forward=12.0, backward=17.0, optimizer=2.0, checkpoint=0.0, other=16.0),
            other=(
                Frame("/home/user/project/train.py", 57, "train", 0.068),
                Frame("/opt/venv/lib/python3.11/site-packages/tqdm/std.py", 1181, "__iter__", 0.011),
            ),
        ),
        evidence=evidence(
            {"run": {"run.framework": "raw", "run.world_size": 1, "step.num_micro_batches": 1.0, "device.type": "cpu"}}
        ),
        skipped=(skipped("DD006", "ranks.spread_share"),),
        passed=passed("PR001"),
    )


def outlook() -> Report:
    """The mockup's job that runs already and is asked about: restart or finish, four devices instead of one."""
    gib = 2**30
    parts = (
        MemoryPart("weights", 15 * gib, "measured", "read off the parameters"),
        MemoryPart("gradients", 200 * 2**20, "modelled", "one per trained parameter, in its type"),
        MemoryPart("optimizer state", None, None, "what PagedAdamW keeps is not known; it is part of the rest"),
        MemoryPart("activations and the rest", 14 * gib, "modelled", "the rest of the measured peak"),
        MemoryPart("allocator cache", 2 * gib, "measured", "reserved beyond the peak of what was in use"),
        MemoryPart("headroom", 49 * gib, "measured", "limit minus peak"),
    )
    courses = (
        RestartForecast(RestartOption.FINISH, 23_892.0, 23_892.0, 23_892.0),
        RestartForecast(RestartOption.RESTART_NOW, 19_340.0, 18_900.0, 19_800.0, repeated_steps=60),
        RestartForecast(RestartOption.RESTART_AFTER_SAVE, 19_310.0, 18_870.0, 19_770.0, wait_steps=40),
    )
    ahead = Outlook(
        memory=MemoryBudget(parts, 31 * gib, 80 * gib, True),
        payback=Payback((1,), "measured", 28_236.0, 5827.0, 5467.0, 6176.0, 190.0, 255, 240, 271, 565.0),
        restart=Restart(
            Position(1200, 7800, 3.62),
            courses,
            RestartOption.RESTART_AFTER_SAVE,
            478.0,
            (1,),
            ("its bar counts micro-batches",),
            "measured",
        ),
        comparison=Comparison(
            (
                DeviceSetup("1, as it is", 1, _cell(31 * gib), _cell(0.0), _cell(3620.0), 2.5, "none", "none", True),
                DeviceSetup(
                    "4, DDP",
                    4,
                    ValueRange(85 * gib, 85 * gib, "modelled"),
                    ValueRange(16.0, 315.0, "assumed"),
                    ValueRange(937.0, 1240.0, "assumed"),
                    10.0,
                    "start it with torchrun",
                    "losses will not match step by step",
                    False,
                    80 * gib,
                ),
            ),
            7800,
            ("20 GB/s between devices, no latency (assumed; --bandwidth)", "$10.00 per hour for all 4"),
        ),
    )
    return replace(full(), outlook=ahead)


def _cell(value: float) -> ValueRange:
    return ValueRange(value, value, "measured")


CASES = {
    "full": full,
    "healthy": healthy,
    "skipped_only": skipped_only,
    "out_of_memory": out_of_memory,
    "ended_early": ended_early,
    "raw_loop": raw_loop,
    "outlook": outlook,
}
