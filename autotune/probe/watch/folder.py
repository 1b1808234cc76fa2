"""Where the state of a watched run lies: `.autotune/watch/<id>/` of the project, one file for each process."""

from __future__ import annotations

import errno
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MARKS = (".git", "pyproject.toml")
JOB_IDS = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PBS_JOBID",),
    ("LSB_JOBID", "LSB_JOBINDEX"),
    ("FLUX_JOB_ID",),
    ("PMIX_NAMESPACE",),
)
"""What schedulers and mpirun tell all processes of a job that they start side by side; the first of each has to be
there. As SCHEDULERS of collect/job_parts.py: a test holds both to the same."""

OF_A_START = "SLURM_STEP_ID"
"""Without it each command that is typed in an allocation (salloc) would be the same job."""


def name(nth: int, environ: Mapping[str, str] = os.environ) -> str:
    """A name that all processes of a job have: the scheduler's, else when this one began, and its number. `nth` is of
    the watches of this process, from 1."""
    for names in JOB_IDS:
        if environ.get(names[0]) and (OF_A_START not in names or environ.get(OF_A_START)):
            words = [environ[one] for one in names if environ.get(one)]
            return "job-" + "".join(each if each.isalnum() or each in "-_." else "-" for each in "-".join(words))
    # In each container the first process is number 1, and several may start in one second.
    of_process = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}-{os.urandom(2).hex()}"
    return of_process if nth == 1 else f"{of_process}-{nth}"


def root(start: str) -> str:
    """The project of a folder, as `project_root` of collect/artefacts.py finds it: a test holds both to the same."""
    folder = start
    while folder == start or _may_hold_project(folder, start):
        if any(os.path.exists(os.path.join(folder, mark)) for mark in MARKS):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return start


def _may_hold_project(folder: str, start: str) -> bool:
    """Whether a folder above `start` belongs to this user or to the owner of `start`, and nobody else may write it."""
    try:
        about, owner = os.stat(folder), os.stat(start).st_uid
    except OSError:
        return False
    if about.st_uid not in (os.geteuid(), owner) or about.st_mode & stat.S_IWOTH:
        return False
    return not about.st_mode & stat.S_IWGRP or _is_private(about.st_uid, about.st_gid)


def is_only_ours(folder: str) -> bool:
    """Whether it is a folder of this user, and nobody else may write it: nobody has put a link into it."""
    about = os.lstat(folder)
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and _may_hold_project(folder, folder)


def _is_private(user: int, group: int) -> bool:
    import grp
    import pwd

    try:
        found = grp.getgrgid(group)
        name = pwd.getpwuid(user).pw_name
    except KeyError:
        return user == group
    return found.gr_name == name and set(found.gr_mem) <= {name}


def make(folder: str) -> None:
    """Make a run folder where there is none; what lies in .autotune is no part of the project's history.

    Raises OSError where it cannot be made, or a link leads somewhere else.
    """
    above = os.path.dirname(folder)
    is_ours = os.path.basename(os.path.dirname(above)) == ".autotune"
    for place in (os.path.dirname(above), above, folder) if is_ours else ():
        if os.path.islink(place):
            raise OSError(errno.ELOOP, "it is a link", place)
    os.makedirs(folder, exist_ok=True)
    ignore = os.path.join(os.path.dirname(above), ".gitignore")
    if is_ours and not os.path.lexists(ignore):
        with open(ignore, "w", encoding="ascii") as file:
            file.write("*\n")


def new(start: str, nth: int) -> str:
    """The path of a run folder of the project of `start`; nothing is made."""
    return os.path.join(root(start), ".autotune", "watch", name(nth))
