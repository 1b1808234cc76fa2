from __future__ import annotations

import os
import sys
import textwrap

import pytest

from autotune.collect.construct import PROGRAM, Constructed, Target, check, target
from autotune.model.evidence import Location
from autotune.model.scanned import ConsumerCall, WrittenValue

PLACE = Location("train.py", 1)


@pytest.fixture
def library(tmp_path):
    """A package `shop` on PYTHONPATH, in place of the heavy ones; the user's folder is beside it."""
    (tmp_path / "site").mkdir()
    (tmp_path / "cwd").mkdir()
    (tmp_path / "site" / "shop.py").write_text(
        textwrap.dedent("""
            import os, signal, sys, time, warnings
            from dataclasses import dataclass, field
            __version__ = "1.2"
            print("shop says hello")

            @dataclass
            class Config:
                steps: int = 10
                every: int = 5
                output_dir: str = ""
                report_to: str = "all"
                deepspeed: str = ""
                options: dict = field(default_factory=dict)

                def __post_init__(self):
                    assert self.report_to in ("all", "none") and self.output_dir == "."
                    open("was_here", "w").close()
                    os.environ["LEAKED"] = str(os.environ.get("LEAKED")) + "x"
                    if os.environ["LEAKED"] != "Nonex":
                        raise RuntimeError("state of another object")
                    if self.steps % self.every:
                        raise ValueError(f"--steps must be a multiple of --every,\\n  but {self.steps} is not")
                    if self.options.get("deep", {}).get("old"):
                        warnings.warn("options.deep.old is deprecated and will be removed in 2.0", FutureWarning)
                    warnings.warn("the weather is deprecated")

            def path(config):
                open(config).close()
                if not os.path.isabs(config): raise ValueError(config)

            def where(key):
                raise ValueError(str(os.environ.get(key)))

            def model(network, size=1): pass
            def anything(**rest): pass
            def leave(): sys.exit("I leave")
            def crash(): os.kill(os.getpid(), signal.SIGSEGV)
            def sleep(): time.sleep(600)
        """)
    )

    def construct(*targets, limit_s=60, python=sys.executable, environ=None):
        base = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), **(environ or {})}
        return check(python, targets, cwd=tmp_path / "cwd", limit_s=limit_s, environ=base)

    return construct


def shop(name, before=None, **arguments):
    return Target("shop", name, arguments, before)


def test_what_is_accepted(library, tmp_path):
    assert library(shop("Config", steps=20, output_dir="/nowhere/at/all", report_to="wandb")) == (Constructed(),)
    assert list((tmp_path / "cwd").iterdir()) == []


def test_no_targets_start_nothing():
    assert check("/no/such/python", [], cwd=PROGRAM.parent, limit_s=1) == ()


def test_a_refusal_is_the_librarys_own_sentence(library):
    (one,) = library(shop("Config", steps=7))
    assert one.refusal == "Config raises ValueError: --steps must be a multiple of --every, but 7 is not"


def test_a_name_that_the_installed_version_does_not_have(library):
    (one,) = library(shop("Config", steps=10, max_steps=10))
    assert one.refusal == "Config of shop 1.2 has no argument max_steps"


def test_every_target_has_its_own_answer_and_no_state_of_another(library):
    answers = library(shop("Config"), shop("Config", steps=7), shop("leave"), shop("Config"), shop("anything", x=1))
    assert [bool(one.refusal) for one in answers] == [False, True, True, False, False]
    assert answers[2].refusal == "leave raises SystemExit: I leave"


def test_announcements_about_given_arguments_are_notes(library):
    (one,) = library(Target("shop", "Config", {"options.deep.old": True, "options": None}))
    assert one == Constructed("", ("options.deep.old is deprecated and will be removed in 2.0",))


def test_what_failed_before_is_not_held_against_the_change(library):
    (one,) = library(shop("Config", {"steps": 7, "every": 2}, steps=9, every=2))
    assert one.refusal == ""
    assert "only the names of the arguments were checked; before the change already: Config raises" in one.notes[0]


def test_what_the_change_breaks_is_refused(library):
    (one,) = library(shop("Config", {"steps": 10}, steps=7))
    assert "but 7 is not" in one.refusal
    (one,) = library(shop("Config", {"steps": 10}, steps=10, max_steps=1))
    assert "no argument max_steps" in one.refusal


def test_arguments_of_the_scripts_own_subclass_are_left_out(library):
    assert library(shop("Config", {"mine": 1}, mine=1, steps=20)) == (Constructed(),)
    (one,) = library(shop("Config", {"mine": 1}, mine=1, steps=7))
    assert "but 7 is not" in one.refusal


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [("model", {"size": 2}, "network"), ("Config", {"deepspeed": "a", "steps": 7}, "deepspeed")],
)
def test_what_cannot_be_constructed_has_its_names_checked(library, name, arguments, why):
    assert library(shop(name, **arguments)) == (
        Constructed("", (f"only the names of the arguments were checked: {why}",)),
    )
    (one,) = library(shop(name, nonsense=1, **arguments))
    assert one.refusal == f"{name} of shop 1.2 has no argument nonsense"


def test_files_of_the_user_are_found_from_elsewhere(library, tmp_path):
    (tmp_path / "cwd" / "a.json").write_text("{}")
    found, missing = library(shop("path", config="a.json"), shop("path", config="b.json"))
    assert found == Constructed()
    assert "FileNotFoundError" in missing.refusal


def test_a_word_that_is_also_a_file_stays_a_word(library, tmp_path):
    (tmp_path / "cwd" / "HOME").write_text("")
    (one,) = library(shop("where", key="HOME"), environ={"HOME": "/here"})
    assert one.refusal == "where raises ValueError: /here"


@pytest.mark.parametrize(
    ("key", "value", "seen"),
    [
        ("WORLD_SIZE", "8", "None"),
        ("SLURM_NTASKS", "8", "None"),
        ("CUDA_VISIBLE_DEVICES", "3", "3"),
        ("HF_HUB_OFFLINE", "0", "1"),
    ],
)
def test_the_environment_is_the_users_without_a_launcher_and_offline(library, key, value, seen):
    (one,) = library(shop("where", key=key), environ={key: value})
    assert one.refusal == f"where raises ValueError: {seen}"


def test_a_missing_module_and_a_missing_class(library):
    module, name = library(Target("no_such_shop", "Config", {}), shop("Konfig"))
    assert (
        module.refusal == "no_such_shop.Config cannot be imported: ModuleNotFoundError: No module named 'no_such_shop'"
    )
    assert name.refusal.startswith("shop.Konfig cannot be imported: AttributeError")


def test_a_crash_leaves_the_answers_before_it(library):
    first, second, third = library(shop("Config"), shop("crash"), shop("Config"))
    assert first == Constructed()
    assert second.refusal == third.refusal == "it could not be constructed: the interpreter was killed by SIGSEGV"


def test_the_time_limit(library):
    first, second = library(shop("Config"), shop("sleep"), limit_s=3)
    assert first == Constructed()
    assert second.refusal == "it could not be constructed: it took longer than 3 s"


def test_an_interpreter_that_does_not_run(library):
    (one,) = library(shop("Config"), python="/no/such/python")
    assert one.refusal == "it could not be constructed: /no/such/python does not run: No such file or directory"


def test_the_programs_folder_shadows_no_package(library, tmp_path):
    """The probe has a sampler.py, and so may a library."""
    assert (PROGRAM.parent / "sampler.py").is_file()
    (tmp_path / "site" / "sampler.py").write_text("def Layer(size): pass\n")
    assert library(Target("sampler", "Layer", {"size": 1})) == (Constructed(),)


def given(**values):
    return {key: WrittenValue(key, value, PLACE, known=value is not ...) for key, value in values.items()}


def test_a_target_of_calls_that_reach_one_consumer():
    flags = ConsumerCall("hf_trainer", "", "run", given(save_steps=50), PLACE)
    call = ConsumerCall("hf_trainer", "Seq2SeqTrainingArguments", "run", given(save_steps=10, bf16=True, lr=...), PLACE)
    before = {"save_steps": 50, "bf16": True}
    made = target([flags, call], {"dataloader_num_workers": 4})
    assert made == Target("transformers", "Seq2SeqTrainingArguments", {**before, "dataloader_num_workers": 4}, before)


@pytest.mark.parametrize(
    ("dialect", "name", "module", "class_"),
    [
        ("hf_trainer", "", "transformers", "TrainingArguments"),
        ("trl", "DPOConfig", "trl", "DPOConfig"),
        ("lightning", "Trainer", "lightning.pytorch", "Trainer"),
        ("torch", "DataLoader", "torch.utils.data", "DataLoader"),
        ("torch", "torch.optim.AdamW", "torch.optim", "AdamW"),
        ("torch", "torch.compile", None, None),
        ("trl", "", None, None),
        ("axolotl", "", None, None),
    ],
)
def test_what_can_be_constructed(dialect, name, module, class_):
    made = target([ConsumerCall(dialect, name, "run", {}, PLACE)], {"a": 1})
    assert (made and (made.module, made.name)) == (module and (module, class_))


@pytest.mark.train
def test_the_real_libraries(tmp_path):
    """One child for all of them; a CPU machine is made sure of."""
    pytest.importorskip("transformers")
    hf, loader = "transformers", "torch.utils.data"
    cases = [
        (Target(hf, "TrainingArguments", {"bf16": True}), "doesn't support bf16/gpu"),
        (Target(hf, "TrainingArguments", {"dataloader_num_workers": 4, "dataloader_prefetch_factor": 2}), ""),
        (Target(hf, "TrainingArguments", {"dataloader_prefetch_factor": 2}), "--dataloader_num_workers > 0"),
        (Target(hf, "TrainingArguments", {"no_such_argument": 2}), "has no argument no_such_argument"),
        (Target("accelerate", "Accelerator", {"mixed_precision": "fp99"}), "Unknown mixed_precision mode"),
        (Target("accelerate", "Accelerator", {"mixed_precision": "bf16", "gradient_accumulation_steps": 4}), ""),
        (Target("accelerate", "Accelerator", {"mixed_precision": "no", "log_with": "wandb"}), ""),
        (Target(loader, "DataLoader", {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 4}), ""),
        (Target(loader, "DataLoader", {"num_workers": 0, "persistent_workers": True}), "needs num_workers > 0"),
        (Target("torch.optim", "AdamW", {"fused": True, "lr": 1e-4}), ""),
        (Target("torch.optim", "AdamW", {"fused": True, "foreach": True}), "cannot be `True` together"),
    ]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    answers = check(sys.executable, [one for one, _ in cases], cwd=tmp_path, limit_s=120, environ=environ)
    for (one, words), answer in zip(cases, answers, strict=True):
        assert words in answer.refusal and bool(words) == bool(answer.refusal), (one, answer)
    assert list(tmp_path.iterdir()) == []
