"""Ranks that are bound to CPUs of their own have those of all of them together."""

from __future__ import annotations

import pytest
from job_builders import rank

from autotune.diagnose import rank_cpus
from autotune.model.evidence import RUN, Fact

BOUND = {
    "machine.cpu_quota": 1.0,
    "machine.cpu_limited_by": "affinity",
    "machine.host_cpus": 8,
    "machine.physical_cores": 1,
    "machine.cpu_name": "AMD EPYC",
}


def together(known, *ranks):
    facts = [Fact(name, RUN, value) for name, value in known.items()]
    return {fact.name: fact.value for fact in rank_cpus.of_machine(facts, ranks)}


def test_each_rank_has_a_cpu_of_its_own():
    found = together(BOUND, rank(1, 3, cpus=(5,)), rank(0, 3, cpus=(4,)), rank(2, 3, host="node2", cpus=(6, 7)))
    assert found == {
        "machine.cpu_quota": 2.0,
        "machine.cpu_limited_by": "affinity",
        "machine.host_cpus": 8,
        "machine.cpu_name": "AMD EPYC",
    }


def test_all_cpus_of_the_host_are_no_limit():
    found = together({**BOUND, "machine.host_cpus": 2}, rank(0, 2, cpus=(0,)), rank(1, 2, cpus=(1,)))
    assert (found["machine.cpu_quota"], found["machine.cpu_limited_by"]) == (2.0, "host")


@pytest.mark.parametrize(
    ("known", "cpus"),
    [(BOUND, ((3,), (3,))), (BOUND, ((), ())), ({**BOUND, "machine.cpu_limited_by": "cgroup"}, ((3,), (4,)))],
    ids=["they share one", "older recordings", "the cgroup has less"],
)
def test_otherwise_the_machine_is_as_autotune_saw_it(known, cpus):
    assert together(known, *(rank(number, 2, cpus=each) for number, each in enumerate(cpus))) == known


def test_a_container_that_holds_all_of_them_has_its_quota():
    ranks = [rank(number, 4, cpus=(number,)) for number in range(4)]
    found = together({**BOUND, "machine.cgroup_cpus": 2.5}, *ranks)
    assert (found["machine.cpu_quota"], found["machine.cpu_limited_by"]) == (2.5, "cgroup")
    found = together({**BOUND, "machine.cgroup_cpus": 4.0}, *ranks)
    assert (found["machine.cpu_quota"], found["machine.cpu_limited_by"]) == (4.0, "affinity")
