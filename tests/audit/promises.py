"""The lists of promises, as they are written down in promises/*.toml."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent / "promises"
KNOWN = {"text", "command", "shows", "at_least", "at_most", "worst", "minutes"}


@dataclass(frozen=True)
class Promise:
    text: str
    command: str
    shows: str = ""
    at_least: float | None = None
    at_most: float | None = None
    worst: bool = False
    minutes: float = 5.0

    @property
    def expected(self):
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.at_least), ("at most", self.at_most))
            if bound is not None
        ]
        return " and ".join(bounds) or (f"status 0, `{self.shows}`" if self.shows else "status 0")

    def judge(self, status, output):
        """Whether it holds, and what was found."""
        if status != 0:
            return False, "no end in time" if status is None else f"status {status}"
        if not self.shows:
            # A run in which all was skipped has status 0, too.
            return "pytest" not in self.command or "passed" in summary(output), summary(output)
        matches = [match.group(match.lastindex or 0) for match in re.finditer(self.shows, output)]
        if not matches:
            return False, "not found"
        if self.at_least is None and self.at_most is None:
            return True, matches[-1]
        values = [float(text.replace(",", "")) for text in matches]
        worst = min if self.at_least is not None else max
        value = worst(values) if self.worst else values[-1]
        holds = (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)
        return holds, f"{value:g}"


@dataclass(frozen=True)
class Subject:
    title: str
    order: int
    promises: list[Promise]


def summary(output):
    """Of pytest, how many passed; else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return "nothing said"
    passed = re.search(r"\d+ passed[^=]*?(?= in )", lines[-1])
    return passed[0] if passed else lines[-1][-100:]


def subjects():
    found = [_subject(path) for path in sorted(FOLDER.glob("*.toml"))]
    return sorted(found, key=lambda subject: subject.order)


def _subject(path):
    told = tomllib.loads(path.read_text())
    promises = []
    for entry in told["promise"]:
        unknown = set(entry) - KNOWN
        assert not unknown, f"{path.name}: {sorted(unknown)} is none of {sorted(KNOWN)}"
        promise = Promise(**entry)
        bounded = promise.at_least is not None or promise.at_most is not None
        assert not bounded or re.compile(promise.shows).groups == 1, f"{path.name}: a bound is of one group: {entry}"
        promises.append(promise)
    return Subject(told["title"], told["order"], promises)
