"""Which keys of a sparse table get rows, where not all do.

A key without a row reads as zeros. It is counted by pushes, which servers apply exactly once, so that a lookup that is
made again or thrown away counts nothing. The push that lets a key in makes its row, which learns from the next one on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flota import _core
from flota.checks import whole
from flota.errors import InvalidArgument

# Keys that are counted and have no row yet: of a table, over all servers. Each takes 50 to 100 bytes.
_WAITING = 1 << 24
_MOST_WAITING = 1 << 32


@dataclass(frozen=True)
class Admission:
    """What all of them share. Use one of the subclasses."""

    def to_native(self) -> _core.AdmissionSpec:
        raise TypeError(f"{type(self).__name__} admits no keys of its own; use Count, Probability or ShowClick")

    def to_json(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, **asdict(self)}


def _number(name: str, value: object, low: float, high: float = float("inf")) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise InvalidArgument(f"{name} must be a number from {low:g}{'' if high == float('inf') else f' to {high:g}'}")
    return float(value)


@dataclass(frozen=True)
class Count(Admission):
    """Keys that have appeared ``count`` times in what was trained. ``waiting``: how many keys without a row are counted
    at a time; beyond that, those are forgotten that were seen the longest ago."""

    count: int
    waiting: int = _WAITING

    def __post_init__(self) -> None:
        whole("count", self.count, 1, _core.MAX_COUNT)
        whole("waiting", self.waiting, _core.SHARDS, _MOST_WAITING)

    def to_native(self) -> _core.AdmissionSpec:
        spec = _core.AdmissionSpec()
        spec.kind = _core.AdmissionKind.count
        spec.threshold = float(self.count)
        spec.waiting = self.waiting
        return spec


@dataclass(frozen=True)
class Probability(Admission):
    """Each appearance of a key lets it in with this probability; nothing is counted."""

    probability: float

    def __post_init__(self) -> None:
        if _number("probability", self.probability, 0.0, 1.0) == 0:
            raise InvalidArgument("probability must be above 0")

    def to_native(self) -> _core.AdmissionSpec:
        spec = _core.AdmissionSpec()
        spec.kind = _core.AdmissionKind.probability
        spec.probability = float(self.probability)
        return spec


@dataclass(frozen=True)
class ShowClick(Admission):
    """Keys whose score has reached ``threshold``; 0 lets all in. A sample that a key is in adds ``show_weight`` to its
    score, or ``click_weight`` if it was clicked: ``with flota.nn.shown(clicks=labels): model(…)`` says which were. Rows
    go on counting, for ``flota.shrink(min_score=…)``."""

    threshold: float = 0.0
    show_weight: float = 0.1
    click_weight: float = 1.0
    waiting: int = _WAITING

    def __post_init__(self) -> None:
        for name in ("threshold", "show_weight", "click_weight"):
            _number(name, getattr(self, name), 0.0)
        whole("waiting", self.waiting, _core.SHARDS, _MOST_WAITING)

    def to_native(self) -> _core.AdmissionSpec:
        spec = _core.AdmissionSpec()
        spec.kind = _core.AdmissionKind.show_click
        spec.threshold = float(self.threshold)
        spec.show_weight = float(self.show_weight)
        spec.click_weight = float(self.click_weight)
        spec.waiting = self.waiting
        return spec


ADMISSIONS: dict[str, type[Admission]] = {kind.__name__: kind for kind in (Count, Probability, ShowClick)}


def from_native(spec: _core.AdmissionSpec) -> Admission | None:
    """The admission that the core's description stands for; None: all keys."""
    if spec.kind == _core.AdmissionKind.count:
        return Count(int(spec.threshold), spec.waiting)
    if spec.kind == _core.AdmissionKind.probability:
        return Probability(spec.probability)
    if spec.kind == _core.AdmissionKind.show_click:
        return ShowClick(spec.threshold, spec.show_weight, spec.click_weight, spec.waiting)
    return None


def to_native(admission: Admission | None) -> _core.AdmissionSpec:
    return _core.AdmissionSpec() if admission is None else admission.to_native()


def checked(admission: Admission | None) -> Admission | None:
    if admission is not None and not isinstance(admission, Admission):
        raise InvalidArgument(f"admission must be one of flota.admission, such as Count(5), not {admission!r}")
    return admission


def without(spec: _core.TableSpec) -> _core.TableSpec:
    """The same table, if it admitted all keys: its rows begin with the same weights and state."""
    plain = _core.TableSpec()
    for name in ("name", "kind", "storage", "allow_nonfinite", "dim", "shape", "seed", "rule", "init", "blocks"):
        setattr(plain, name, getattr(spec, name))
    return plain


# What rows keep beside their rule's state, where admission keeps scores.
SCORES = ("shows", "clicks")


def score_floats(spec: _core.TableSpec) -> int:
    return len(SCORES) if spec.admission.keeps_scores() else 0
