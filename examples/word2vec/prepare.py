"""Splits a corpus into shards for the workers of train.py: train.txt-00000, train.txt-00001, …

    python examples/word2vec/prepare.py --out word2vec_data                        generated text, 4 shards
    python examples/word2vec/prepare.py --out word2vec_data --corpus text8.txt     one sentence a line, your own

Generated text has topics: a word is mostly followed by words of its own topic, so word vectors that have learnt
something lie together by topic. Lines go to the shards in turn; every tenth is kept for testing (test.txt-0000N).
word_dict.json holds the words that are common enough, the commonest first, how often each occurs, and its topic.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

from flota.data.synthetic import MarkovText

TEST_EVERY = 10


def read_sentences(corpus: Path) -> Iterator[list[str]]:
    with corpus.open(encoding="utf-8") as lines:
        yield from (line.split() for line in lines)


def split_into_shards(sentences: Iterator[list[str]], folder: Path, shards: int) -> Counter[str]:
    """Writes train.txt-0000N and test.txt-0000N, and counts the words of the training lines."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        files = {
            kind: [
                stack.enter_context((folder / f"{kind}.txt-{shard:05d}").open("w", encoding="utf-8"))
                for shard in range(shards)
            ]
            for kind in ("train", "test")
        }
        written = {"train": count(), "test": count()}
        for number, words in enumerate(sentences):
            kind = "test" if number % TEST_EVERY == TEST_EVERY - 1 else "train"
            files[kind][next(written[kind]) % shards].write(" ".join(words) + "\n")
            if kind == "train":
                counts.update(words)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("word2vec_data"), help="folder (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, help="text of your own, one sentence a line")
    parser.add_argument("--shards", type=int, default=4, help="files to split into (default: %(default)s)")
    parser.add_argument("--min_count", type=int, default=5, help="rarer words are left out (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=400_000, help="length of generated text (default: %(default)s)")
    parser.add_argument("--vocabulary", type=int, default=1000, help="its number of words (default: %(default)s)")
    parser.add_argument("--topics", type=int, default=20, help="its number of topics (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.shards < 1:
        parser.error("--shards must be at least 1")

    text = MarkovText(arguments.tokens, arguments.vocabulary, arguments.seed, arguments.topics)
    sentences = text.sentences() if arguments.corpus is None else read_sentences(arguments.corpus)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for old in arguments.out.glob("*.txt-*"):
        old.unlink()  # a shard of an earlier, larger split would be trained on as well
    counts = split_into_shards(sentences, arguments.out, arguments.shards)
    common = [(word, number) for word, number in counts.most_common() if number >= arguments.min_count]
    if len(common) < 2:
        raise SystemExit(f"fewer than two words occur {arguments.min_count} times: nothing to train")
    dictionary = {
        "words": [word for word, _ in common],
        "counts": [number for _, number in common],
        "topics": [text.topic(word) for word, _ in common] if arguments.corpus is None else None,
    }
    (arguments.out / "word_dict.json").write_text(json.dumps(dictionary))
    print(f"{arguments.out}: {len(common):,} words, {sum(counts.values()):,} tokens in {arguments.shards} shards")


if __name__ == "__main__":
    main()
