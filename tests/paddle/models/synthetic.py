"""Small data for the models, the same whenever it is written."""

import os

import numpy as np


def write(model, folder, lines=640, number=0):
    """A file of as many lines as the model's reader reads them."""
    random = np.random.RandomState(11 + number)
    with open(os.path.join(folder, "part-%d" % number), "w") as out:
        for _ in range(lines):
            out.write(MAKERS[model](random) + "\n")


def _words(values):
    return " ".join(map(str, values))


def _din(random):
    count = random.randint(1, 9)
    items = random.randint(1, 60, count)
    item = random.randint(1, 60)
    label = int(np.any(items % 9 == item % 9) or random.rand() < 0.2)
    return ";".join([_words(items), _words(items % 9), str(item), str(item % 9), str(label)])


def _mmoe(random):
    features = random.rand(20).round(3)
    income = int(features[:10].sum() + random.randn() * 0.3 > 5)
    return ",".join(map(str, [*features, income, int(features[5:15].sum() > 5)]))


def _esmm(random):
    features = [f"{slot}:{random.randint(1, 200)}" for slot in range(3) for _ in range(random.randint(0, 4))]
    click = int(sum(int(each.split(":")[1]) % 3 == 0 for each in features) > 1)
    return f"{click},{int(click and random.rand() < 0.4)},{' '.join(features)}"


def _two_tower(random):
    user, item = random.randint(0, 90, 3), random.randint(1, 40, 2)
    return f"{_words(user)}|{_words(item)}|{random.uniform(0.01, 1):.4f}"


def _gru4rec(random):
    start = random.randint(1, 50)
    return _words((start + step * 3) % 49 + 1 for step in range(random.randint(2, 9)))


def _word2vec(random):
    start = random.randint(0, 30)
    return _words((start + step * 7) % 30 for step in range(8))


MAKERS = {
    "din": _din,
    "mmoe": _mmoe,
    "esmm": _esmm,
    "two_tower": _two_tower,
    "gru4rec": _gru4rec,
    "word2vec": _word2vec,
}
