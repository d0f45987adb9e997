"""Made-up data with a known truth: clicks in Criteo's shape, and text with topics.

Each sample is a pure function of the seed and its number: every process makes the same data without reading or keeping
any, and a worker makes its own part only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from flota import checks
from flota.data.criteo import DENSE, FEATURES, write_criteo
from flota.data.features import Batch
from flota.data.shards import check_worker, own_batches, own_part
from flota.data.synthetic.planted import (
    GOLDEN,
    ClickModel,
    Floats,
    Integers,
    Zipf,
    chances,
    click_model,
    constant,
    halves,
    mix,
)
from flota.errors import InvalidArgument

_MOST_ROWS = 1 << 40
_MOST_IDS = (1 << 31) - 1
_SEEDS = (-(1 << 63), (1 << 64) - 1)

# As many rows at a time as keep numpy's work in a core's cache and its calls few.
_CHUNK = 8192

# How many times as many ids a feature has as the one before it: among Criteo's some have dozens, some a third of all.
_GROWTH = 1.5

_AUC_ROWS = 1_000_000


@dataclass(frozen=True)
class Clicks:
    """Criteo-shaped clicks: ``rows`` samples of ``dense`` counts, one id for each of ``features`` features, a label.

    Ids follow a zipf law of this exponent. They are numbered through: a feature's ids begin where those of the feature
    before it end, its commonest first. ``vocabulary`` is how many there are, in all (later features have more of them)
    or for each feature.

    What is planted, as the log-odds of a click, is a sum of three parts. Each id has a weight, uniform in [-1, 1]. Each
    pair of neighbouring features (0 and 1, 2 and 3, …) adds the product of a second such number of its two ids: models
    that only add up, such as logistic regression, miss it. Each dense value, ``log1p`` of a count, has a weight too.
    The sum is brought to the same mean and spread for every seed; some 28 % of the samples are clicks. ``bayes_auc``
    is what a model that knows all this would reach.

    ``first`` is the number of the first row: ``split`` makes parts by it. ``sizes`` is how many ids each feature has,
    and their sum ``id_count``: ids are below it.
    """

    rows: int
    seed: int = 0
    features: int = FEATURES
    dense: int = DENSE
    vocabulary: int | Sequence[int] = 1_000_000
    exponent: float = 1.05
    first: int = 0
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        checks.whole("rows", self.rows, 1, _MOST_ROWS)
        checks.whole("first", self.first, 0, _MOST_ROWS)
        checks.whole("seed", self.seed, *_SEEDS)
        checks.whole("features", self.features, 1, 1024)
        checks.whole("dense", self.dense, 0, 1024)
        checks.number("exponent", self.exponent, 0.0, 4.0)
        if isinstance(self.vocabulary, Sequence):
            object.__setattr__(self, "vocabulary", tuple(self.vocabulary))
        object.__setattr__(self, "sizes", _sizes(self.vocabulary, self.features))

    @property
    def id_count(self) -> int:
        """How many ids there are: they are the numbers below it."""
        return sum(self.sizes)

    def split(self, test: float = 0.1) -> tuple[Clicks, Clicks]:
        """Two parts of the same data, for training and for testing; ``test`` is the share of the second."""
        held_out = round(self.rows * checks.number("test", test, 0.0, 1.0))
        if not 0 < held_out < self.rows:
            raise InvalidArgument(f"test={test} of {self.rows} rows leaves a part without rows")
        kept = self.rows - held_out
        return replace(self, rows=kept), replace(self, rows=held_out, first=self.first + kept)

    def batches(self, batch_size: int, worker_index: int = 0, worker_num: int = 1, epoch: int = 0) -> Iterator[Batch]:
        """This worker's batches, ``(dense, ids, label)``: float32 [B, dense], int64 [B, features], float32 [B].

        Each epoch has all samples, each with one worker, in an order of its own; epoch 0 has them by number. The
        workers' batches of a step are together the batch of one process with ``worker_num * batch_size``. The last
        ones may be smaller, and a worker may have one less than others.
        """
        batch_size = checks.whole("batch_size", batch_size, 1, _MOST_ROWS)
        worker_index, worker_num = check_worker(worker_index, worker_num)
        factor, shift = self._order(checks.whole("epoch", epoch, 0, _MOST_ROWS))

        def generate() -> Iterator[Batch]:
            places = own_batches(self.rows, batch_size, worker_index, worker_num)
            while some := list(islice(places, -(-_CHUNK // batch_size))):
                numbers = np.concatenate([np.arange(part.start, part.stop) for part in some])
                dense, ids, _, label = self._model.look((numbers * factor + shift) % self.rows + self.first)
                sizes = [len(part) for part in some]
                yield from map(Batch, *(torch.split(torch.from_numpy(each), sizes) for each in (dense, ids, label)))

        return generate()

    def probabilities(self) -> Floats:
        """Each sample's chance of a click, in the order of epoch 0."""
        return self._probabilities(self.rows)

    def bayes_auc(self) -> float:
        """The AUC that a model would reach, on average over labels, that knows the truth; of a million rows at most."""
        likely = np.sort(self._probabilities(min(self.rows, _AUC_ROWS)))
        unlikely = 1.0 - likely
        pairs = likely.sum() * unlikely.sum() - (likely * unlikely).sum()
        return float((likely * (np.cumsum(unlikely) - unlikely)).sum() / pairs)

    def write(self, path: str | os.PathLike[str], files: int = 1) -> list[Path]:
        """Writes the samples in Criteo's text format as ``part-0``, ``part-1``, … of the folder ``path``."""
        files = checks.whole("files", files, 1, self.rows)
        if (self.dense, self.features) != (DENSE, FEATURES):
            raise InvalidArgument(
                f"Criteo's format has {DENSE} counts and {FEATURES} categories, not {self.dense} and {self.features}"
            )
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"part-{number}" for number in range(files)]
        if others := sorted({*folder.glob("part-*")}.difference(paths)):
            raise InvalidArgument(f"{others[0]} is there already and would be read with the new files; remove it first")
        for number, file in enumerate(paths):
            part = own_part(self.rows, number, files)
            write_criteo(file, replace(self, rows=len(part), first=self.first + part.start).batches(_CHUNK))
        return paths

    @property
    def _model(self) -> ClickModel:
        return click_model(self.seed, self.sizes, self.dense, self.exponent)

    def _order(self, epoch: int) -> tuple[int, int]:
        """(factor, shift): place p of this epoch holds sample ``(p * factor + shift) % rows``."""
        if epoch == 0:
            return 1, 0
        # Below 2**22, so that the product stays within 64 bits.
        factor = int(constant(self.seed, 6, epoch)) % (1 << 22)
        while math.gcd(factor, self.rows) != 1:
            factor += 1
        return factor, int(constant(self.seed, 7, epoch)) % self.rows

    def _probabilities(self, rows: int) -> Floats:
        scores = np.empty(rows)
        for begin in range(0, rows, _CHUNK):
            numbers = np.arange(begin, min(begin + _CHUNK, rows)) + self.first
            scores[begin : begin + _CHUNK] = self._model.look(numbers)[2]
        return chances(scores)


def _sizes(vocabulary: int | Sequence[int], features: int) -> tuple[int, ...]:
    if isinstance(vocabulary, Sequence):
        if len(vocabulary) != features:
            raise InvalidArgument(f"vocabulary has {len(vocabulary)} sizes for {features} features")
        sizes = [checks.whole("each size in vocabulary", size, 1, _MOST_IDS) for size in vocabulary]
        checks.whole("the sum of vocabulary", sum(sizes), 1, _MOST_IDS)
        return tuple(sizes)
    vocabulary = checks.whole("vocabulary", vocabulary, 2 * features, _MOST_IDS)
    shares = _GROWTH ** np.arange(features)
    sizes = [2 + int(size) for size in (vocabulary - 2 * features) * shares / shares.sum()]
    sizes[-1] += vocabulary - sum(sizes)
    return tuple(sizes)


@dataclass(frozen=True)
class MarkovText:
    """Sentences of words ``w0``, ``w1``, … in which the words of a topic stand together, ``tokens`` words in all.

    What is planted: word k has the topic ``k % topics``. A word is followed by one of its own topic with the chance
    ``stay``, else by one of any topic; within a topic words follow a zipf law, the lowest numbers commonest. So the
    next word depends on the last one, and on nothing but its topic: good word vectors lie together by topic.
    """

    tokens: int
    vocabulary: int = 2000
    seed: int = 0
    topics: int = 20
    stay: float = 0.9
    sentence_length: int = 20

    def __post_init__(self) -> None:
        checks.whole("tokens", self.tokens, 1, _MOST_ROWS)
        checks.whole("vocabulary", self.vocabulary, 1, _MOST_IDS)
        checks.whole("seed", self.seed, *_SEEDS)
        checks.whole("topics", self.topics, 1, self.vocabulary)
        checks.number("stay", self.stay, 0.0, 1.0)
        checks.whole("sentence_length", self.sentence_length, 1, 1 << 20)
        if self.vocabulary % self.topics:
            raise InvalidArgument(f"vocabulary={self.vocabulary} must be a multiple of topics={self.topics}")

    def topic(self, word: str) -> int:
        """The topic that a word was planted in."""
        if word[:1] != "w" or not word[1:].isdecimal() or int(word[1:]) >= self.vocabulary:
            raise InvalidArgument(f"{word!r} is none of the words w0 to w{self.vocabulary - 1}")
        return int(word[1:]) % self.topics

    def sentences(self) -> Iterator[list[str]]:
        """The sentences, each a list of words; the last one may be shorter."""
        names = np.array([f"w{number}" for number in range(self.vocabulary)], dtype=object)
        law = Zipf(self.vocabulary // self.topics, 1.0)
        step = max(1, _CHUNK // self.sentence_length) * self.sentence_length
        for begin in range(0, self.tokens, step):
            count = min(step, self.tokens - begin)
            words = names[self._words(np.arange(begin, begin + step), law)[:count]].tolist()
            for place in range(0, count, self.sentence_length):
                yield words[place : place + self.sentence_length]

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Writes one sentence a line, words between spaces."""
        file = Path(path)
        with file.open("w", encoding="ascii") as stream:
            stream.writelines(" ".join(sentence) + "\n" for sentence in self.sentences())
        return file

    def _words(self, places: Integers, law: Zipf) -> Integers:
        salted = mix(places.astype(np.uint64) * GOLDEN + constant(self.seed, 8))
        rank_bits, jump_bits = halves(mix(salted + constant(self.seed, 9)))
        topic_bits, _ = halves(mix(salted + constant(self.seed, 10)))
        jumps = (jump_bits >= self.stay * 2.0**32) | (places % self.sentence_length == 0)
        # A word's topic was chosen at the last jump before it; chunks begin with a sentence, and so with a jump.
        last_jump = np.maximum.accumulate(np.where(jumps, np.arange(len(places)), 0))
        topics = (topic_bits * self.topics >> 32)[last_jump]
        return law.draw(rank_bits) * self.topics + topics
