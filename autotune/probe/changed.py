"""Settings of torch that a replay is tried under, and taken back after it."""

from __future__ import annotations

from . import others


def choices(session) -> list:
    """The arguments of each replay to try: on a CPU other numbers of threads, and fused updates (may fail) last."""
    import torch

    freed = [{"deterministic": False}] if _is_deterministic(torch) else []
    freed += [{"anomaly": False}] if torch.is_anomaly_enabled() else []
    if session.trains_on_cuda():
        return freed
    counts = sorted({1, len(others.usable())} - {torch.get_num_threads()})
    return [*freed, *({"threads": count} for count in counts), *([{"fused": True}] if _unfused(session) else [])]


def _is_deterministic(torch) -> bool:
    return torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic


def _unfused(session) -> list:
    """The optimizers that have a fused update and do not use it."""
    rows = [row for row in session.described_optimizers() if row.get("has_fused")]
    kept = [row["object"]() for row in rows if not row["arguments"].get("fused")]
    return [optimizer for optimizer in kept if optimizer is not None]


def apply(session, arguments: dict):
    """Change what `arguments` name; what takes it back."""
    if "threads" in arguments:
        return _with_threads(arguments["threads"])
    if "fused" in arguments:
        return _with_fused(_unfused(session))
    return _without_determinism() if "deterministic" in arguments else _without_anomaly()


def _with_threads(count: int):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    return lambda: torch.set_num_threads(before)


def _without_determinism():
    import torch

    cudnn, only_warns = torch.backends.cudnn, torch.is_deterministic_algorithms_warn_only_enabled()
    asked, of_cudnn = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic
    torch.use_deterministic_algorithms(False)
    cudnn.deterministic = False

    def undo():
        torch.use_deterministic_algorithms(asked, warn_only=only_warns)
        cudnn.deterministic = of_cudnn

    return undo


def _without_anomaly():
    import torch

    checks_nan = torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    return lambda: torch.set_anomaly_enabled(True, checks_nan)


def _with_fused(optimizers: list):
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    before = [(group, {name: group.get(name) for name in ("foreach", "fused")}) for group in groups]
    for group in groups:
        group.update(foreach=False, fused=True)

    def undo():
        for group, values in before:
            group.update(values)

    return undo
