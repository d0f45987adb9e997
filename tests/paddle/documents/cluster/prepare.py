"""Text, its dictionary, and the text split in as many files as there are to be shares: document 002's prepare.py, on
text that is made here (imikolov's is downloaded)."""

import os
import pickle
import random

SPLIT_COUNT = 4
WORDS = 60
LINES = {"train": 1600, "test": 160}


def sentence(rng):
    """After each word comes, four times in five, the one that is seven further."""
    word = rng.randrange(WORDS)
    words = [word]
    for _ in range(9):
        word = (word + 7) % WORDS if rng.random() < 0.8 else rng.randrange(WORDS)
        words.append(word)
    return " ".join("w%d" % word for word in words)


def split(lines, name):
    """train.txt, train.txt-00000, train.txt-00001, ..."""
    with open(name, "w") as f:
        f.writelines(line + "\n" for line in lines)
    for i in range(SPLIT_COUNT):
        with open("%s-%05d" % (name, i), "w") as f:
            f.writelines(line + "\n" for line in lines[i::SPLIT_COUNT])


if __name__ == "__main__":
    rng = random.Random(7)
    for kind, count in LINES.items():
        split([sentence(rng) for _ in range(count)], kind + ".txt")
        os.makedirs(kind + "_data_dir", exist_ok=True)
        for i in range(SPLIT_COUNT):
            name = "%s.txt-%05d" % (kind, i)
            os.rename(name, os.path.join(kind + "_data_dir", name))
    with open("word_dict.pickle", "wb") as f:
        pickle.dump({"w%d" % i: i for i in range(WORDS)}, f)
