"""Whether ptrace's rules let us look into a process, and if not: why, and the way round.

Sources: ptrace(2), "Ptrace access mode checking"; kernel documentation, admin-guide/LSM/Yama.
"""

from __future__ import annotations

import os
from pathlib import Path

from autotune.attach.target import ENDED, NEXT_START, Target
from autotune.machine import other_process

_YAMA = {
    1: "Yama lets only its parent look into a process (kernel.yama.ptrace_scope = 1)",
    2: "Yama lets only CAP_SYS_PTRACE look into processes (kernel.yama.ptrace_scope = 2)",
    3: "Yama lets nobody look into processes until the next boot (kernel.yama.ptrace_scope = 3)",
}
_ROOT = "sudo env PATH=$PATH autotune diagnose --pid {pid}"
_CONTAINER = "In a container: start it with docker run --cap-add SYS_PTRACE (Kubernetes: capabilities, add SYS_PTRACE)."


def why_not(target: Target, root: Path = Path("/")) -> tuple[str, str]:
    """("", "") where we may; else why we may not, and what to do."""
    if target.about.tracer:
        return f"process {target.about.tracer} traces it already", "Let the debugger go."
    can_be_traced = other_process.can_be_traced(target.pid, root)
    if can_be_traced is None:
        return ENDED, ""
    if can_be_traced:
        return "", ""
    sudo = f"Run {_ROOT.format(pid=target.pid)}"
    if not target.is_own and os.geteuid() != 0:
        return "it belongs to another user", f"{sudo}, or autotune as that user. {NEXT_START}"
    scope = other_process.ptrace_scope(root)
    if scope == 1:
        return _YAMA[1], f"{sudo}, or sudo sysctl kernel.yama.ptrace_scope=0 until the next boot. {NEXT_START}"
    if scope == 2 and os.geteuid() != 0:
        return _YAMA[2], f"{sudo}. {_CONTAINER} {NEXT_START}"
    if scope == 3:
        return _YAMA[3], NEXT_START
    uid = target.about.uid
    as_user = "" if target.is_own else f"Run autotune as that user (in a container: docker exec --user {uid}). "
    return "ptrace is not allowed here: the capability SYS_PTRACE is missing", f"{as_user}{_CONTAINER} {NEXT_START}"
