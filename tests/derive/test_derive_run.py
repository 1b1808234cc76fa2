from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from build import (
    GB,
    LIBRARY,
    MS,
    NO_GRAD,
    USER,
    Script,
    batches,
    facts_of,
    fetches,
    kernels,
    launches,
    loader,
    model,
    on_host,
    optimizer,
    recording,
    sample,
    settings_of,
    steps,
    what_if,
)
from msgspec.structs import replace

from autotune import catalogue
from autotune.catalogue import SettingSpelling
from autotune.derive import derive, subjects
from autotune.derive.memory import requested_bytes
from autotune.model.evidence import Location
from autotune.model.recording import Averaging, Batch, StartUp, StartUpTime

CUDA = {"type": "cuda", "name": "H100", "capability": "9.0", "index": 0}
CATALOGUE = Path(__file__).parents[2] / "autotune" / "catalogue"


def entry(kind="TrainingArguments", module="transformers.training_args", **values):
    return {"type": kind, "module": module, "site": USER | {"line": 30}, "values": values}


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        ({}, "raw"),
        ({"accelerator": entry()}, "accelerate"),
        ({"hf_args": entry(), "accelerator": entry()}, "hf_trainer"),
        ({"hf_args": entry("SFTConfig", "trl.trainer.sft_config")}, "trl"),
        ({"lightning": entry()}, "lightning"),
        ({"fabric": entry()}, "fabric"),
    ],
)
def test_framework(frameworks, expected):
    assert facts_of(frameworks=frameworks)["run.framework"] == expected


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (["trl.SFTTrainer", "trl.BaseTrainer", "transformers.Trainer"], True),
        (["train.MyTrainer", "trl.SFTTrainer", "transformers.Trainer"], True),
        (["trl.GKDTrainer", "trl.SFTTrainer", "transformers.Trainer"], False),
        (["trl.DPOTrainer", "transformers.Trainer"], False),
        (["llamafactory.CustomDPOTrainer", "trl.DPOTrainer", "transformers.Trainer"], False),
        (["llamafactory.CustomSeq2SeqTrainer", "transformers.Seq2SeqTrainer", "transformers.Trainer"], True),
        (["axolotl.AxolotlRewardTrainer", "trl.RewardTrainer", "transformers.Trainer"], False),
        (["transformers.Trainer"], False),
        (["mine.SFTTrainer", "transformers.Trainer"], False),
    ],
)
def test_which_trainers_can_pack(classes, expected):
    assert facts_of(frameworks={"hf_args": entry(), "hf_trainer": entry(classes=classes)})["run.can_pack"] is expected


def test_where_no_trainer_was_seen_nothing_is_known_of_packing():
    assert "run.can_pack" not in facts_of(frameworks={"hf_args": entry("SFTConfig", "trl.trainer.sft_config")})


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        pytest.param({}, (None, None), id="raw: unknown"),
        pytest.param({"hf_args": entry(max_steps=50, num_train_epochs=3.0)}, (50, 2.0), id="steps win over epochs"),
        pytest.param({"hf_args": entry(max_steps=-1, num_train_epochs=3.0)}, (75, 3.0), id="epochs"),
        pytest.param({"hf_args": entry(max_steps=-1, num_train_epochs=0.5)}, (13, 0.5), id="half an epoch"),
        pytest.param({"lightning": entry(max_steps=-1, max_epochs=2)}, (50, 2.0), id="lightning"),
        pytest.param({"lightning": entry(max_steps=-1, max_epochs=-1)}, (None, None), id="for ever"),
        pytest.param({"lightning": entry(estimated_stepping_batches=40, max_epochs=2)}, (40, 2.0), id="as estimated"),
    ],
)
def test_planned_length(frameworks, expected):
    facts = facts_of(script=steps(3, micros=4), frameworks=frameworks)
    assert (facts.get("run.num_planned_steps"), facts.get("run.num_planned_epochs")) == expected
    assert facts.get("run.planned_s") == (None if expected[0] is None else pytest.approx(expected[0] * 0.245))


def test_models_that_only_evaluate_are_not_counted():
    script = steps(3)
    script.forward(5, NO_GRAD, model=1)
    models = (
        model(0, type="Net", num_batchnorm=2, compiled=True),
        model(1, type="Teacher", num_params=10**9, dtypes={"bfloat16": 10**9}),
    )
    facts = facts_of(script=script, models=models)
    assert (facts["model.type"], facts["model.num_params"], facts["model.dtype"]) == ("Net", 1000, "float32")
    assert (facts["model.has_batchnorm"], facts["run.compiled"], facts["model.is_remote_code"]) == (True, True, False)
    assert "model.supports_sdpa" not in facts


def test_remote_code_and_transformers_facts():
    remote = model(module="transformers_modules.org.model", has_native_class=False, supports_sdpa=True)
    facts = facts_of(script=steps(2), models=(remote | {"output_attentions": False},))
    assert facts["model.is_remote_code"] is True
    assert (facts["model.has_native_class"], facts["model.outputs_attentions"]) == (False, False)


def test_switches_of_torch():
    state = {"autocast": "torch.bfloat16", "grad_scaler": False, "clips_scaled": True, "legacy_amp": False}
    compiled = {"graph_breaks": 0, "recompiles_at_start": 2, "recompiles_at_end": 5}
    facts = facts_of(torch_state=state, compile=compiled)
    assert (facts["run.autocast"], facts["run.grad_scaler"], facts["run.clips_scaled_gradients"]) == (
        "bfloat16",
        False,
        True,
    )
    assert (facts["run.num_graph_breaks"], facts["run.num_recompiles_in_window"]) == (0, 3)
    assert "run.num_compiling_steps" not in facts, "an older recording"
    assert facts_of(compile=compiled | {"compiling_steps": 4})["run.num_compiling_steps"] == 4
    assert "env.omp_num_threads" not in facts
    assert facts_of(environment={"OMP_NUM_THREADS": ""})["env.omp_num_threads"] == ""


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({}, False, id="accelerate's fp16 without any scaler"),
        pytest.param({"software": {"torch": "2.13.0", "deepspeed": "0.18"}}, None, id="DeepSpeed scales by itself"),
        pytest.param({"models": (model(type="DeepSpeedEngine"),)}, None, id="wrapped in an engine"),
        pytest.param({"models": (model(parallel="DeepSpeedEngine"),)}, None, id="an engine around it"),
        pytest.param(
            {"software": {"deepspeed": "0.18"}, "torch_state": {"grad_scaler": True}}, True, id="a scaler was seen"
        ),
        pytest.param(
            {
                "software": {"deepspeed": "0.18"},
                "torch_state": {"grad_scaler": False, "autocast": "float16"},
                "frameworks": {},
            },
            False,
            id="a raw loop, deepspeed merely imported",
        ),
        pytest.param(
            {"software": {"deepspeed": "0.18"}, "torch_state": {"grad_scaler": False, "autocast": "bfloat16"}},
            False,
            id="bf16 has nothing to scale",
        ),
    ],
)
def test_engines_scale_losses_by_themselves(changed, expected):
    told = {"frameworks": {"accelerator": entry("Accelerator", mixed_precision="fp16")}}
    given = {"script": steps(2), "torch_state": {"grad_scaler": False}, **told, **changed}
    assert facts_of(**given).get("run.grad_scaler") is expected


@pytest.mark.parametrize(
    ("frameworks", "expected"),
    [
        ({}, (False, "default")),
        ({"hf_args": entry()}, (False, "default")),
        ({"hf_args": entry("SFTConfig", "trl.trainer.sft_config", packing=True)}, (True, "observed")),
        ({"hf_args": entry("DPOConfig", "trl.trainer.dpo_config")}, (False, "default")),
    ],
)
def test_packing(frameworks, expected):
    row = settings_of(script=steps(2), frameworks=frameworks)["run", "data.packing"]
    assert (row.value, row.origin) == expected
    assert (row.location is None) == (expected[1] == "default")


def call(kind, in_window, is_library=False):
    return {"kind": kind, "site": USER, "count": 9, "in_window": in_window, "total_ns": 1, "is_library": is_library}


def test_calls_in_the_step_path():
    script = Script()
    for _ in range(3):
        script.step()
        script.run("empty_cache", 13, 0)
        script.end_step()
    calls = (
        call("empty_cache", 4),
        call("empty_cache", 6, True),
        call("gc", 0),
        call("sync", 10),
        call("sync", 5, True),
    )
    facts = facts_of(script=script, calls=calls)
    assert facts["calls.empty_cache_per_step"] == 2.0
    assert facts["calls.empty_cache_share"] == pytest.approx(39 / (3 * 78 - 65))
    assert facts["calls.empty_cache_by_library"] is True
    assert (facts["calls.gc_per_step"], facts["calls.gc_share"]) == (0.0, 0.0)
    assert "calls.gc_by_library" not in facts
    assert "calls.user_syncs_per_step" not in facts
    assert facts_of(script=script, calls=calls, device=CUDA)["calls.user_syncs_per_step"] == 2.0


def test_device():
    assert facts_of()["device.type"] == "cpu"
    # A step takes 65 ms, 26 of them the profiled kernels.
    facts = facts_of(script=steps(2), device=CUDA, kernels=kernels(launches("copy_kernel", 26), busy=26, end=80))
    assert (facts["device.capability"], facts["device.busy_share"]) == ((9, 0), 0.4)
    assert "device.attention_backend" not in facts
    assert not [name for name in facts_of(script=steps(2), device=CUDA) if name.startswith("device.busy")]


def test_memory_of_a_cpu_run():
    facts = facts_of(script=steps(2), limits={"memory_limit_bytes": 8 * GB})
    assert (facts["memory.peak_bytes"], facts["memory.used_share"]) == (2 * GB, 0.25)
    assert facts["memory.ran_out"] is False
    assert not [name for name in facts if "recompute" in name or "retries" in name]
    assert "memory.used_share" not in facts_of(script=steps(2))


def test_memory_of_a_cuda_run_is_the_devices():
    memory = {"peak_allocated_bytes": 24 * GB, "peak_reserved_bytes": 30 * GB}
    memory |= {"total_bytes": 80 * GB, "num_alloc_retries": 0}
    facts = facts_of(script=steps(2), device=CUDA, memory=memory, limits={"memory_limit_bytes": GB})
    assert (facts["memory.limit_bytes"], facts["memory.used_share"]) == (80 * GB, 0.375)
    assert facts["memory.num_alloc_retries"] == 0
    assert facts["memory.fragmented_share"] == pytest.approx(0.2)


def checkpointed(segments: int) -> Script:
    script = Script()
    for _ in range(3):
        script.fetch(10)
        script.forward(20)
        with script.inside("backward"):
            for _ in range(segments):
                script.run("recompute", 5)
        script.update()
    return script


@pytest.mark.parametrize(
    ("segments", "limit", "expected"),
    [
        pytest.param(3, 10, 0.5, id="2 GB + 3 x 1 GB of 10"),
        pytest.param(3, 5, 1.0, id="just fits"),
        pytest.param(4, 5, None, id="a bound above the limit decides nothing"),
        pytest.param(0, 10, None, id="nothing is recomputed"),
    ],
)
def test_memory_without_recomputation(segments, limit, expected):
    facts = facts_of(script=checkpointed(segments), limits={"memory_limit_bytes": limit * GB})
    assert facts.get("memory.without_recompute_share") == expected


def test_parameters_are_no_activations():
    memory = {"peak_reserved_bytes": 30 * GB, "total_bytes": 80 * GB}
    facts = facts_of(script=checkpointed(4), device=CUDA, memory=memory, models=(model(param_bytes=20 * GB),))
    assert facts["memory.without_recompute_share"] == 70 / 80


OUT_OF_MEMORY = {"type": "RuntimeError", "message": "you tried to allocate 400 bytes.", "traceback": []}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes. Error code 12", 400),
        ("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has", 2 * 2**30),
        ("std::bad_alloc", None),
    ],
)
def test_what_the_failed_allocation_asked_for(message, expected):
    assert requested_bytes(message) == expected


def test_out_of_memory_before_a_step():
    facts = facts_of(
        outcome="out_of_memory",
        error=OUT_OF_MEMORY | {"phase": "backward"},
        device=None,
        limits={"memory_limit_bytes": 4 * GB},
    )
    assert (facts["memory.ran_out"], facts["memory.failing_phase"]) == (True, "backward")
    assert facts["memory.used_share"] == 0.5


@pytest.mark.parametrize(("made", "phase"), [(0, "start-up"), (3, "other")])
def test_memory_that_runs_out_in_a_closure_does_so_in_no_phase(made, phase):
    facts = facts_of(script=steps(made), outcome="out_of_memory", error=OUT_OF_MEMORY | {"phase": "closure"})
    assert facts["memory.failing_phase"] == phase


def micro(factor, ms, samples=None, tokens=None, peak=None, outcome="completed"):
    result = {"micro_ns": [m * MS for m in ms], "samples": samples, "tokens": tokens, "peak_bytes": peak}
    return what_if("micro_batch", {"factor": factor}, outcome, **(result if outcome == "completed" else {}))


@pytest.mark.parametrize(("profiled", "expected"), [(3, True), (2, False), (0, False), (None, None)])
def test_a_profiler_that_records_every_step(profiled, expected):
    state = {} if profiled is None else {"profiled_steps": profiled}
    assert facts_of(script=steps(4), torch_state=state).get("run.is_profiled") is expected


def test_replay():
    replay = what_if("replay", {"num_batches": 4}, step_ns=[40 * MS, 50 * MS, 60 * MS])
    facts = facts_of(script=steps(3), what_ifs=(replay,))
    assert facts["replay.step_ms"] == 50.0
    assert 40 <= facts["replay.low_ms"] < 50 < facts["replay.high_ms"] <= 60
    short = what_if("replay", {"num_batches": 4}, step_ns=[40 * MS, 50 * MS])
    assert facts["replay.was_measured"] is True
    facts = facts_of(script=steps(3), what_ifs=(short,))
    nothing = {
        "replay.was_measured": False,
        "replay.determinism_was_tried": False,
        "replay.more_threads_were_tried": False,
    }
    assert {n: v for n, v in facts.items() if n.startswith("replay.")} == nothing


def test_batch_curve_through_todays_and_a_double_batch():
    tried = (micro(1, [50] * 5, tokens=16, samples=2), micro(2, [90] * 5, tokens=32, samples=4, peak=6 * GB))
    given = {"script": steps(3), "batches": batches([(4, 8)] * 2), "what_ifs": tried}
    facts = facts_of(**given, limits={"memory_limit_bytes": 8 * GB})
    assert facts["batch_curve.fixed_ms"] == pytest.approx(10.0)
    assert facts["batch_curve.per_unit_ms"] == pytest.approx(2.5)
    assert facts["batch_curve.units"] == 16
    assert facts["batch_curve.fixed_share"] == pytest.approx(0.2)
    assert facts["batch_curve.error_share"] == pytest.approx(0.0, abs=1e-12)
    assert (facts["batch_curve.double_ran_out"], facts["batch_curve.double_used_share"]) == (False, 0.75)


def test_todays_micro_batch_comes_from_the_replay():
    replay = what_if("replay", {"num_batches": 4}, step_ns=[105 * MS] * 4, update_ns=[5 * MS] * 4)
    tried = (replay, micro(2, [90] * 5, samples=4))
    facts = facts_of(script=steps(3, micros=2), batches=batches([(4, 8)] * 2), what_ifs=tried)
    # (105 - 5) / 2 = 50 ms for 2 samples, 90 ms for 4.
    assert facts["batch_curve.fixed_ms"] == pytest.approx(10.0)
    assert facts["batch_curve.per_unit_ms"] == pytest.approx(20.0)


def test_half_a_batch_is_for_where_twice_does_not_fit():
    half, same = micro(0.5, [40] * 3, samples=1), micro(1, [50] * 3, samples=2)
    given = {"script": steps(3), "batches": batches([(4, 8)] * 2)}
    ran_out = facts_of(**given, what_ifs=(half, same, micro(2, (), outcome="out_of_memory")))
    assert ran_out["batch_curve.fixed_ms"] == pytest.approx(30.0)
    fitted = facts_of(**given, what_ifs=(half, same, micro(2, [90] * 3, samples=4)))
    assert fitted["batch_curve.fixed_ms"] == pytest.approx(10.0)


def test_of_a_round_that_was_cut_the_replay_is_todays():
    replay = what_if("replay", {"num_batches": 4}, step_ns=[70 * MS] * 4, micro_ns=[50 * MS] * 4)
    tried = (replay, micro(1, [80] * 2, samples=2), micro(2, [90] * 3, samples=4))
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=tried)
    assert facts["batch_curve.fixed_ms"] == pytest.approx(10.0)


def test_a_round_in_which_the_machine_was_slow_was_slow_for_both_sizes():
    rounds = (micro(1, [30, 30], samples=2), micro(2, [45, 45], samples=4), micro(1, [60, 60], samples=2))
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=(*rounds, micro(2, [90] * 2, samples=4)))
    # Half of 45 ms does not depend on the size, in both rounds.
    assert facts["batch_curve.fixed_share"] == pytest.approx(0.5)
    assert facts["batch_curve.error_share"] == pytest.approx(0.0, abs=1e-12)


def test_rounds_that_differ_are_noise():
    rounds = (micro(1, [30, 30], samples=2), micro(2, [45, 45], samples=4), micro(1, [30, 30], samples=2))
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=(*rounds, micro(2, [75] * 2, samples=4)))
    assert facts["batch_curve.fixed_share"] == pytest.approx(0.0)
    # 60 ms give or take 15 for the double, none for today's 30: a mean of 7.5 of 45 ms.
    assert facts["batch_curve.error_share"] == pytest.approx(7.5 / 45)


@pytest.mark.parametrize(
    "tried",
    [
        pytest.param((micro(2, [90] * 3, samples=4),), id="one size"),
        pytest.param((micro(0.5, [30] * 5, samples=1), micro(2, [90] * 2, samples=4)), id="one size, one tried twice"),
        pytest.param((micro(2, (), outcome="out_of_memory"),), id="out of memory"),
    ],
)
def test_no_batch_curve(tried):
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=tried)
    assert facts["batch_curve.was_measured"] is False
    assert not [
        name for name in facts if name.startswith("batch_curve.") and "was" not in name and "double" not in name
    ]


@pytest.mark.parametrize(
    ("tried", "expected"),
    [
        pytest.param((), (False, None, None), id="not tried"),
        pytest.param((micro(0.5, [30] * 3, samples=1),), (False, None, None), id="only a half"),
        pytest.param((micro(2, [90] * 3, samples=4, peak=6 * GB),), (True, False, 0.75), id="fits"),
        pytest.param((micro(2, (), outcome="out_of_memory"),), (True, True, None), id="does not fit"),
        pytest.param((micro(2, (), outcome="failed"),), (False, None, None), id="failed for another reason"),
    ],
)
def test_whether_twice_the_micro_batch_fits(tried, expected):
    facts = facts_of(script=steps(3), what_ifs=tried, limits={"memory_limit_bytes": 8 * GB})
    names = ("double_was_tried", "double_ran_out", "double_used_share")
    assert tuple(facts.get(f"batch_curve.{name}") for name in names) == expected


def test_what_twice_the_micro_batch_needs_where_it_was_left_out_for_that():
    left_out = what_if("micro_batch", {"factor": 2}, "left_out", needed_bytes=9 * GB)
    facts = facts_of(script=steps(3), what_ifs=(left_out,))
    assert facts["batch_curve.double_needs_bytes"] == 9 * GB
    assert (facts["batch_curve.double_left_out"], facts["batch_curve.double_was_tried"]) == (True, False)
    assert "batch_curve.double_ran_out" not in facts


def test_one_of_two_loaders_of_a_step_was_resized_and_not_the_step():
    script = Script()
    for _ in range(4):
        script.fetch(5, loader=1)
        script.step()
    tried = (micro(0.5, [30] * 5, samples=1), micro(2, [90] * 5, samples=4), what_if("narrow_batch", micro_ns=[9] * 3))
    replay = what_if("replay", {}, step_ns=[50 * MS] * 3, update_ns=[5 * MS] * 3)
    given = {"script": script, "batches": batches([(4, 8)] * 2), "what_ifs": (replay, *tried)}
    facts = facts_of(**given, loaders=(loader(0), loader(1)))
    found = {name: value for name, value in facts.items() if name.startswith("batch_curve.")}
    assert found == {
        "batch_curve.was_measured": False,
        "batch_curve.double_was_tried": False,
        "batch_curve.double_left_out": False,
    }
    assert facts["replay.step_ms"] == 50.0


@pytest.mark.parametrize(
    ("given", "was_measured"),
    [
        pytest.param((600, 1200), True, id="all of it"),
        pytest.param((600, 1090), True, id="nearly all of it"),
        pytest.param((600, 1070), False, id="other samples come with it"),
        pytest.param((600, 800), False, id="two of three batches are of earlier samples"),
        pytest.param((0, 0), True, id="nothing that was counted"),
    ],
)
def test_a_step_with_inputs_beside_its_batch_does_not_grow_with_it(given, was_measured):
    tried = [
        what_if("micro_batch", {"factor": factor}, micro_ns=[ms * MS] * 5, samples=samples, input_elements=elements)
        for factor, ms, samples, elements in ((1, 50, 2, given[0]), (2, 60, 4, given[1]))
    ]
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=tuple(tried))
    assert facts["batch_curve.was_measured"] is was_measured
    assert ("batch_curve.fixed_share" in facts) is was_measured


@pytest.mark.parametrize(
    ("larger_ms", "error"),
    [
        pytest.param(50, 0.0, id="more costs nothing"),
        # Of 45 ms: the points are 5 ms off the flat line, and it would fall by 10.
        pytest.param(40, 15 / 45, id="more seems to cost less: noise"),
    ],
)
def test_where_more_work_takes_no_more_time_all_of_it_is_fixed(larger_ms, error):
    tried = (micro(0.5, [50] * 3, samples=1), micro(2, [larger_ms] * 3, samples=4))
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=tried)
    assert (facts["batch_curve.fixed_share"], facts["batch_curve.per_unit_ms"]) == (1.0, 0.0)
    assert facts["batch_curve.error_share"] == pytest.approx(error)


def test_a_negative_fixed_part_is_none_at_all():
    tried = (micro(0.5, [10] * 5, samples=1), micro(2, [100] * 5, samples=4))
    facts = facts_of(script=steps(3), batches=batches([(4, 8)] * 2), what_ifs=tried)
    assert facts["batch_curve.fixed_ms"] == 0.0
    assert facts["batch_curve.per_unit_ms"] == pytest.approx(410 / 17)
    assert facts["batch_curve.error_share"] > 0.1


AT = Location("train.py", 7, "DataLoader")
ARGS_AT = Location("train.py", 30, "TrainingArguments")


@pytest.mark.parametrize(
    ("site", "hf", "location"),
    [
        pytest.param(USER, False, AT, id="the user's call"),
        pytest.param(USER, True, AT, id="the user's call beside TrainingArguments"),
        pytest.param(LIBRARY, True, ARGS_AT, id="the Trainer's call: where it was told"),
        pytest.param(LIBRARY, False, None, id="a library's call is not the user's to edit"),
    ],
)
def test_where_a_loader_was_set(site, hf, location):
    rows = settings_of(
        script=steps(3),
        loaders=(loader(0, site=site, arguments={"pin_memory": True}),),
        optimizers=(optimizer(site=site),),
        frameworks={"hf_args": entry()} if hf else {},
    )
    assert rows["loader#train", "loader.num_workers"].location == location
    assert rows["optimizer#0", "optimizer.fused"].location == (
        replace(location, call="AdamW") if location == AT else location
    )
    assert rows["loader#train", "loader.num_workers"].origin == "default"
    assert rows["loader#train", "loader.batch_size"].origin == "observed"
    assert rows["loader#train", "loader.pin_memory"].origin == "observed"
    assert ("loader#train", "loader.prefetch_factor") not in rows
    assert all(row.trusted is False for row in rows.values())


def test_spellings_are_the_frameworks_or_those_of_torch(monkeypatch):
    def spelling(framework, setting, versions):
        return SettingSpelling(f"{framework}:{setting}:{versions['transformers']}") if "workers" in setting else None

    monkeypatch.setattr(catalogue, "spelling", spelling)
    given = {"frameworks": {"hf_args": entry()}, "software": {"transformers": "5.23.0.dev0", "odd": "unknown"}}
    mine = settings_of(script=steps(2), **given)
    theirs = settings_of(script=steps(2), loaders=(loader(0, site=LIBRARY),), **given)
    assert mine["loader#train", "loader.num_workers"].spelling == "raw:loader.num_workers:(5, 23, 0)"
    assert theirs["loader#train", "loader.num_workers"].spelling == "hf_trainer:loader.num_workers:(5, 23, 0)"
    assert theirs["loader#train", "loader.batch_size"].spelling == ""


@pytest.mark.parametrize(
    ("framework", "values", "places"),
    [
        ("hf_args", {}, {"train.activation_checkpointing", "train.precision", "train.compile"}),
        ("accelerator", {"gradient_accumulation_steps": 1}, {"train.accumulation_steps", "train.precision"}),
        ("lightning", {"accumulate_grad_batches": 1}, {"train.accumulation_steps", "train.precision"}),
        ("fabric", {}, {"train.precision"}),
        (None, {}, set()),
    ],
)
def test_a_framework_is_the_place_of_what_it_has_a_say_in(framework, values, places):
    rows = settings_of(script=steps(3), frameworks={framework: entry(**values)} if framework else {})
    assert {name for (subject, name), row in rows.items() if subject == "run" and row.location} == places


def test_subjects_of_all_loaders():
    script = steps(3, loader=2)
    rows = (loader(0), loader(1), loader(2, wraps=1))
    assert subjects(recording(script, loaders=rows)) == {0: "loader#0", 1: "loader#train", 2: "loader#train"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"arguments": {"fused": True}}, (True, "observed")),
        ({"arguments": {"fused": False}}, (False, "observed")),
        ({"arguments": {}}, (False, "default")),
        ({"arguments": {}, "has_fused": None}, None),
        ({"arguments": {}, "has_fused": False}, None),
    ],
)
def test_fused(row, expected):
    setting = settings_of(optimizers=(optimizer(**row),)).get(("optimizer#0", "optimizer.fused"))
    assert (setting and (setting.value, setting.origin)) == expected


@pytest.mark.parametrize(
    ("autocast", "dtypes", "expected"),
    [
        ("off", {"float32": 9}, "fp32"),
        ("bfloat16", {"float32": 9, "int8": 1}, "bf16-mixed"),
        ("float16", {"float32": 9}, "fp16-mixed"),
        ("off", {"bfloat16": 9, "float32": 1}, "bf16"),
        ("bfloat16", {"bfloat16": 9}, "bf16"),
        (None, {"float32": 9}, None),
        ("off", {"float8_e4m3fn": 9}, None),
    ],
)
def test_precision(autocast, dtypes, expected):
    rows = settings_of(script=steps(2), torch_state={"autocast": autocast}, models=(model(dtypes=dtypes),))
    setting = rows.get(("run", "train.precision"))
    assert (setting and setting.value) == expected


def test_settings_of_trl():
    args = entry("SFTConfig", "trl.trainer.sft_config", max_length=1024, packing=False, torch_empty_cache_steps=4)
    rows = settings_of(script=checkpointed(2), frameworks={"hf_args": args}, batches=batches([(3, 5), (4, 8)] * 2))
    seen = {name: row.value for (subject, name), row in rows.items() if subject == "run"}
    assert seen == {
        "train.accumulation_steps": 1,
        "train.activation_checkpointing": True,
        "train.precision": "fp32",
        "train.matmul_precision": "highest",
        "train.compile": False,
        "train.anomaly_detection": False,
        "train.empty_cache_steps": 4,
        "train.num_threads": 2,
        "data.padding": "longest",
        "data.max_length": 1024,
        "data.packing": False,
        "model.trust_remote_code": False,
    }
    assert rows["run", "train.activation_checkpointing"].location == Location("train.py", 30, "SFTConfig")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"group_by_length": True}, True),
        ({"train_sampling_strategy": "random"}, False),
        ({"train_sampling_strategy": "group_by_length"}, True),
    ],
)
def test_group_by_length(values, expected):
    rows = settings_of(script=steps(2), frameworks={"hf_args": entry(**values)})
    assert rows["run", "data.group_by_length"].value is expected


HOST = [on_host("aten::linear", 9008, 9009), on_host("cudaStreamSynchronize", 9004, 9005.5, "sync")]


def everything():
    """Recordings that between them know every fact."""
    script = checkpointed(2)
    script.evaluate()
    script.run("iter", 5, 0)
    for kind in ("h2d", "logging", "checkpoint"):
        script.run(kind, 3)
    for _ in range(4):
        script.step()
        script.run("checkpoint", 3)
        script.evaluate()
    script.step()
    memory = {"peak_allocated_bytes": GB, "peak_reserved_bytes": GB, "total_bytes": 80 * GB, "num_alloc_retries": 0}
    transformers = {"has_native_class": True, "supports_sdpa": True, "output_attentions": False, "attention": "sdpa"}
    state = {
        "cudnn_benchmark": False,
        "autocast": "off",
        "num_threads": 2,
        "anomaly": False,
        "matmul_precision": "highest",
        "profiled_steps": 0,
        "averaged_backwards": 0,
    }
    items = {"batch_size": 4, "is_own": True, "are_same": True, "item_ns": [MS], "item_cpu_ns": [MS]}
    told = entry(max_steps=90, torch_compile_mode="default", torch_empty_cache_steps=2, group_by_length=False)
    told["values"] |= {"max_length": 64, "packing": False, "logging_strategy": "steps", "logging_steps": 5}
    told["values"] |= {"num_train_epochs": 3.0, "learning_rate": 1e-4, "logging_nan_inf_filter": True}
    told["values"] |= {"skip_memory_metrics": True}
    told["values"] |= {"full_determinism": False, "optim": "adamw_torch", "save_strategy": "steps"}
    told["values"] |= {"save_total_limit": 2, "eval_strategy": "no", "ddp_static_graph": False}
    told["values"] |= {"ddp_find_unused_parameters": False}
    arguments = {"num_workers": 0, "prefetch_factor": 2, "multiprocessing_context": "fork"}
    alone = {"batch_ns": [MS] * 4, "start_ns": 9 * MS, "cpu_ns": MS, "end_ns": MS, "other_cpus": 0.5}
    cuda = {
        "device": CUDA,
        "memory": memory,
        "kernels": kernels(
            launches("flash_fwd_kernel", 5),
            launches("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1),
            busy=6,
            start=9000,
            end=9009,
            idle=[(9005, 9007), (9008.1, 9008.9)],
            host=HOST,
        ),
        "calls": (call("gc", 3), call("empty_cache", 3), call("sync", 3)),
        "torch_state": state | {"grad_scaler": False, "clips_scaled": False, "legacy_amp": False},
        "compile": {"graph_breaks": 0, "recompiles_at_start": 1, "recompiles_at_end": 1, "compiling_steps": 1},
        "models": (model(**transformers),),
        "loaders": (loader(0, arguments=arguments, has_own_collate=True), loader(1, arguments={"num_workers": 2})),
        "batches": batches([(3, 5), (4, 8)] * 8),
        "fetches": fetches([9] * 9),
        "samples": (sample("fetch", 40), sample("other", 40)),
        "io": {"read_bytes": 7},
        "frameworks": {"hf_args": told, "hf_trainer": entry(classes=["transformers.Trainer"], adds_losses=True)},
        "environment": {},
        "what_ifs": (
            what_if("replay", {}, step_ns=[40 * MS] * 3, update_ns=[9 * MS] * 3, other_cpus=0.1),
            what_if("replay_changed", {"threads": 1}, step_ns=[80 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"threads": 8}, step_ns=[20 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"anomaly": False}, step_ns=[30 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"deterministic": False}, step_ns=[30 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"memory_tracing": False}, step_ns=[30 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"profiler": False}, step_ns=[30 * MS] * 3, update_ns=[9 * MS] * 3),
            what_if("replay_changed", {"fused": True}, step_ns=[35 * MS] * 3, update_ns=[4 * MS] * 3),
            what_if("narrow_batch", {}, micro_ns=[15 * MS] * 3),
            micro(2, [90] * 3, samples=4, tokens=20, peak=GB),
            what_if("serialise", {}, ns=1, bytes=9),
            what_if("loader_alone", {"loader": 0, "num_workers": 0}, **alone, items=items),
            what_if("loader_alone", {"loader": 0, "num_workers": 1}, batch_ns=[MS] * 4, start_ns=9 * MS, cpu_ns=MS),
            what_if("loader_alone", {"loader": 0, "num_workers": 2}, **alone),
        ),
    }
    names = ("CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "PYTORCH_NO_CUDA_MEMORY_CACHING")
    names += ("TORCH_CUDNN_V8_API_ENABLED", "OMP_NUM_THREADS")
    cuda["environment"] = dict.fromkeys(names, "")
    mapped = {"num_proc": None, "load_from_cache_file": False, "self._fingerprint": "abc"}
    began = [
        StartUpTime(cause, detail, "train.py", 3, "main", 9 * GB, 9 * GB, mapped if cause == "map" else {})
        for cause, detail in (("import", "torch"), ("map", ""), ("download", ""), ("code", ""))
    ]
    cuda["startup"] = StartUp(-MS, 0, 36 * GB, tuple(began), unhashed_map=False)
    process = {"world_size": 2, "local_world_size": 2}
    both = [recording(script, **cuda, process=process | {"rank": rank}) for rank in (0, 1)]
    # Workers start only where there are some, and memory runs out only where it does.
    workers = recording(script, loaders=(loader(0, arguments={"num_workers": 2}), loader(1)))
    died = recording(outcome="out_of_memory", error=OUT_OF_MEMORY | {"phase": "forward"})
    restarts = Script()
    for _ in range(3):
        restarts.run("iter", 5, 0)
        restarts.step()
    again = recording(restarts, loaders=(loader(0, arguments={"num_workers": 2}),))
    # Ranks wait only where one is late.
    waits = recording(steps(3, backward=60), process=process | {"rank": 0})
    late = recording(steps(3, fetch=40), process=process | {"rank": 1}, samples=(sample("fetch", 40),))
    # A host is slow where all of its ranks are.
    four = {"world_size": 4, "local_world_size": 2}
    quick = [recording(steps(3, backward=60), process=four | {"rank": rank, "host": "a"}) for rank in (0, 1)]
    slow = [recording(steps(3, fetch=40), process=four | {"rank": rank, "host": "b"}) for rank in (2, 3)]
    exchanges = [_exchanging(rank, process) for rank in (0, 1)]
    by_lightning = recording(
        frameworks={"lightning": entry("Trainer", "lightning", reload_dataloaders_every_n_epochs=0, profiler="none")}
    )
    too_large = recording(steps(3), what_ifs=(what_if("micro_batch", {"factor": 2}, "left_out", needed_bytes=GB),))
    others = (workers, died, again, by_lightning, too_large)
    return [
        derive(both, 8.0, 64 * GB),
        *(derive([one]) for one in others),
        derive([waits, late]),
        derive([*quick, *slow]),
        derive(exchanges),
        derive([grows()], 8.0),
    ]


def _exchanging(rank, process):
    """A rank with collectives of its own, averaged gradients, and with larger batches in every second step."""
    script, looked, averaged = Script(), [], []
    for number in range(10):
        size = 20 if (number + rank) % 2 else 40
        script.fetch(10)
        looked.append(Batch(0, script.now * MS, 1, size, ((1, size),), tokens=size))
        script.forward(size)
        script.run("backward", 60)
        averaged.append(Averaging(script.now * MS, 5 * MS, 50 * MS))
        script.run("collective", 9, 0)
        script.update()
    call = {"kind": "collective", "name": "all_reduce", "site": USER, "count": 10, "bytes": 40, "in_window": 9}
    place = process | {"rank": rank}
    state = {"averaged_backwards": 18}
    return recording(
        script,
        averagings=tuple(averaged),
        calls=(call,),
        batches=tuple(looked),
        process=place,
        torch_state=state,
        models=(model(parallel="DistributedDataParallel"),),
    )


def grows():
    """A Recording whose steps take longer and longer, in a line of its own, and keep their graphs."""
    script = Script()
    for step in range(33):
        script.idle(10 + step)
        script.step()
    made = recording(script, warmup=3, loaders=())
    ends = made.window.step_ends_ns
    measured = replace(
        made.window,
        step_process_cpu_ns=ends,
        memory_bytes=tuple((step + 1, GB + MS * step) for step in range(33)),
    )
    late = replace(sample("other", 60), wall_ns=60 * MS, cpu_ns=60 * MS, step_sum=60 * 24)
    kept = {"num_steps": 32, "num_filling": 0, "holder": {"name": "losses", "file": "train.py", "line": 3}}
    return replace(made, window=measured, samples=(late,), kept_graphs=kept)


WITH_TESTS_OF_THEIR_OWN = (
    "derive.line_facts",
    "derive.row_facts",
    "derive.repeated_backward",
    "derive.parametrizations",
    "derive.attention",
    "derive.vocabulary",
    "derive.needless_work",
    "derive.mfu",
    "derive.averaging",
)
"""Each has a file of its own in this folder."""


def test_every_catalogued_fact_is_supplied_and_no_other():
    with (CATALOGUE / "facts.toml").open("rb") as file:
        catalogue = tomllib.load(file)
    of_derive = {name: row for name, row in catalogue.items() if row["supplier"].startswith("derive.")}
    mine = {name for name, row in of_derive.items() if row["supplier"] not in WITH_TESTS_OF_THEIR_OWN}
    known = [
        fact for derived in everything() for fact in derived.facts if fact.name in mine or fact.name not in of_derive
    ]
    assert {fact.name for fact in known} == mine
    kinds = {"bool": bool, "int": int, "bytes": int, "text": str, "version": tuple}
    for fact in known:
        row = catalogue[fact.name]
        assert isinstance(fact.value, kinds.get(row["type"], float)), fact
        assert fact.subject.split("#")[0] == row["subject"], fact
        assert row["type"] != "share" or 0 <= fact.value <= 1, fact


ONLY_IN_FILES = {
    "train.global_batch",
    "train.checkpoint_use_reentrant",
    "fsdp.version",
    "fsdp.activation_checkpointing",
    "zero.stage",
    "zero.offload_optimizer",
    "zero.offload_param",
    "model.device_map",
    "model.load_in_4bit",
    "model.bnb_4bit_compute_dtype",
}
"""Settings that no run shows: scan reads them."""


def test_every_catalogued_setting_is_observed_and_no_other():
    with (CATALOGUE / "settings.toml").open("rb") as file:
        catalogue = tomllib.load(file)
    seen = [setting for derived in everything() for setting in derived.settings]
    assert {setting.name for setting in seen} == set(catalogue) - ONLY_IN_FILES
    assert all(setting.subject.split("#")[0] == catalogue[setting.name]["subject"] for setting in seen)


def test_a_number_below_zero_says_that_there_is_none():
    rows = settings_of(script=steps(2), frameworks={"hf_args": entry(max_steps=-1, num_train_epochs=3.0)})
    assert ("run", "train.max_steps") not in rows
    assert rows["run", "train.epochs"].value == 3.0


@pytest.mark.parametrize(
    ("environment", "software", "num_processes", "origin"),
    [
        ({"OMP_NUM_THREADS": "", "MKL_NUM_THREADS": ""}, {}, 1, "default"),
        ({"OMP_NUM_THREADS": "2"}, {}, 1, "observed"),
        ({"MKL_NUM_THREADS": "2"}, {}, 1, "observed"),
        ({}, {"accelerate": "1.15.0"}, 2, "observed"),
        ({}, {"accelerate": "1.15.0"}, 1, "default"),
        ({}, {"torch": "2.13.0"}, 2, "default"),
    ],
)
def test_threads_that_nobody_gave_are_the_default(environment, software, num_processes, origin):
    process = {"rank": 0, "local_world_size": num_processes, "world_size": num_processes}
    rows = settings_of(script=steps(2), environment=environment, software=software, process=process)
    assert rows["run", "train.num_threads"].origin == origin


@pytest.mark.parametrize(
    ("precision", "environment", "origin"),
    [
        ("highest", {}, "default"),
        ("high", {}, "observed"),
        ("highest", {"NVIDIA_TF32_OVERRIDE": "0"}, "observed"),
        ("highest", {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "0"}, "observed"),
    ],
)
def test_the_precision_of_torch_itself_is_the_default(precision, environment, origin):
    rows = settings_of(script=steps(2), torch_state={"matmul_precision": precision}, environment=environment)
    assert rows["run", "train.matmul_precision"].origin == origin


@pytest.mark.parametrize(
    ("frameworks", "epochs", "planned"),
    [
        ({}, 4, 100),
        ({"accelerator": entry()}, 4, 100),
        ({}, None, None),
        ({"hf_args": entry(num_train_epochs=2)}, 4, 50),
        ({"lightning": entry("Trainer", "lightning", max_epochs=3)}, 4, 75),
    ],
    ids=["a loop of its own", "with accelerate", "not certain", "the Trainer was told", "Lightning was told"],
)
def test_the_length_of_a_run_whose_loop_counts_its_epochs(frameworks, epochs, planned):
    made = {"script": steps(3), "frameworks": frameworks, "loaders": (loader(0, num_batches=25),)}
    facts = facts_of(limits={"code_epochs": epochs}, **made)
    assert facts.get("run.num_planned_steps") == planned
