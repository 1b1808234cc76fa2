"""Which what-ifs follow the window, in which order, and how many steps each of them takes.

What is held beside each other takes turns in rounds: a machine that slows down for a while is no cost of one of them.
The order puts what is likelier to break the script later.
"""

from __future__ import annotations

from .. import averaging, describe
from ..hooks import fetches
from . import loader_test, needless_work, other_load, torch_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..session import ProbeSession
    from ..shapes import Phase
    from .batch_buffer import BatchBuffer

PHASE_S = 1.5
SHORT_S = 0.25
"""As long as this a phase may take whatever the number of its steps: those of a few milliseconds scatter most."""

LEAST_STEPS, MOST_STEPS = 3, 18
THROWN_AWAY = 2
"""Steps of a phase beside those that count: loops fetch ahead."""

MOST_ROUNDS, LEAST_IN_ROUND = 3, 2
BUDGET_SHARE = 2 / 3
"""Of the time limit, what a plan may be expected to take: a changed setting may make steps longer."""

LOOKS: tuple[Phase, ...] = (
    ("profile", {}),
    ("lines", {}),
    ("operations", {}),
    ("results", {}),
    ("rows", {}),
    ("products", {}),
    ("frozen", {}),
)
LOOK_STEPS = {"lines": 2, "operations": 3, "results": 5, "rows": 4, "products": 4, "frozen": 4}
"""Least number of steps of each, the unfinished step at its start included."""

LOOK_S = {"lines": 2.0}
"""Seconds that it takes where steps are short."""

LONG_S, VERY_LONG_S = 3.0, 6.0
"""Of longer steps only the operations are looked at, of very long ones nothing: the window has samples of their lines,
but no other look charges the backward pass to lines."""

RANK_STEPS, RANK_ROUNDS = 4, 2
"""Of a phase, and of the phases, of a job of several ranks: alike on all of them, whatever their clocks say."""

RANK_STEP_S = 0.5 / (2 * RANK_ROUNDS * (RANK_STEPS + THROWN_AWAY))
"""Of the time for what-ifs, one step of such a job at most: then all of its phases take half of it."""

SAME, HALF, DOUBLE, FOUR = 1, 0.5, 2, 4
WORTH_LOADING_SHARE = 0.02
WORTH_LOOKING_SHARE = 0.1
"""Of the CPUs, what workers take while training computes on these CPUs, too: nothing is waited for, and the step may be
longer all the same."""


def choose(session: ProbeSession, kept: BatchBuffer, mean_s: float) -> tuple[int, list[Phase]]:
    """(rounds, [(name, arguments)] in their order): as many rounds as there is time for, at most three."""
    for rounds in range(MOST_ROUNDS, 0, -1):
        phases = _of_rounds(session, kept, rounds, mean_s)
        if _expected_s(phases, mean_s, rounds) <= BUDGET_SHARE * session.request["what_if_limit_s"]:
            break
    return rounds, phases


def steps(phase: Phase, mean_s: float, rounds: int) -> int:
    """Steps of the phase that count, where one as the script is takes `mean_s` seconds."""
    most = max(MOST_STEPS, int(SHORT_S / mean_s))
    wanted = min(most, max(LEAST_STEPS, int(PHASE_S / mean_s)))
    return max(LEAST_IN_ROUND, wanted // rounds) if _takes_turns(phase) else wanted


def _takes_turns(phase: Phase) -> bool:
    """Half a batch is for where twice does not fit; a stopped profiler cannot be gone on with."""
    name, arguments = phase
    if name == "micro_batch":
        return bool(arguments["factor"] != HALF)
    return name == "replay_changed" and "profiler" not in arguments


def _expected_s(phases: list[Phase], mean_s: float, rounds: int) -> float:
    """Seconds that they take: of a loader alone all that it may."""
    trained: list[float] = [
        arguments.get("factor", 1) * (THROWN_AWAY + steps((name, arguments), mean_s, rounds)) * mean_s
        for name, arguments in phases
        if name not in ("loader_alone", "serialise", *(name for name, _ in LOOKS))
    ]
    looks = sum(max(LOOK_STEPS[name] * mean_s, LOOK_S.get(name, 0.0)) for name, _ in phases if name in LOOK_STEPS)
    return sum(trained) + looks + loader_test.LOADER_S * sum(name == "loader_alone" for name, _ in phases)


def _looks(session: ProbeSession, mean_s: float) -> list[Phase]:
    """The phases that ask nothing. Of long steps the window's own samples are many enough, and comparing takes long."""
    # No rate of a CPU is known to hold products against.
    left_out = set() if session.trains_on_cuda() else {"profile", "products"}
    left_out |= {"lines"} if mean_s > LONG_S else set()
    left_out |= {"operations"} if mean_s > VERY_LONG_S else set()
    left_out |= {"products"} if mean_s > LONG_S or describe.has_compiled_code() else set()
    left_out |= {"results", "rows", "frozen"} if mean_s > LONG_S / 2 else set()
    return [phase for phase in LOOKS if phase[0] not in left_out]


def _of_rounds(session: ProbeSession, kept: BatchBuffer, rounds: int, mean_s: float) -> list[Phase]:
    if not session.request["what_ifs"] or session.window.start is None:
        return []
    if session.world_size() > 1:
        return _of_ranks(session, kept, mean_s)
    saves = not session.has_saved() and loader_test.has_room(session)
    serialised: list[Phase] = [("serialise", {"parts": "model+optimizer"})] if saves else []
    if session.window.steps_by != "optimizer":
        return serialised
    looks = _looks(session, mean_s)
    in_turns, stopped = _changes(session, rounds)
    # What it finds is replayed next, in turns of its own.
    watch = [needless_work.PHASE] if needless_work.can_be_watched(session) else []
    if not len(kept):
        # Without a loader the script goes on with batches of its own making.
        looks = [phase for phase in looks if phase[0] != "frozen"]
        return [*looks, *serialised, *([*watch, *in_turns, *stopped] if session.train_loader() < 0 else [])]
    replay: Phase = ("replay", {"num_batches": len(kept)})
    loading: list[Phase] = [("loader_alone", {"num_workers": workers}) for workers in worker_counts(session)]
    narrow: list[Phase] = [("narrow_batch", {})] if kept.are_padded() else []
    # Four times the memory of a step is the likeliest to fail.
    last = _sizes(rounds, FOUR) if kept.are_single() and not stopped else []
    half: list[Phase] = [("micro_batch", {"factor": HALF})] if kept.have_halves() else []
    sizes = _sizes(rounds, DOUBLE)
    return [*looks, replay, *loading, *serialised, *watch, *half, *sizes, *narrow, *in_turns, *stopped, *last]


def _of_ranks(session: ProbeSession, kept: BatchBuffer, mean_s: float) -> list[Phase]:
    """All ranks go on for the same few steps, or none does: a rank alone would wait for the others.

    More would ask each of them for the same choices.
    """
    if session.window.steps_by != "optimizer" or session.window.ended_by != "steps":
        return []
    if session.trains_on_cuda():
        return [("profile", {})]
    can_go_on = len(kept) > 0 or session.train_loader() < 0
    is_short = mean_s <= RANK_STEP_S * session.request["what_if_limit_s"]
    turns: list[Phase] = [("replay_changed", {}), ("replay_changed", {"averaging": False})]
    is_ready = can_go_on and is_short and averaging.can_be_left_out(session)
    return RANK_ROUNDS * turns if session.ranks.all_are_ready(is_ready) else []


def _sizes(rounds: int, factor: int) -> list[Phase]:
    """A larger micro-batch in turns with today's, which the replay is where there is but one round."""
    factors = (SAME, factor) if rounds > 1 else (factor,)
    return rounds * [("micro_batch", {"factor": each}) for each in factors]


def _changes(session: ProbeSession, rounds: int) -> tuple[list[Phase], list[Phase]]:
    """Replays with one setting changed, in turns with none; and, to be the last, those with a stopped profiler."""
    choices: list[Phase] = [("replay_changed", arguments) for arguments in torch_settings.choices(session)]
    stopped = [phase for phase in choices if not _takes_turns(phase)]
    turns = [phase for phase in choices if _takes_turns(phase)]
    as_is: list[Phase] = [("replay_changed", {})] if turns and rounds > 1 else []
    return rounds * [*as_is, *turns], stopped


def worker_counts(session: ProbeSession) -> list[int]:
    """Numbers of workers with which the train loader is worth to be tried alone."""
    loader, cpus = session.loaders[session.train_loader()], len(other_load.usable())
    # More workers than CPUs may slow training down without a wait.
    is_dear = session.wait_share() >= WORTH_LOADING_SHARE or loader["arguments"]["num_workers"] > cpus
    if not loader["dataset"]["map_style"]:
        return []
    if is_dear:
        return [count for count in (0, 1, 2, 4, 8) if count <= cpus]
    takes_cores = not session.trains_on_cuda() and _workers_share(session, cpus) >= WORTH_LOOKING_SHARE
    return [0] if takes_cores else []


def _workers_share(session: ProbeSession, cpus: int) -> float:
    """What the workers of the train loader took in the window of the time of all CPUs."""
    begin, end = session.window.span()
    used: int = sum(
        cpu
        for loader, _, start, _, cpu, *_ in fetches.of_workers(session)
        if begin <= start < end and session.is_train_loader(loader)
    )
    return used / (cpus * (end - begin))
