"""What a user, or a test, asks of the watch: by the environment, or by the call that starts it."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

AT = (50, 500, 5000)
"""Steps at which a window begins; after the last one at each tenfold."""

FOLDER = "AUTOTUNE_WATCH_DIR"
"""The run folder. The first process of a job sets it, so that those that it starts share its folder."""

PROMETHEUS = "AUTOTUNE_WATCH_PROMETHEUS"
TESTED = "_AUTOTUNE_WATCH_TEST"
"""JSON with other values of the fields of WatchSettings: the tests' runs are short."""

MOST_WARMUP, MOST_BLOCK = 10, 20
LEAST_AT = 2
"""Before that no step has been timed."""


class WatchSettings:
    """`at`: the first steps of planned windows, at least one, rising. `least_steps` and `least_s`: the least length of
    a window. `write_s`: seconds between two writes of the state. `prints`: lines on stderr. `folder`: the run folder,
    None for a new one in the project. `prometheus`: a file for node_exporter's textfile collector, or None."""

    def __init__(
        self,
        at: tuple[int, ...] = AT,
        least_steps: int = 20,
        least_s: float = 0.5,
        write_s: float = 10.0,
        prints: bool = True,
        folder: str | None = None,
        prometheus: str | None = None,
    ) -> None:
        self.at = (max(LEAST_AT, at[0]), *at[1:])
        self.least_steps, self.least_s, self.write_s = least_steps, least_s, write_s
        self.prints, self.folder, self.prometheus = prints, folder, prometheus

    @property
    def warmup(self) -> int:
        """Steps that no block counts."""
        return max(1, min(MOST_WARMUP, self.at[0] // 5))

    @property
    def block(self) -> int:
        """Steps of a block: at least one is over when the first window begins."""
        return min(MOST_BLOCK, self.at[0] - self.warmup)

    def next_at(self, steps: int) -> int:
        """The first step after `steps` at which a window is planned."""
        step = next((step for step in self.at if step > steps), self.at[-1])
        while step <= steps:
            step *= 10
        return step


def of_environment(environ: Mapping[str, str] = os.environ, at: tuple[int, ...] | None = None) -> WatchSettings:
    """What the environment asks for; `at` is what a call asks for."""
    settings = WatchSettings(
        at=at or AT,
        prints=environ.get("AUTOTUNE_WATCH") != "quiet",
        folder=environ.get(FOLDER) or None,
        prometheus=environ.get(PROMETHEUS) or None,
    )
    for name, value in json.loads(environ.get(TESTED) or "{}").items():
        setattr(settings, name, tuple(value) if isinstance(value, list) else value)
    return settings
