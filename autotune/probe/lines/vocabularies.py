"""The largest id that each embedding gets, and the layers that score all of its rows: scores beyond it are wasted."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..shapes import Row


class Vocabularies:
    """The largest id that each embedding was asked for, and the linear layers that could score all of its rows."""

    def __init__(self) -> None:
        self._tables: dict[int, Row] = {}
        self._layers: dict[int, Any] = {}

    def note(self, module: Any, args: tuple[Any, ...]) -> None:
        """A call of `module` with gradients has ended."""
        nn = sys.modules["torch"].nn
        if isinstance(module, nn.Embedding):
            ids = args[0].detach()
            if ids.numel():
                empty = {"rows": int(module.num_embeddings), "largest": -1, "ids": 0, "module": module}
                row = self._tables.setdefault(id(module), {**empty, "are_positions": False})
                row["largest"] = max(row["largest"], int(ids.max()))
                row["ids"] += int(ids.numel())
                row["are_positions"] |= ids.dim() > 0 and bool((ids.diff(dim=-1) == 1).all())
        elif isinstance(module, nn.Linear):
            self._layers[id(module)] = module

    def rows(self, names: Mapping[int, str]) -> list[Row]:
        """The `Vocabulary` of the Recording; `names` are those of the modules by their ids."""
        return [
            {
                "name": names.get(key, type(row["module"]).__name__),
                "rows": row["rows"],
                "largest": row["largest"],
                "ids": row["ids"],
                "heads": [names[id(head)] for head in self._heads(row["module"]) if id(head) in names],
            }
            for key, row in self._tables.items()
            if not row["are_positions"]
        ]

    def _heads(self, table: Any) -> list[Any]:
        """The layers that share the table's weights. Without any, the only layer with an output for each row of the
        table; none where it also has as many inputs, as layers inside of a model have."""
        tied = [layer for layer in self._layers.values() if layer.weight is table.weight]
        alike = [layer for layer in self._layers.values() if layer.out_features == table.num_embeddings]
        is_head = len(alike) == 1 and alike[0].in_features != alike[0].out_features
        return tied or (alike if is_head else [])
