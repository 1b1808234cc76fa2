"""Training batches kept for the what-ifs: few, and spread over the whole window."""

from __future__ import annotations

from .batch_copies import cloned, half, narrowed, shallow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..shapes import Row

MOST = 16
MOST_BYTES = 256 << 20
STEP = 7
"""Handed out in steps of 7 of 16, so that the first few are spread over the window too: data may be sorted."""


class BatchBuffer:
    """At most MOST batches, evenly spaced: when it is full, every other one goes and only every other one comes.

    The containers are copies, the tensors are the script's own until a batch is handed out.
    """

    def __init__(self) -> None:
        self._batches: list[tuple[Any, Row]] = []
        self._every = 1
        self._seen = 0
        self._handed: list[Row] = []
        self._widest: Row = {"tokens": 0, "num_bytes": 0}

    def __len__(self) -> int:
        return len(self._batches)

    def offer(self, batch: Any, row: Row) -> None:
        """See one more batch; `row` describes it (num_bytes, num_samples, tokens)."""
        self._seen += 1
        for name, most in self._widest.items():
            size = row.get(name)
            self._widest[name] = max(most, size) if size is not None and most is not None else None
        if (self._seen - 1) % self._every or (len(self._batches) + 1) * row["num_bytes"] > MOST_BYTES:
            return
        self._batches.append((shallow(batch), row))
        if len(self._batches) == MOST:
            self._batches = self._batches[::2]
            self._every *= 2

    def start(self) -> None:
        """A phase begins: forget what the last one was handed."""
        self._handed = []

    def num_handed_out(self) -> int:
        """Batches handed out in this phase."""
        return len(self._handed)

    def are_padded(self) -> bool:
        """Whether the batches are of tokens, with padding in some of them that lengths beside them do not count."""
        rows = [row for _, row in self._batches]
        known = all(row.get("useful_tokens") is not None and row.get("padding") != "counts" for row in rows)
        return bool(rows) and known and any(row["useful_tokens"] < row["tokens"] for row in rows)

    def are_single(self) -> bool:
        """Whether each batch is one sample."""
        return bool(self._batches) and all(row.get("num_samples") == 1 for _, row in self._batches)

    def have_halves(self) -> bool:
        """Whether half of each batch are two samples at least: BatchNorm takes no single one."""
        samples = [row.get("num_samples") for _, row in self._batches]
        return bool(samples) and all(n is not None and n >= 4 and n % 2 == 0 for n in samples)

    def narrowest(self) -> float:
        """Tokens, else bytes, of the smallest kept batch, as a share of those of the largest that was seen; 0 where not
        known."""
        for name, most in self._widest.items():
            if self._batches and most:
                return float(min(row[name] for _, row in self._batches) / most)
        return 0.0

    def next(self, narrow: bool = False) -> Any:
        """A copy of the next kept batch; `narrow`: of the first half of its width."""
        size = len(self._batches)
        step = STEP if size % STEP else 1
        batch, row = self._batches[len(self._handed) * step % size]
        if narrow:
            self._handed.append({**row, "tokens": row["num_samples"] * half(row["width"])})
            return narrowed(batch, row["width"])
        self._handed.append(row)
        return cloned(batch)

    def means(self) -> dict[str, float | None]:
        """{"samples", "tokens"}: means over the batches handed out in this phase, None where one is unknown."""
        return {"samples": self._mean("num_samples"), "tokens": self._mean("tokens")}

    def _mean(self, name: str) -> float | None:
        values: list[float] = [row[name] for row in self._handed if row.get(name) is not None]
        return sum(values) / len(values) if values and len(values) == len(self._handed) else None
