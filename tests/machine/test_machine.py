from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import resources

from autotune import machine
from autotune.machine import cgroup, gpu
from autotune.machine.sampler import MachineSamples
from autotune.model.evidence import RUN

TYPES = {
    "int": int,
    "float": float,
    "share": float,
    "text": str,
    "bytes": int,
    "version": tuple,
    "bool": bool,
}


def test_every_fact_is_in_the_catalogue_with_its_type(fake_nvml, board, monkeypatch):
    """Of a machine whose control group has a quota."""
    monkeypatch.setattr(cgroup, "cpu_quota", lambda *_: 1.5)
    catalogue = tomllib.loads(resources.files("autotune.catalogue").joinpath("facts.toml").read_text())
    sampled = MachineSamples(
        wall_s=2.0,
        num_samples=4,
        cpu_s=1.0,
        rss_peak_bytes=1,
        read_bytes=1,
        throttled_share=0.5,
        num_oom_kills=1,
        gpu_kernel_share=0.5,
        gpu_throttled_share=0.5,
        gpu_clock_mhz=1.0,
        gpu_pcie_generation=4,
        gpu_pcie_width=8,
    )
    versions = dict.fromkeys(("python", "transformers", "accelerate", "trl", "peft", "datasets"), "1.0")
    versions |= {"torch": "2.8.0", "torch_cuda": "12.8", "lightning": "2.0", "flash-attn": "2.7"}
    gpus = gpu.read(fake_nvml(board(mask=0x20)), {})
    found = machine.facts(versions, sampled, gpus=gpus)
    for fact in found:
        entry = catalogue[fact.name]
        assert fact.subject == RUN == entry["subject"]
        assert type(fact.value) is TYPES[entry["type"]], fact
    ours = {name for name, entry in catalogue.items() if entry["supplier"].startswith("machine.")}
    assert {fact.name for fact in found} == ours


def test_the_run_teaches_its_facts_only_when_it_was_sampled():
    names = {fact.name for fact in machine.facts({}, gpus=machine.Gpus())}
    assert "machine.cpu_quota" in names
    assert "machine.throttled_share" not in names


def test_torch_is_never_imported():
    code = (
        "import sys; from autotune import machine; machine.facts(machine.software(sys.executable));"
        "print('torch' in sys.modules, machine.software.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "software"]
