"""The CPUs of a machine whose ranks have some of them each.

mpirun and srun bind each of their tasks to CPUs of its own. An autotune that is such a task sees the CPUs of one rank:
what all ranks of the machine may use is what their Recordings say together.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.model.evidence import RUN, Fact
from autotune.model.recording import Recording

QUOTA, CORES, LIMITED_BY, HOST, CGROUP = (
    "machine.cpu_quota",
    "machine.physical_cores",
    "machine.cpu_limited_by",
    "machine.host_cpus",
    "machine.cgroup_cpus",
)


def of_machine(facts: Sequence[Fact], recordings: Sequence[Recording]) -> tuple[Fact, ...]:
    """`facts` of the machine of the first rank, with the CPUs of all of its ranks.

    Which of them are one physical core is then not known. Together they have no more than the quota of the first rank's
    control group: of a container that holds all of them, or of one task, whose others are then not counted.
    """
    values = {fact.name: fact.value for fact in facts}
    quota, first = values.get(QUOTA), min(recordings, key=lambda one: one.process["rank"]).process
    here = [one.process for one in recordings if one.process.get("host") == first.get("host")]
    together = {cpu for process in here for cpu in process.get("cpus", ())}
    if values.get(LIMITED_BY) != "affinity" or not isinstance(quota, int | float) or len(together) <= quota:
        return tuple(facts)
    kept = [fact for fact in facts if fact.name not in (QUOTA, CORES, LIMITED_BY)]
    limited_by, most = "host" if len(together) == values.get(HOST) else "affinity", values.get(CGROUP)
    if isinstance(most, int | float) and most < len(together):
        return (*kept, Fact(QUOTA, RUN, float(most)), Fact(LIMITED_BY, RUN, "cgroup"))
    return (*kept, Fact(QUOTA, RUN, float(len(together))), Fact(LIMITED_BY, RUN, limited_by))
