"""Whether the slow rank of a DDP job is named, by rank, phase, line and host: gloo jobs of 2 and 4 processes.

One rank is made slower by its own loop, its loader or its disk; in one job all ranks of a host are, in one nobody is.
A job of two nodes is two launches of torchrun on this machine, each under an autotune and a host name of its own
(`unshare --uts`, which needs root), that share nothing but the folder of the job.

    python benchmarks/stragglers.py [--only loop-2 ...]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measuring

LIMIT_S = 240.0
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
BLOCKS_BYTES = 8 * (24 << 20)


@dataclass(frozen=True)
class Job:
    """A job, and what its report has to say: the late rank, its phase and function, and the slow host ("" for none)."""

    name: str
    fault: str
    late: tuple[int, ...]
    per_node: int
    nodes: int = 1
    work: int = 8
    phase: str = ""
    function: str = ""
    slow_host: str = ""


JOBS = (
    Job("none-2", "none", (), 2),
    Job("loop-2", "loop", (1,), 2, phase="other", function="summarise"),
    Job("loader-2", "loader", (1,), 2, work=200, phase="data_wait", function="unpack"),
    Job("disk-2", "disk", (1,), 2, phase="data_wait", function="read_block"),
    Job("none-4", "none", (), 4),
    Job("loop-4", "loop", (2,), 4, phase="other", function="summarise"),
    Job("loader-4", "loader", (3,), 4, work=200, phase="data_wait", function="unpack"),
    Job("disk-4", "disk", (0,), 4, phase="data_wait", function="read_block"),
    Job("two nodes, loop", "loop", (3,), 2, nodes=2, phase="other", function="summarise"),
    Job("two nodes, slow host", "host", (2, 3), 2, nodes=2, work=200, phase="data_wait", function="unpack",
        slow_host="node1"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", help="names of jobs")
    parser.add_argument("--keep", type=Path, help="keep reports and folders here")
    args = parser.parse_args()
    wrong = 0
    print(
        "| job | late rank | its phase and line | host | late by, of its work | as planted |\n|---|---|---|---|---|---|"
    )
    for job in JOBS:
        if args.only and job.name not in args.only:
            continue
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as temporary:
            folder = args.keep / job.name.replace(" ", "-") if args.keep else Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            report = run(job, folder)
        found = said(report)
        is_right = matches(job, report, found)
        wrong += not is_right
        print(f"| {job.name} | {' | '.join(found)} | {'yes' if is_right else 'NO'} |", flush=True)
    return 1 if wrong else 0


def run(job: Job, folder: Path) -> dict[str, Any]:
    """The JSON of the report on the whole job: of two nodes, that of the first autotune."""
    (folder / "pyproject.toml").touch()
    script = folder / "train.py"
    script.write_bytes((measuring.SCRIPTS / "straggler.py").read_bytes())
    with (folder / "blocks.bin").open("wb") as file:
        file.write(os.urandom(BLOCKS_BYTES))
        os.fsync(file.fileno())
    words = [str(script), "--fault", job.fault, "--late", *map(str, job.late), "--work", str(job.work)]
    words += ["--path", str(folder / "blocks.bin")]
    port = str(_free_port())
    nodes = [subprocess.Popen(_command(job, node, port, words), cwd=folder, env=_environ(), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for node in range(job.nodes)]  # fmt: skip
    outputs = [node.communicate(timeout=LIMIT_S) for node in nodes]
    for number, (node, (_, said)) in enumerate(zip(nodes, outputs, strict=True)):
        (folder / f"node{number}.err").write_text(said)
        if node.returncode:
            raise SystemExit(f"{job.name}: autotune of node {number} ended with {node.returncode}\n{said}")
    for _, (out, err) in zip(nodes[1:], outputs[1:], strict=True):
        assert not out, "only the autotune of rank 0 reports"
        assert "the autotune of rank 0 reports on all" in err, err
    (folder / "report.json").write_text(outputs[0][0])
    return dict(json.loads(outputs[0][0]))


def _command(job: Job, node: int, port: str, words: list[str]) -> list[str]:
    measured = [sys.executable, "-m", "autotune", "diagnose", "--quiet", "--format", "json"]
    launch = [*TORCHRUN, "--nproc-per-node", str(job.per_node), "--master-addr", "127.0.0.1", "--master-port", port]
    if job.nodes == 1:
        return [*measured, "--", *launch, *words]
    launch += ["--nnodes", str(job.nodes), "--node-rank", str(node)]
    named = ["unshare", "--uts", "sh", "-c", f'hostname node{node}; exec "$@"', "sh"]
    return [*named, *measured, "--job", "the-job", "--", *launch, *words]


def _environ() -> dict[str, str]:
    return {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def said(report: dict[str, Any]) -> tuple[str, str, str, str]:
    """The late rank, its phase and line, its host, and by how much it is late, as rule DD006 has them; "-" for none."""
    facts = report["facts"]
    if "DD006" not in {finding["rule"] for finding in report["findings"]}:
        spread = facts.get("ranks.spread_share")
        return "-", "-", "-", "unknown" if spread is None else f"{spread:.0%}"
    line = facts.get("ranks.slowest_line", "-")
    host = facts.get("ranks.slowest_host", "-")
    slow = f", all of {facts['ranks.slow_host']}" if "ranks.slow_host" in facts else ""
    where = f"{facts['ranks.slowest_phase']}, {line}"
    return str(facts["ranks.slowest"]), where, f"{host}{slow}", f"{facts['ranks.spread_share']:.0%}"


def matches(job: Job, report: dict[str, Any], found: tuple[str, str, str, str]) -> bool:
    facts, num = report["facts"], job.per_node * job.nodes
    is_whole = report["missing_ranks"] == [] and len(report["ranks"]) == num
    if not job.late:
        return is_whole and found[0] == "-"
    is_rank = found[0] in map(str, job.late)
    is_phase = facts.get("ranks.slowest_phase", "").replace(" ", "_") == job.phase
    is_line = facts.get("ranks.slowest_line", "").startswith(f"{job.function} (")
    host = "" if job.nodes == 1 else f"node{job.late[0] // job.per_node}"
    is_host = facts.get("ranks.slowest_host", "") == host and facts.get("ranks.slow_host", "") == job.slow_host
    return is_whole and is_rank and is_phase and is_line and is_host


if __name__ == "__main__":
    sys.exit(main())
