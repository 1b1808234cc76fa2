from __future__ import annotations

import pytest

from autotune import catalogue
from autotune.catalogue import frameworks
from autotune.catalogue.dialects import dialects, extends
from autotune.catalogue.frameworks import chain
from autotune.catalogue.launchers import launcher_modules, launchers, training_modules
from autotune.probe.hooks import frameworks as probe_frameworks

KNOWN = frameworks.frameworks()
READ = {"": set(), "trainer": {"classes", "adds_losses"}, "lightning_profiler": {"profiler"}}
"""The fields that each reader of probe/hooks/frameworks.py gives."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_file_names_only_what_exists(name: str) -> None:
    one = KNOWN[name]
    assert set(one.observed) <= {*catalogue.settings(), *catalogue.facts()}
    assert set(one.decides) <= set(catalogue.settings())
    assert set(one.unseen) <= set(catalogue.facts())
    assert set(one.config_readers) <= set(dialects())
    assert name in dialects()
    assert not one.built_on or one.built_on in KNOWN
    if one.launcher is not None:
        assert {one.launcher.dialect, one.launcher.own_dialect} - {None} <= set(dialects())
    read = {field for hook in one.hooks for field in (*hook.fields, *READ[hook.read])}
    assert set(one.observed.values()) <= read
    for interval in one.intervals.values():
        fields = {*interval.steps, interval.strategy, interval.batches, interval.epochs, interval.enabled}
        assert fields - {""} <= read


def test_every_reader_of_the_probe_is_known() -> None:
    assert READ.keys() - {""} == probe_frameworks.READERS.keys()
    assert {hook.read for hook in frameworks.hooks()} <= READ.keys()
    assert READ["trainer"] == probe_frameworks.READERS["trainer"](object()).keys()
    assert READ["lightning_profiler"] == probe_frameworks.READERS["lightning_profiler"](object()).keys()


def test_a_key_that_nothing_reads_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(frameworks, "read", lambda file: {"title": "Gym", "clases": {}})
    with pytest.raises(ValueError, match=r"catalogue/frameworks/gym.toml: .*unknown field `clases`"):
        frameworks._framework("frameworks/gym.toml")


def test_what_decides_most_of_a_run_comes_first() -> None:
    order = list(KNOWN)
    assert order.index("trl") < order.index("hf_trainer") < order.index("accelerate")
    known = ("hf_args", "lightning", "accelerator", "fabric")
    assert tuple(one for one in frameworks.settings_objects() if one in known) == known


def test_what_is_built_on_another_has_what_the_other_has() -> None:
    assert [one.name for one in chain("trl")] == ["trl", "hf_trainer"]
    assert [*chain("raw")] == []
    assert frameworks.observed("trl") == frameworks.observed("hf_trainer")
    assert frameworks.interval("trl", "checkpoint") == frameworks.interval("hf_trainer", "checkpoint")
    assert all(extends(one.name, one.built_on) for one in KNOWN.values() if one.built_on and one.classes)


@pytest.mark.parametrize(
    ("package", "class_", "framework"),
    [
        ("transformers", "Trainer", "hf_trainer"),
        ("transformers", "AutoModel", None),
        ("trl", "DPOConfig", "trl"),
        ("trl", "NewTrainer", "trl"),
        ("trl", "NewConfig", None),
        ("lightning", "Fabric", "fabric"),
        ("lightning", "Trainer", "lightning"),
        ("mine", "Trainer", None),
    ],
)
def test_whose_class_it_is(package: str, class_: str, framework: str | None) -> None:
    assert frameworks.of_class(package, class_) == framework


@pytest.mark.parametrize(
    ("name", "class_", "module"),
    [
        ("accelerate", "DataLoaderConfiguration", "accelerate.utils"),
        ("lightning", "Trainer", "lightning.pytorch"),
        ("lightning", "ModelCheckpoint", None),
        ("trl", "SFTConfig", "trl"),
        ("trl", "SFTTrainer", None),
        ("torch", "DataLoader", None),
    ],
)
def test_where_a_class_is_constructed_from(name: str, class_: str, module: str | None) -> None:
    assert frameworks.construct_module(name, class_) == module


@pytest.mark.parametrize(
    ("name", "call", "at"),
    [
        ("hf_trainer", "TrainingArguments", "hf_args"),
        ("trl", "TrainingArguments", "hf_args"),
        ("trl", "SFTConfig", "hf_args"),
        ("trl", "ModelConfig", ""),
        ("accelerate", "Accelerator", "accelerator"),
        ("lightning", "Trainer", "lightning"),
        ("fabric", "Fabric", ""),
        ("llamafactory", "llamafactory-cli train", ""),
        ("raw", "Trainer", ""),
    ],
)
def test_at_which_call_the_probe_overrides(name: str, call: str, at: str) -> None:
    assert frameworks.overridden(name, call) == at


def test_a_module_is_hooked_under_all_its_names() -> None:
    hooked = {(hook.module, hook.type) for hook in frameworks.hooks()}
    assert {(f"{root}.trainer.trainer", "Trainer") for root in ("lightning.pytorch", "pytorch_lightning")} <= hooked
    assert ("lightning_fabric.fabric", "Fabric") in hooked


def test_a_framework_brings_its_launcher() -> None:
    assert launchers()["llamafactory-cli"].dialect == "llamafactory"
    assert launcher_modules()["accelerate.commands.launch"].own_dialect == "accelerate_config"
    assert training_modules()["trl.scripts.sft"] == "trl"


def test_a_module_that_frameworks_share_says_the_version_of_the_first_one() -> None:
    versions = frameworks.library_versions()
    assert {name: versions[name] for name in ("lightning", "pytorch_lightning", "lightning_fabric")} == {
        "lightning": "lightning",
        "pytorch_lightning": "pytorch-lightning",
        "lightning_fabric": "lightning-fabric",
    }
    assert {module: versions[module] for module in ("transformers", "accelerate", "trl")} == {
        "transformers": "transformers",
        "accelerate": "accelerate",
        "trl": "trl",
    }
