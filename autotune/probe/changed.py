"""Settings of torch that a replay is tried under, and taken back after it."""

from __future__ import annotations

from . import others


def choices(session) -> list:
    """The arguments of each replay to try: on a CPU other numbers of threads, and fused updates (may fail) last."""
    if session.trains_on_cuda():
        return []
    import torch

    counts = sorted({1, len(others.usable())} - {torch.get_num_threads()})
    return [*({"threads": count} for count in counts), *([{"fused": True}] if _unfused(session) else [])]


def _unfused(session) -> list:
    """The optimizers that have a fused update and do not use it."""
    rows = [row for row in session.described_optimizers() if row.get("has_fused")]
    kept = [row["object"]() for row in rows if not row["arguments"].get("fused")]
    return [optimizer for optimizer in kept if optimizer is not None]


def apply(session, arguments: dict):
    """Change what `arguments` name; what takes it back."""
    return _with_threads(arguments["threads"]) if "threads" in arguments else _with_fused(_unfused(session))


def _with_threads(count: int):
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    return lambda: torch.set_num_threads(before)


def _with_fused(optimizers: list):
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    before = [(group, {name: group.get(name) for name in ("foreach", "fused")}) for group in groups]
    for group in groups:
        group.update(foreach=False, fused=True)

    def undo():
        for group, values in before:
            group.update(values)

    return undo
