"""Numbers that look random and are pure functions of what they are asked for: no state, and no table of a vocabulary.

Only integer arithmetic decides what a sample holds, so that every machine makes the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = (1 << 64) - 1
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def mix(bits: Bits) -> Bits:
    """Scrambles each number in place: the last step of splitmix64, a bijection of 64 bits."""
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def constant(*parts: int) -> np.uint64:
    """One number for a few others, in their order."""
    state = np.zeros(1, dtype=np.uint64)
    for part in parts:
        state = mix((state ^ np.uint64(part & _WORD)) + GOLDEN)
    return np.uint64(state[0])


def halves(bits: Bits) -> tuple[Integers, Integers]:
    """Each number's upper and lower 32 bits."""
    return (bits >> _HALF).view(np.int64), (bits & _LOW_HALF).view(np.int64)


class Zipf:
    """Draws 0, 1, … ``size - 1`` with chances of about ``1 / (number + 1) ** exponent``.

    The law's quantiles are laid down at 4,096 points and joined by straight lines. Of 32 random bits 12 choose a piece
    and 20 the place on it: two look-ups in a table that fits a core's cache, where powers would cost ten times as much.
    """

    _PIECE_BITS = 12
    _PLACE_BITS = 20
    _FRACTION_BITS = 12

    def __init__(self, size: int, exponent: float) -> None:
        chances = np.linspace(0.0, 1.0, (1 << self._PIECE_BITS) + 1)
        # Number n stands for [n + 1/2, n + 3/2) of a power law over the reals.
        low, high, power = 0.5, size + 0.5, 1.0 - exponent
        if abs(power) < 1e-9:
            quantiles = low * (high / low) ** chances
        else:
            quantiles = (low**power + chances * (high**power - low**power)) ** (1.0 / power)
        points = np.floor((quantiles - low) * (1 << self._FRACTION_BITS)).astype(np.int64)
        points[0], points[-1] = 0, size << self._FRACTION_BITS
        self._begin = points[:-1].copy()
        self._length = np.diff(points)

    def draw(self, bits: Integers) -> Integers:
        """A number for each 32 bits."""
        piece = bits >> self._PLACE_BITS
        numbers = self._length.take(piece)
        numbers *= bits & ((1 << self._PLACE_BITS) - 1)
        numbers >>= self._PLACE_BITS
        numbers += self._begin.take(piece)
        numbers >>= self._FRACTION_BITS
        return numbers


class ClickModel:
    """The truth behind ``synthetic.Clicks``: what row n holds, and how likely its click is."""

    _COUNTS = 1000
    _DENSE_EXPONENT = 1.05
    _DENSE_WEIGHT = 0.5
    _SPREAD = 1.75
    _CENTRE = -1.4
    _PILOT = np.arange(1 << 62, (1 << 62) + 8192)

    def __init__(self, seed: int, sizes: Sequence[int], dense: int, exponent: float) -> None:
        self.sizes = tuple(sizes)
        self.dense = dense
        self._offsets = [sum(sizes[:feature]) for feature in range(len(sizes))]
        laws = {size: Zipf(size, exponent) for size in set(sizes)}
        self._laws = [laws[size] for size in sizes]
        self._count_law = Zipf(self._COUNTS, self._DENSE_EXPONENT)
        self._log_counts = np.log1p(np.arange(self._COUNTS)).astype(np.float32)
        self._row_salt, self._id_salt, self._label_salt = (constant(seed, part) for part in range(3))
        self._id_salts = [constant(seed, 3, pair) for pair in range(0, len(sizes), 2)]
        self._count_salts = [constant(seed, 4, pair) for pair in range(0, dense, 2)]
        signs = [int(constant(seed, 5, column)) / 2**63 - 1.0 for column in range(dense)]
        self._dense_weights = np.array(signs) * self._DENSE_WEIGHT
        # Scores of different seeds come out alike, whatever weights their commonest ids happened to get.
        self._shift, self._scale = 0.0, 1.0
        scores = self.look(self._PILOT)[2]
        self._scale = self._SPREAD / (float(scores.std()) or 1.0)
        self._shift = self._CENTRE - self._scale * float(scores.mean())

    def look(self, rows: Integers) -> tuple[npt.NDArray[np.float32], Integers, Floats, npt.NDArray[np.float32]]:
        """(dense, ids, scores, labels) of these rows. A click's chance is the logistic function of the score."""
        salted = mix(rows.astype(np.uint64) * GOLDEN + self._row_salt)
        scores = np.zeros(len(rows))
        ids = self._ids(salted, scores)
        dense = self._dense(salted, scores)
        scores *= self._scale
        scores += self._shift
        luck = (mix(salted + self._label_salt) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return dense, ids, scores, (luck < chances(scores)).astype(np.float32)

    def _ids(self, salted: Bits, scores: Floats) -> Integers:
        ids = np.empty((len(salted), len(self.sizes)), dtype=np.int64)
        for pair, salt in enumerate(self._id_salts):
            tastes = []
            for feature, bits in enumerate(halves(mix(salted + salt)), 2 * pair):
                if feature == len(self.sizes):
                    break
                column = self._laws[feature].draw(bits)
                column += self._offsets[feature]
                ids[:, feature] = column
                hashed = mix(column.view(np.uint64) * GOLDEN + self._id_salt)
                scores += (hashed.view(np.int64) >> 32) * 2.0**-31
                tastes.append(((hashed << _HALF).view(np.int64) >> 32) * 2.0**-31)
            if len(tastes) == 2:
                scores += tastes[0] * tastes[1]
        return ids

    def _dense(self, salted: Bits, scores: Floats) -> npt.NDArray[np.float32]:
        dense = np.empty((len(salted), self.dense), dtype=np.float32)
        for pair, salt in enumerate(self._count_salts):
            for column, bits in enumerate(halves(mix(salted + salt)), 2 * pair):
                if column == self.dense:
                    break
                values = self._log_counts.take(self._count_law.draw(bits))
                dense[:, column] = values
                scores += values * self._dense_weights[column]
        return dense


@lru_cache(maxsize=8)
def click_model(seed: int, sizes: tuple[int, ...], dense: int, exponent: float) -> ClickModel:
    """The model of these settings; a data set and its parts share one."""
    return ClickModel(seed, sizes, dense, exponent)


def chances(scores: Floats) -> Floats:
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-scores))
