"""Made-up text: the same everywhere, and with the topics that were planted."""

from collections import Counter
from itertools import pairwise

import pytest

from flota.data.synthetic import MarkovText
from flota.errors import InvalidArgument

TEXT = MarkovText(50_000, vocabulary=1000, seed=3, topics=10)


def test_it_has_as_many_words_as_asked_for():
    lengths = [len(sentence) for sentence in MarkovText(1003, vocabulary=100, topics=5).sentences()]
    assert lengths == [20] * 50 + [3]


def test_the_same_settings_make_the_same_text():
    same = MarkovText(50_000, vocabulary=1000, seed=3, topics=10)
    assert list(TEXT.sentences()) == list(same.sentences())
    other = MarkovText(50_000, vocabulary=1000, seed=4, topics=10)
    assert list(TEXT.sentences()) != list(other.sentences())


def test_a_longer_text_begins_with_the_shorter():
    longer = MarkovText(90_000, vocabulary=1000, seed=3, topics=10)
    assert list(longer.sentences())[: 50_000 // 20] == list(TEXT.sentences())


def test_words_come_from_the_vocabulary_and_lower_ones_are_commoner():
    counts = Counter(word for sentence in TEXT.sentences() for word in sentence)
    assert set(counts) <= {f"w{number}" for number in range(1000)}
    assert len(counts) > 900
    first, tenth = (sum(counts[f"w{rank * 10 + topic}"] for topic in range(10)) for rank in (0, 9))
    assert first / tenth == pytest.approx(10, rel=0.2)


def test_words_are_followed_by_words_of_their_topic():
    same = [TEXT.topic(a) == TEXT.topic(b) for sentence in TEXT.sentences() for a, b in pairwise(sentence)]
    assert sum(same) / len(same) == pytest.approx(0.9 + 0.1 / 10, abs=0.01)


def test_all_topics_are_as_common():
    counts = Counter(TEXT.topic(word) for sentence in TEXT.sentences() for word in sentence)
    assert sorted(counts) == list(range(10))
    assert max(counts.values()) / min(counts.values()) < 1.3


def test_within_a_topic_the_next_word_does_not_depend_on_the_last():
    """No structure but the topics: after w0 and after w10 the words of topic 0 are as common."""
    after = {"w0": Counter(), "w10": Counter()}
    for sentence in TEXT.sentences():
        for a, b in pairwise(sentence):
            if a in after and TEXT.topic(b) == 0:
                after[a][b] += 1
    shares = [counts["w0"] / counts.total() for counts in after.values()]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)


def test_a_written_text_has_a_sentence_a_line(tmp_path):
    path = TEXT.write(tmp_path / "train.txt")
    assert [line.split(" ") for line in path.read_text().splitlines()] == list(TEXT.sentences())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MarkovText(0), "tokens must be a whole number from 1"),
        (lambda: MarkovText(1, vocabulary=7, topics=2), "vocabulary=7 must be a multiple of topics=2"),
        (lambda: MarkovText(1, vocabulary=7, topics=8), "topics must be a whole number from 1 to 7, not 8"),
        (lambda: MarkovText(1, stay=1.5), "stay must be a number from 0 to 1, not 1.5"),
        (lambda: MarkovText(1, sentence_length=0), "sentence_length must be a whole number from 1"),
        (lambda: TEXT.topic("w1000"), "'w1000' is none of the words w0 to w999"),
        (lambda: TEXT.topic("word"), "'word' is none of the words"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()
