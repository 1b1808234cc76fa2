"""Tables of which a script's ids use but the first rows: the layers that score all rows compute the others in vain."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..shapes import Row


class Vocabularies:
    """The largest id that each embedding was asked for, and the linear layers that have an output for each of its rows.

    Sizes of tables, by the id of the module; a layer belongs to every table of its size.
    """

    def __init__(self) -> None:
        self._tables: dict[int, Row] = {}
        self._outputs: dict[int, int] = {}

    def note(self, module: Any, args: tuple[Any, ...]) -> None:
        """A call of `module` with gradients has ended."""
        nn = sys.modules["torch"].nn
        if isinstance(module, nn.Embedding):
            ids = args[0].detach()
            if ids.numel():
                row = self._tables.setdefault(
                    id(module), {"rows": int(module.num_embeddings), "largest": -1, "ids": 0, "module": module}
                )
                row["largest"] = max(row["largest"], int(ids.max()))
                row["ids"] += int(ids.numel())
        elif isinstance(module, nn.Linear):
            self._outputs[id(module)] = int(module.out_features)

    def rows(self, names: Mapping[int, str]) -> list[Row]:
        """The `Vocabulary` of the Recording; `names` are those of the modules by their ids."""
        return [
            {
                "name": names.get(key, type(row["module"]).__name__),
                "rows": row["rows"],
                "largest": row["largest"],
                "ids": row["ids"],
                "heads": [names[head] for head, size in self._outputs.items() if size == row["rows"] and head in names],
            }
            for key, row in self._tables.items()
        ]
