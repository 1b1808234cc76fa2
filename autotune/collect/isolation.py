"""What keeps the script's writes away from the user's files: the kernel where it can, hooks in Python where not.

The kernel layer is a mount namespace in which overlays cover all that the script could write (overlay_plan.py,
mount_namespace.py). It holds for native code and for programs of every kind. The hooks (`_autotune_probe.overlay`)
hold what Python code and known libraries write. In both, the project's files are looked at before and after the run.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from autotune import reading
from autotune.collect import overlay_plan, project_snapshot, scratch_changes, stale_runs
from autotune.collect.job_logs import FileId, JobLogs, job_logs
from autotune.collect.overlay_plan import SCRATCH, NotPossibleError, OverlayPlan, OverlayRequest
from autotune.collect.scratch_changes import FileChange
from autotune.collect.stale_runs import SCRATCH_LIST, remove_abandoned
from autotune.machine.mounts import mounts

if TYPE_CHECKING:
    from autotune.collect.request_document import IsolateSettings

KERNEL: Final = "kernel"
HOOKS: Final = "hooks"

PLAN, FAILURE = "overlay-plan.json", "overlay-failure.json"
"""Files in the run folder, for and from mount_namespace.py."""

OUTSIDE = "outside-*"
"""In the run folder: notes of processes that the mounts do not reach (probe/effects.py)."""

LAUNCHED_OUTSIDE = "the launcher starts its processes outside of autotune's mounts, as srun does"

SWITCH = "AUTOTUNE_ISOLATION"
"""A variable of autotune's own environment; "hooks" keeps the kernel layer off."""

CACHES = (
    *(
        "HF_HOME",
        "HF_DATASETS_CACHE",
        "HF_HUB_CACHE",
        "HF_MODULES_CACHE",
        "TRANSFORMERS_CACHE",
        "HUGGINGFACE_HUB_CACHE",
    ),
    *("TORCH_HOME", "TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME"),
    *("CUDA_CACHE_PATH", "NUMBA_CACHE_DIR", "MPLCONFIGDIR"),
)
"""Variables that name cache folders: caches may be written, they are no output of the script."""

HOME_CACHES = (".triton", ".nv")
"""Caches in the home folder beside ~/.cache: triton's kernels, and those of the CUDA driver."""

_PROBE_CACHE = Path(__file__).parent.parent / "probe" / "__pycache__"
"""The probe's own bytecode: without it each process would compile the probe again."""

_LAUNCHER = Path(__file__).with_name("mount_namespace.py")
_CAN_MOUNT = 1 << 21
"""CAP_SYS_ADMIN."""
_MOST_SOCKETS = 512
_FOREIGN_WRITE = 0o022


class Isolation(Struct, frozen=True):
    """How one run is isolated. `layer` is kernel or hooks; `why` says, of hooks, why it is not the kernel.

    `settings` is what the probe gets, `plan` the mounts of the kernel layer, `before` the project's files as they were.
    `logs` are the files that a shell or a scheduler redirects the output to.
    """

    layer: str
    settings: IsolateSettings
    before: project_snapshot.Snapshot
    logs: JobLogs
    why: str = ""
    plan: OverlayPlan | None = None

    def words(self, run_dir: Path) -> tuple[str, ...]:
        """What stands in front of the command."""
        if self.plan is None:
            return ()
        return (sys.executable, "-I", "-S", str(_LAUNCHER), str(run_dir / PLAN), str(run_dir / FAILURE))


class SideEffects(Struct, frozen=True):
    """What became of the script's writes. `redirected` are those that went to scratch.

    `not_isolated` is what processes named before it happened, those that wrote no Recording too. `escaped` are real
    files of the project that changed during the run, but for the job's own logs, `gaps` writable folders that the
    layer leaves out, `ended` the programs that outlived the script and were ended, `other_devices` folders that were
    written and had their scratch on another file system. `is_whole` is False where the project has more files than
    were looked at.
    """

    layer: str = ""
    why: str = ""
    redirected: tuple[FileChange, ...] = ()
    not_isolated: tuple[str, ...] = ()
    escaped: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    other_devices: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    is_whole: bool = True


def choose(run_dir: Path, roots: Sequence[Path], environ: Mapping[str, str], refused: str = "") -> Isolation:
    """The strongest layer that this machine allows; `refused` is why the kernel layer failed when it was tried."""
    protected = tuple(dict.fromkeys(os.path.realpath(root) for root in roots))
    exempt = _exempt(run_dir, environ)
    why, plan = refused, None
    left_out = [folder for folder in exempt if any(overlay_plan.is_below(folder, path) for path in protected)]
    before, logs = project_snapshot.snapshot(protected, left_out), job_logs(environ)
    if not why and environ.get(SWITCH) == HOOKS:
        why = f"{SWITCH}={HOOKS} is set"
    if not why:
        try:
            plan = _planned(run_dir, protected, exempt, environ, before)
        except NotPossibleError as error:
            why = str(error)
    settings: IsolateSettings = {
        "layer": KERNEL if plan is not None else HOOKS,
        "protected": list(protected),
        "exempt": list(exempt),
        "run_id": run_dir.name,
        "run_dir": str(run_dir),
        "mount_points": [mount.mount_point for mount in mounts()],
    }
    if plan is None:
        return Isolation(HOOKS, settings, before, logs, why)
    _write({**plan.as_json(), "lc_ctype": environ.get("LC_CTYPE")}, plan.scratch, run_dir)
    if plan.gaps:
        before = project_snapshot.snapshot((*protected, *plan.gaps), left_out)
    return Isolation(KERNEL, settings, before, logs, plan=plan)


def effects(isolation: Isolation, ended: Sequence[str], printed: frozenset[FileId] = frozenset()) -> SideEffects:
    """What was redirected and what escaped; to be asked before the scratch is deleted. Logs of the job are neither:
    `printed` are those of its own processes."""
    plan, run_dir = isolation.plan, Path(isolation.settings["run_dir"])
    escaped = project_snapshot.changed(isolation.before)
    logs = replace(isolation.logs, files=isolation.logs.files | printed)
    by_kernel = scratch_changes.read(plan) if plan is not None else ()
    is_outside = any(run_dir.glob(OUTSIDE))
    return SideEffects(
        layer=HOOKS if is_outside else isolation.layer,
        why=LAUNCHED_OUTSIDE if is_outside else isolation.why,
        redirected=(*by_kernel, *scratch_changes.of_hooks(stale_runs.scratch_folders(run_dir))),
        not_isolated=_noted(run_dir),
        escaped=tuple(path for path in escaped if not Path(path).name.startswith(SCRATCH) and not logs.has(path)),
        gaps=(*plan.gaps, *_refused(run_dir)) if plan is not None else (),
        other_devices=_written_elsewhere(plan) if plan is not None else (),
        ended=tuple(ended),
        is_whole=isolation.before.is_whole,
    )


def _noted(run_dir: Path) -> tuple[str, ...]:
    """What the processes of the run said that they could not isolate, each once."""
    notes = (reading.read(path) for path in sorted(run_dir.glob("not-isolated-*")))
    return tuple(dict.fromkeys(line for note in notes for line in os.fsdecode(note).splitlines()))


def added(before: SideEffects, now: SideEffects) -> SideEffects:
    """The side effects of two starts of one run, which the second layer held."""
    return replace(
        now,
        redirected=tuple(dict.fromkeys((*before.redirected, *now.redirected))),
        not_isolated=tuple(dict.fromkeys((*before.not_isolated, *now.not_isolated))),
        escaped=tuple(dict.fromkeys((*before.escaped, *now.escaped))),
        gaps=tuple(dict.fromkeys((*before.gaps, *now.gaps))),
        other_devices=tuple(dict.fromkeys((*before.other_devices, *now.other_devices))),
        ended=tuple(dict.fromkeys((*before.ended, *now.ended))),
        is_whole=before.is_whole and now.is_whole,
    )


def failure(run_dir: Path) -> tuple[str, int, str] | None:
    """Which step of entering the namespace failed, its errno and the system's words; None when none did."""
    row = _failure_row(run_dir)
    return (str(row["step"]), int(row["errno"]), str(row["text"])) if "step" in row else None


def _refused(run_dir: Path) -> tuple[str, ...]:
    """The folders over which the kernel refused an overlay: they stayed real."""
    return tuple(map(str, _failure_row(run_dir).get("refused", ())))


def _written_elsewhere(plan: OverlayPlan) -> tuple[str, ...]:
    written = scratch_changes.written_folders(plan)
    return tuple(folder for folder in plan.other_devices if folder in written)


def _failure_row(run_dir: Path) -> dict[str, Any]:
    try:
        row = json.loads((run_dir / FAILURE).read_bytes())
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def _planned(
    run_dir: Path,
    protected: Sequence[str],
    exempt: Sequence[str],
    environ: Mapping[str, str],
    before: project_snapshot.Snapshot,
) -> OverlayPlan:
    if sys.platform != "linux":
        raise NotPossibleError("mount namespaces exist on Linux only")
    is_privileged = _can_mount()
    if not is_privileged and os.geteuid() == 0:
        raise NotPossibleError("root has no CAP_SYS_ADMIN here, and cannot change file owners in a user namespace")
    if not is_privileged:
        _check_owners(protected, before)
    named = {os.path.realpath(folder) for folder in _named_caches(environ)}
    for folder in exempt:
        if folder in named or not any(overlay_plan.is_below(folder, path) for path in protected):
            _make_cache(folder)
    home = _home(environ)
    wanted = OverlayRequest(
        run_dir=os.path.realpath(run_dir),
        protected=tuple(protected),
        exempt=tuple(exempt),
        nearby=("/var/tmp", tempfile.gettempdir(), str(home / ".cache"), str(home)),
        sockets=_sockets(),
        is_privileged=is_privileged,
        user=os.geteuid(),
        group=os.getegid(),
    )
    plan = overlay_plan.plan(wanted, mounts())
    for folder in plan.scratch:
        remove_abandoned(Path(folder).parent)
    return plan


def _check_owners(protected: Sequence[str], before: project_snapshot.Snapshot) -> None:
    """Without privileges the kernel cannot copy up what belongs to another user or group (EOVERFLOW)."""
    own = (os.geteuid(), os.getegid())
    for path in (*protected, *before.looks):
        try:
            about = os.lstat(path)
        except OSError:
            continue
        if (about.st_uid, about.st_gid) != own and (about.st_mode & _FOREIGN_WRITE or about.st_uid == own[0]):
            raise NotPossibleError(f"{path} belongs to another user or group, which a user namespace cannot write")


def _write(plan: Mapping[str, Any], scratch: Sequence[str], run_dir: Path) -> None:
    (run_dir / PLAN).write_text(json.dumps(plan), encoding="utf-8", errors="surrogateescape")
    (run_dir / FAILURE).unlink(missing_ok=True)
    with (run_dir / SCRATCH_LIST).open("a", encoding="utf-8", errors="surrogateescape") as file:
        for folder in scratch:
            file.write(f"{os.stat(folder).st_dev} {folder}\n")


def _named_caches(environ: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(environ[name] for name in ("XDG_CACHE_HOME", *CACHES) if environ.get(name))


def _exempt(run_dir: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    home = _home(environ)
    folders = [
        str(run_dir),
        tempfile.gettempdir(),
        *([] if environ.get("XDG_CACHE_HOME") else [str(home / ".cache")]),
        *(str(home / name) for name in HOME_CACHES),
        *_named_caches(environ),
        str(_PROBE_CACHE),
    ]
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in folders))


def _make_cache(folder: str) -> None:
    """Make a cache that is not there yet: what cannot be shown as it is would be downloaded again in every run."""
    if Path(folder).name in HOME_CACHES:
        return
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    except OSError:
        return


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _can_mount() -> bool:
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) & _CAN_MOUNT)


def _sockets() -> tuple[str, ...]:
    """Paths of the sockets that processes of this machine listen on (proc_net(5): type 1, flag 10000)."""
    try:
        lines = Path("/proc/net/unix").read_text(encoding="utf-8", errors="surrogateescape").split("\n")[1:]
    except OSError:
        return ()
    rows = [line.split(None, 7) for line in lines]
    paths = [row[7] for row in rows if len(row) == 8 and row[7].startswith("/") and row[3] == "00010000"]
    return tuple(path for path in dict.fromkeys(paths) if _is_socket(path))[:_MOST_SOCKETS]


def _is_socket(path: str) -> bool:
    """False, too, where it lies in a private folder of another user: the script cannot reach it either."""
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
