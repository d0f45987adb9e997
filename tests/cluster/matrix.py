"""The kill matrix: every victim, moment, mode and fault, and what is promised for each."""

from dataclasses import dataclass

from faults import KINDS, MOMENTS, Fault

VICTIMS = ("worker", "server", "server 0", "launcher")
MODES = ("sync", "async", "geo")

# How a job may end; every way includes that the parameters at the end are checked.
GOES_ON = "goes on by itself"
RESUMES = "is taken up again by --resume"
BEGINS_ANEW = "begins anew"
NOT_HURT = "is not hurt"
NAMED = "goes on by itself, or ends naming who is missing and is taken up again by --resume"

PROCESSES = {"worker": "worker 1", "server": "server 1", "server 0": "server 0", "launcher": "launcher"}


@dataclass(frozen=True)
class Cell:
    victim: str
    moment: str
    mode: str
    kind: str

    @property
    def name(self):
        return f"{self.mode}-{self.kind}-{self.victim.replace(' ', '')}-{self.moment}"

    @property
    def why_not(self):
        """Why there is no such case, or None."""
        if self.victim == "launcher" and self.kind == "cut":
            return "no training goes through the launcher: it has no connection to cut"
        if self.victim == "worker" and self.kind == "disk" and self.moment != "save":
            return "a worker writes to disk in saves only"
        return None

    @property
    def promise(self):
        if self.victim == "launcher":
            if self.kind != "kill":
                return NOT_HURT
            return BEGINS_ANEW if self.moment == "start-up" else RESUMES
        if self.kind == "stop":
            return NAMED
        return GOES_ON

    def fault(self):
        victim = PROCESSES[self.victim]
        # Only worker 0 writes checkpoints, and who is to die in the middle of one must be writing it.
        if self.moment == "save" and self.victim == "worker":
            victim = "worker 0"
        by = "worker 0" if self.moment == "save" else "worker 1"
        if self.moment == "start-up" and self.victim != "launcher":
            by = victim
        return Fault(victim, self.moment, self.kind, by, step=5, delay=DELAYS[self.moment])


# Seconds into the moment: small ones, so that what is done there is under way and not over.
DELAYS = {
    "start-up": 0.02,
    "pull": 0.0005,
    "push": 0.0005,
    "barrier": 0.2,
    "save": 0.01,
    "restore": 0.02,
    "shutdown": 0.002,
}

CELLS = [
    Cell(victim, moment, mode, kind) for kind in KINDS for mode in MODES for victim in VICTIMS for moment in MOMENTS
]
