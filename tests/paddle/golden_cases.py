"""What a case is, the inputs that it is made of, and the file of golden values."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 7
GOLDEN = Path(__file__).parent / "golden" / "operations.npz"

Made = Callable[[np.random.RandomState], Any]


@dataclass(frozen=True)
class Sequences:
    """Sequences of these lengths, one after the other."""

    values: np.ndarray
    lengths: tuple[int, ...]

    def offsets(self) -> np.ndarray:
        return np.cumsum([0, *self.lengths])


@dataclass(frozen=True)
class Case:
    """``reference``: the reference's name for the operation, within ``paddle``; or what computes it, given ``paddle``
    and the arguments. ``programs``: the reference has it in programs only. ``fixed``: inputs without a gradient.
    ``results``: how many of the results are compared; None: all."""

    operation: str
    inputs: Mapping[str, Made | list[Made]]
    options: Mapping[str, Any] = field(default_factory=dict)
    reference: str | Callable[..., Any] | None = None
    label: str = ""
    programs: bool = False
    fixed: tuple[str, ...] = ()
    results: int | None = None

    @property
    def name(self) -> str:
        return f"{self.operation}-{self.label}" if self.label else self.operation

    def arguments(self) -> dict[str, Any]:
        """The inputs' numbers, the same whenever they are made."""
        made = {}
        for key, spec in self.inputs.items():
            random = np.random.RandomState(_seed(f"{self.name}/{key}"))
            made[key] = [each(random) for each in spec] if isinstance(spec, list) else spec(random)
        return made

    def weights(self, result: int, shape: tuple[int, ...]) -> np.ndarray:
        """What a result is multiplied by before all are summed: so each of its elements has a gradient of its own."""
        random = np.random.RandomState(_seed(f"{self.name}/weights/{result}"))
        return np.asarray(random.randn(*shape), np.float32)


def _seed(text: str) -> int:
    return zlib.crc32(text.encode())


# --- inputs ---


def real(*shape: int) -> Made:
    return lambda random: random.randn(*shape).astype(np.float32)


def between(low: float, high: float, *shape: int) -> Made:
    return lambda random: random.uniform(low, high, shape).astype(np.float32)


def whole(low: int, high: int, *shape: int) -> Made:
    return lambda random: random.randint(low, high, shape).astype(np.int64)


def truth(*shape: int) -> Made:
    return lambda random: random.rand(*shape) > 0.5


def given(values: Any, dtype: str = "float32") -> Made:
    return lambda random: np.array(values, dtype)


def shares(*shape: int) -> Made:
    """Probabilities that sum to 1 along the last side."""

    def make(random: np.random.RandomState) -> np.ndarray:
        numbers = random.uniform(0.1, 1.0, shape)
        return (numbers / numbers.sum(-1, keepdims=True)).astype(np.float32)

    return make


def different(*shape: int) -> Made:
    """No two are equal, so that their order is one."""
    return lambda random: random.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


def sequences(lengths: tuple[int, ...], *inner: int) -> Made:
    return lambda random: Sequences(random.randn(sum(lengths), *inner).astype(np.float32), lengths)


# --- golden values ---


def save_goldens(values: Mapping[str, np.ndarray]) -> None:
    """All arrays of a type in one, and a list of which is where: a file of its own for each would be mostly headers."""
    index, flat = [], dict[str, list[np.ndarray]]()
    for key, value in values.items():
        array = np.asarray(value)
        index.append([key, array.dtype.name, array.shape])
        flat.setdefault(array.dtype.name, []).append(array.reshape(-1))
    GOLDEN.parent.mkdir(exist_ok=True)
    packed = {name: np.concatenate(arrays) for name, arrays in flat.items()}
    np.savez_compressed(GOLDEN, index=np.frombuffer(json.dumps(index).encode(), np.uint8), **packed)


def load_goldens() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as stored:
        packed = {name: stored[name] for name in stored.files}
    found, read = {}, dict.fromkeys(packed, 0)
    for key, dtype, shape in json.loads(packed["index"].tobytes()):
        count = int(np.prod(shape))
        found[key] = packed[dtype][read[dtype] : read[dtype] + count].reshape(shape)
        read[dtype] += count
    return found


FUNCTIONAL = "nn.functional."  # where the reference has it
