"""Which processes are started again after their end, how soon, and how often.

What may pass is worth another start: a signal (the kernel's, when memory is short; an operator's), a server that did
not answer in time, an error after long work. An error at the beginning is most likely the script's own, and comes
again: such a job ends at once, and whoever wrote the script reads why.
"""

from __future__ import annotations

from dataclasses import dataclass

from flota.report import NOBODY_LEFT

DEFAULT_RESTARTS = 3

# A process that has run so long has left behind what ended it before: its restarts are counted from 0 again.
FORGIVEN_AFTER = 600.0  # seconds
# An error sooner than this is taken for the script's own.
OWN_ERROR_WITHIN = 60.0
LONGEST_WAIT = 30.0

_CALLED_WRONGLY = 2  # what argparse and every shell end with
_SIGNALLED = range(129, 129 + 64)  # a shell adds 128 to the number of the signal that ended what it ran


@dataclass(frozen=True)
class Ending:
    """How one process ended."""

    role: str
    status: int  # as subprocess has it: below 0 for a signal
    ran: float  # seconds
    used: int  # restarts that it had before
    may_pass: bool = False  # it said itself that only the surroundings were at fault


@dataclass(frozen=True)
class Verdict:
    """Whether a process is started again: after so many seconds as its n-th restart; or why it is not."""

    wait: float | None
    restart: int = 0
    reason: str = ""

    @property
    def again(self) -> bool:
        return self.wait is not None


def judge(ending: Ending, most: int, *, durable: bool) -> Verdict:
    """``most``: restarts that a process may have. ``durable``: if it is a server, it finds what it had."""
    if most == 0 or ending.status == 0:
        return Verdict(None)
    reason = _reason_against(ending, durable=durable)
    if reason:
        return Verdict(None, reason=reason)
    used = 0 if ending.ran >= FORGIVEN_AFTER else ending.used
    if used >= most:
        return Verdict(None, reason=f"it has had {most} restart{'s' * (most > 1)} already (--max_restarts={most})")
    return Verdict(min(2.0**used, LONGEST_WAIT), used + 1)


def _reason_against(ending: Ending, *, durable: bool) -> str:
    if ending.role == "server" and ending.status == NOBODY_LEFT:
        return "it had waited for workers, and none came back"
    if ending.role == "server" and not durable:
        return "it has kept nothing on disk (--durable), and would come back empty"
    if ending.status == _CALLED_WRONGLY:
        return "exit status 2 says that it was called wrongly"
    signalled = ending.status < 0 or ending.status in _SIGNALLED
    if not signalled and not ending.may_pass and ending.ran < OWN_ERROR_WITHIN:
        return f"an error in the first {OWN_ERROR_WITHIN:.0f} s is taken for the script's own, and would come again"
    return ""
