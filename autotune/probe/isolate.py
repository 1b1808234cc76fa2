"""Side effects that are no files of ours: trackers, hub pushes, child programs. Blocked where that is possible, else
named."""

from . import isolate_commands, isolate_hub, isolate_network, isolate_trackers

MOST_ROWS = 50


class Isolated:
    """What was blocked and what could not be isolated, each said once. Never holds arguments: they may be secrets."""

    def __init__(self) -> None:
        self._blocked = {}
        self._not_isolated = {}

    def blocked(self, what: str) -> None:
        """A side effect that did not happen, e.g. "wandb.init (runs disabled)"."""
        self._blocked[what] = self._blocked.get(what, 0) + 1

    def not_isolated(self, what: str) -> None:
        """A side effect that may have happened, e.g. "subprocess: git push"."""
        self._not_isolated[what] = self._not_isolated.get(what, 0) + 1

    def rows(self) -> dict:
        """{"blocked": [{what}], "not_isolated": [{what}]}, with the count behind what happened more than once."""
        return {"blocked": _rows(self._blocked), "not_isolated": _rows(self._not_isolated)}


def _rows(counts: dict) -> list:
    texts = [what if count == 1 else f"{what} ({count} times)" for what, count in counts.items()]
    more = [f"and {len(texts) - MOST_ROWS} more"] if len(texts) > MOST_ROWS else []
    return [{"what": text} for text in (*texts[:MOST_ROWS], *more)]


def callbacks(world, patches, isolated: Isolated) -> dict:
    """{module name: function(module)} for the trackers, the hub, sockets and subprocess; `world` None: the kernel layer
    holds the files of every program."""
    return {
        **isolate_network.callbacks(patches, isolated),
        **isolate_trackers.callbacks(patches, isolated),
        **isolate_hub.callbacks(patches, isolated),
        **isolate_commands.callbacks(world, patches, isolated),
    }


def install(world, patches, isolated: Isolated) -> None:
    """Patch what is there from the start: the functions of `os` that start programs."""
    isolate_commands.install(patches, isolated, holds_programs=world is None)
