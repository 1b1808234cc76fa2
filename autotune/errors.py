"""What can go wrong for the user: what, where, what to do, and the exit code that says so.

AutotuneError
|- UsageError      2  wrong arguments, configuration or Recording
|  `- RuleError    2  a rule file, or an expression in it, that cannot be used
|- ScriptError     3  the user's script failed or reached no step
`- BusyError       2  another measurement runs on this machine

InternalError      4  a bug of ours; no AutotuneError, because the user can only report it
"""

from __future__ import annotations

EXIT_CODES = {
    0: "success, or nothing to report",
    1: "`check`: a finding at or above --fail-on, or a limit that is not met; `verify`: --require-speedup is not met; "
    "`fit`: nothing surely fits",
    2: "wrong usage, configuration, rule file or Recording; or another measurement runs",
    3: "the script failed, or reached no optimizer step",
    4: "a bug of autotune: report it",
    130: "interrupted (129, 143: by SIGHUP, SIGTERM)",
}
"""What each exit code of the command means."""


class AutotuneError(Exception):
    """An error that the user can act on; printed without a traceback.

    `what` happened, `where` (a file, key or option; may be empty), and what `to_do` about it.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", to_do: str = "") -> None:
        super().__init__(what)
        self.what, self.where, self.to_do = what, where, to_do

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head}\n{self.to_do}" if self.to_do else head


class UsageError(AutotuneError):
    """Wrong usage, configuration, rule file or Recording."""


class RuleError(UsageError):
    """A rule file or an expression that cannot be used; what is wrong is one line per mistake."""


class BusyError(AutotuneError):
    """Another measurement holds this machine."""


class ScriptError(AutotuneError):
    """The user's script failed, could not be injected or reached no optimizer step.

    `status` is the exit code with which it ended by itself, `said` the end of its stderr where that is known.
    """

    exit_code = 3

    def __init__(
        self, what: str, *, where: str = "", to_do: str = "", status: int | None = None, said: str = ""
    ) -> None:
        super().__init__(what, where=where, to_do=to_do)
        self.status, self.said = status, said


class InternalError(Exception):
    """A bug of ours that was noticed: the probe ended a process of the script because it failed itself."""
