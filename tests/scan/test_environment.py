from __future__ import annotations

import pytest

from autotune.model.evidence import Value
from autotune.scan import environment
from autotune.scan.launch import launches
from autotune.syntax import shell


def facts(text: str) -> dict[str, Value]:
    found = environment.facts(launches(shell.read(text.encode(), "run.sh"), "run.sh"), is_spread="nnodes" in text)
    return {fact.name.removeprefix("config."): fact.value for fact in found}


@pytest.mark.parametrize(
    ("text", "debug", "links"),
    [
        ("export CUDA_LAUNCH_BLOCKING=1\npython train.py\n", "CUDA_LAUNCH_BLOCKING=1", ""),
        ("CUDA_LAUNCH_BLOCKING=1 python train.py\n", "CUDA_LAUNCH_BLOCKING=1", ""),
        ("CUDA_LAUNCH_BLOCKING=0 NCCL_P2P_DISABLE=1 torchrun train.py\n", "", "NCCL_P2P_DISABLE=1"),
        ("NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1 torchrun t.py\n", "", "NCCL_P2P_DISABLE=1"),
        ("NCCL_P2P_DISABLE=0 NCCL_SHM_DISABLE=0 torchrun t.py\n", "", ""),
        ("NCCL_IB_DISABLE=1 torchrun --nnodes 2 t.py\n", "", "NCCL_IB_DISABLE=1"),
        ("NCCL_IB_DISABLE=0 torchrun --nnodes 2 t.py\n", "", ""),
        ("NCCL_DEBUG=INFO torchrun train.py\n", "", ""),
        ("python train.py\nexport CUDA_LAUNCH_BLOCKING=1\n", "", ""),
    ],
)
def test_variables_that_a_command_gets(text: str, debug: str, links: str) -> None:
    assert facts(text) == {"debug_variables": debug, "restricted_links": links}


def test_without_a_command_nothing_is_said() -> None:
    assert facts("export CUDA_LAUNCH_BLOCKING=1\n") == {}
