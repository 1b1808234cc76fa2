from __future__ import annotations

import pytest

from autotune.machine.describe import describe, short_name
from autotune.model.evidence import RUN, Fact

GIB = 2**30


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (
            {"cpu_quota": 2.0, "cpu_limited_by": "cgroup", "host_cpus": 128, "memory_limit_bytes": 24 * GIB},
            "2 cores by cgroup (host has 128), 24 GB, no GPU found",
        ),
        (
            {
                "cpu_quota": 8.0,
                "cpu_limited_by": "host",
                "host_cpus": 8,
                "memory_limit_bytes": int(7.66 * GIB),
            },
            "8 cores, 7.7 GB, no GPU found",
        ),
        (
            {"cpu_quota": 1.0, "cpu_limited_by": "affinity", "host_cpus": 4},
            "1 core by affinity (host has 4), no GPU found",
        ),
        (
            {"cpu_quota": 1.5, "cpu_limited_by": "cgroup", "host_cpus": 4},
            "1.5 cores by cgroup (host has 4), no GPU found",
        ),
        ({"cpu_quota": 4.0, "num_gpus": 0}, "4 cores, no GPU found"),
        (
            {
                "num_gpus": 1,
                "gpu_name": "NVIDIA H100 80GB HBM3",
                "gpu_memory_bytes": 81559 * 2**20,
                "cpu_quota": 16.0,
                "cpu_limited_by": "cgroup",
                "host_cpus": 128,
                "memory_limit_bytes": 128 * GIB,
            },
            "1x H100 80 GB, 16 cores by cgroup (host has 128), 128 GB",
        ),
        ({"num_gpus": 2}, "2x GPU"),
        ({}, "no GPU found"),
    ],
)
def test_describe(known, line):
    assert describe(Fact(f"machine.{name}", RUN, value) for name, value in known.items()) == line


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4"),
        ("NVIDIA A100-PCIE-40GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("Tesla T4", "T4"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100-SXM4 MIG 1g.5gb"),
    ],
)
def test_short_name(full, short):
    assert short_name(full) == short
