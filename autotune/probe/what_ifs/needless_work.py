"""Work of a step that need not be done: a few steps are watched for it, and then replayed without what was found."""

from __future__ import annotations

from .. import describe
from . import float64, second_derivatives
from .float64 import Float64Watch
from .second_derivatives import SecondDerivativeWatch
from .unused_gradients import GradientWatch, ReducedBackwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..session import ProbeSession
    from ..shapes import Phase, Row, Undo

WATCHED = 4
"""Whole steps. A gradient that is left at the end of the last one may still be used."""

MOST_WATCHED = 12
"""Where gradients are cleared every few steps, as those of a generator by the steps of its own."""

LEAST_ROUNDS = 2

PHASE: Phase = ("watch", {})
CHANGES = ("unused_gradients", "second_derivatives", "float64")


class NeedlessWork:
    """What is watched now, what was found, and what is left out of the replay that runs."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._gradients = GradientWatch(session)
        self._second = SecondDerivativeWatch(session)
        self._float64 = Float64Watch(session)
        self._reduced: ReducedBackwards | None = None
        self._undos: dict[str, Undo] = {}
        self._steps = 0

    def on_watched_step(self) -> bool:
        """A step ended while steps are watched, which begins with a whole one; whether that was the last."""
        if self._steps == 0:
            self._undos = {
                "second": self._second.start(),
                "gradients": self._gradients.start(),
                "float64": self._float64.start(),
            }
        elif self._steps == 1:
            self._undos.pop("float64")()
        self._gradients.on_step()
        self._steps += 1
        return self._steps > (MOST_WATCHED if self._gradients.awaits_clearing() else WATCHED)

    def stop(self) -> None:
        """Torch is as it was."""
        for name in reversed(list(self._undos)):
            self._undos.pop(name)()

    def result(self) -> Row:
        """What was found, for the Recording."""
        self.stop()
        self._gradients.conclude()
        self._second.conclude()
        found = {"gradients": self._gradients.rows(), "float64": self._float64.row()}
        return {**found, "second_derivatives": self._second.rows()} if self._second.is_possible else found

    def choices(self, found: Row, rounds: int) -> list[Phase]:
        """Replays without what was found, in turns with those as the script is; a single round would tell nothing."""
        turns: list[Row] = [{"unused_gradients": False}] if found["gradients"] else []
        turns += [{"second_derivatives": False}] if found.get("second_derivatives") else []
        turns = [{}, *turns] if turns else []
        # A recomputation runs where the replay's mode does not reach, and would find float64 again.
        recomputes = any(kind == "recompute" for kind, *_ in self._session.recorder.events)
        if found["float64"] is not None and not found["float64"]["is_asked_for"] and not recomputes:
            turns += [{"float64": True}, {"float64": False}]
        return max(LEAST_ROUNDS, rounds) * [("replay_changed", arguments) for arguments in turns]

    def apply(self, arguments: Row) -> Undo:
        """Leave out what `arguments` name, or, with float64, look for it alone."""
        self._reduced = None
        if "float64" in arguments:
            return float64.without(self._session, is_kept=arguments["float64"])
        if "second_derivatives" in arguments:
            return second_derivatives.without(self._session, self._second.unused)
        self._reduced = ReducedBackwards(self._session, self._gradients.reduced)
        return self._reduced.start()

    def on_replayed_step(self) -> None:
        """A step begins while something is left out."""
        if self._reduced is not None:
            self._reduced.on_step()


def can_be_watched(session: ProbeSession) -> bool:
    """Not where code was compiled: it computes what it was compiled for, and `inputs` change nothing in it."""
    return not describe.has_compiled_code()
