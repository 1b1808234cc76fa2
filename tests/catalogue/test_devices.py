from __future__ import annotations

import re

import pytest

from autotune.catalogue import devices
from autotune.errors import UsageError


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA A100 80GB PCIe", "a100-80-pcie"),
        ("A100-SXM4-40GB", "a100-40"),
        ("NVIDIA H100 80GB HBM3", "h100-80"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-32GB", "v100-32"),
        ("NVIDIA RTX 6000 Ada Generation", "6000ada"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_card_is_known_by_the_name_that_its_driver_reports(reported, name):
    assert devices.named(reported).name == name


def test_a_card_that_is_not_listed_is_not_taken_for_another():
    assert devices.named("NVIDIA A30") is None
    assert devices.named(None) is None


def test_a_slice_of_a_card_is_no_card():
    assert devices.named("NVIDIA A100-SXM4-80GB MIG 1g.10gb") is None


def test_a_card_is_asked_for_by_any_of_its_names():
    assert devices.asked("A100_80").name == devices.asked("a100").name == "a100-80"
    assert devices.asked("RTX 4090").name == devices.asked("4090").name == "rtx4090"


def test_an_unknown_card_is_refused_with_a_near_one():
    with pytest.raises(UsageError, match="Did you mean h100-80"):
        devices.asked("h100-8o")


def test_no_name_asks_for_two_cards():
    each = [{devices._plain(word) for word in (one.name, *one.ask)} for one in devices.devices().values()]
    words = [word for of_card in each for word in of_card]
    assert len(words) == len(set(words))


@pytest.mark.parametrize("one", devices.devices().values(), ids=lambda one: one.name)
def test_rates_are_dense_and_memory_is_less_than_what_is_sold(one):
    sold = int(re.search(r"(\d+)GB", one.title)[1])
    # Sold are 10^9 bytes for some cards, 2^30 for others.
    assert 0.9 * sold * 1e9 / 2**30 < one.memory_gib <= sold
    assert one.source and one.memory_from
    rates = [rate for rate in (one.fp32, one.tf32, one.bf16) if rate is not None]
    assert rates == sorted(rates)


def test_ratios_of_an_unknown_card_of_an_unknown_capability_are_unknown():
    assert devices.product_ratios("other", (9, 4)) is None
    assert devices.product_ratios(None, None) is None
