"""The examples, at small size, as a reader would run them."""

import csv
import os
import re
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from flota.data.synthetic import Clicks

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = ["--rows=12000", "--batch_size=64", "--learning_rate=0.05"]
MODES = ["sync", "async", "geo"]


def run(folder, script, *arguments, workers=0):
    """What a reader sees at the end: of a launch, the log of worker 0."""
    command = [sys.executable]
    if workers:
        command += ["-m", "flota.launch", "--server_num=1", f"--worker_num={workers}", "--view=none"]
    done = subprocess.run(
        [*command, EXAMPLES / script, *arguments],
        # Small arithmetic on a busy machine: more threads would only be in the way.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not workers or not (folder / "log" / "workerlog.1").read_text(), "worker 1 has nothing to say"
    return (folder / "log" / "workerlog.0").read_text() if workers else done.stdout


def auc(output):
    *_, before_last, last = output.splitlines()
    assert last.startswith("next: examples/README.md"), output
    return float(re.search(r"test AUC (0\.\d{4})$", before_last)[1])


@pytest.fixture(scope="module")
def wide_and_deep_alone(tmp_path_factory):
    # Both workers' batches together.
    arguments = [*SMALL, "--batch_size=128"]
    return auc(run(tmp_path_factory.mktemp("alone"), "wide_and_deep.py", *arguments))


def test_wide_and_deep_learns_alone(wide_and_deep_alone):
    assert wide_and_deep_alone > 0.68


@pytest.mark.parametrize("mode", MODES)
def test_wide_and_deep_learns_in_every_mode(tmp_path, wide_and_deep_alone, mode):
    area = auc(run(tmp_path, "wide_and_deep.py", *SMALL, "--mode", mode, workers=2))
    if mode == "sync":
        assert area == pytest.approx(wide_and_deep_alone, abs=2e-3), "the same training as one process's"
    else:
        assert area > 0.65


def test_ctr_dnn_trains_locally_whatever_started_it(tmp_path):
    arguments = ["--is_local=1", *SMALL, "--width=64", "--epochs=2"]
    output = run(tmp_path, "ctr_dnn.py", *arguments)
    assert auc(output) > 0.68
    assert re.findall(r"epoch (\d): test AUC", output) == ["0", "1"]


@pytest.mark.parametrize("mode", MODES)
def test_ctr_dnn_reads_criteo_files_in_every_mode(tmp_path, mode):
    train, test = Clicks(12000).split()
    files = train.write(tmp_path / "raw_data", files=5)
    held_out = test.write(tmp_path / "raw_test")
    arguments = ["--files", *files, "--test_files", *held_out, "--batch_size=64", "--width=64", "--learning_rate=0.05"]
    assert auc(run(tmp_path, "ctr_dnn.py", *arguments, "--mode", mode, "--k_steps=20", workers=2)) > 0.65


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    arguments = ["--out", folder / "data", "--shards=3", "--tokens=60000", "--vocabulary=300", "--topics=6"]
    run(folder, "word2vec/prepare.py", *arguments)
    return folder / "data"


def test_prepare_puts_every_line_into_one_shard(corpus):
    names = sorted(file.name for file in corpus.iterdir())
    shards = [f"{kind}.txt-0000{number}" for kind in ("test", "train") for number in range(3)]
    assert names == [*shards, "word_dict.json"]
    lines = [len((corpus / shard).read_text().splitlines()) for shard in shards]
    assert lines == [100, 100, 100, 900, 900, 900], "60,000 words are 3,000 lines of 20, a tenth of them for testing"


@pytest.mark.parametrize("mode", ["alone", *MODES])
def test_word2vec_finds_the_topics(tmp_path, corpus, mode):
    arguments = ["--data", corpus, "--dim=16", "--batch_size=512", "--window=2"]
    if mode == "alone":
        output = run(tmp_path, "word2vec/train.py", *arguments)
    else:
        output = run(tmp_path, "word2vec/train.py", *arguments, "--mode", mode, "--k_steps=20", workers=2)
    assert float(re.search(r"with the same topic: (\d\.\d+)", output)[1]) > 0.8, output
    assert output.splitlines()[-1].startswith("next: examples/README.md")


def test_word2vec_says_what_to_do_without_data(tmp_path):
    command = [sys.executable, EXAMPLES / "word2vec/train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert "run examples/word2vec/prepare.py first" in done.stderr


# Each is small here; of two workers each takes half as many samples a step as one process does.
TRUTHS = {
    "deepfm.py": ["--rows=10000", "--vocabulary=2000", "--dim=4", "--width=32"],
    "dlrm.py": ["--rows=12000", "--users=50", "--shops=10", "--items=40"],
    "two_tower.py": ["--users=600", "--items=200", "--each=15", "--k=20", "--epochs=4"],
    "matrix_factorisation.py": ["--users=200", "--items=80", "--rows=20000", "--dim=4", "--learning_rate=0.2"],
}
ALONE = {"deepfm.py": 128, "dlrm.py": 128, "two_tower.py": 256, "matrix_factorisation.py": 256}


def learnt(output):
    """(what the model has reached, what who knows the truth would)"""
    *_, before_last, last = output.splitlines()
    assert last.startswith("next: examples/README.md"), output
    found, best = re.search(r" (\d\.\d{4}) \(who knows the truth: (\d\.\d{4})\)$", before_last).groups()
    return float(found), float(best)


@pytest.fixture(scope="module")
def learnt_alone(tmp_path_factory):
    @cache
    def learnt_alone(script):
        batch = f"--batch_size={ALONE[script]}"
        return learnt(run(tmp_path_factory.mktemp("alone"), script, *TRUTHS[script], batch))

    return learnt_alone


def assert_near_the_truth(script, found, best, share):
    """At least this share of what there is to learn; an error is so much larger at most."""
    assert best < found < best / share if script == "matrix_factorisation.py" else share * best < found < best


@pytest.mark.parametrize("script", TRUTHS)
def test_an_example_learns_most_of_what_there_is_to_learn(learnt_alone, script):
    assert_near_the_truth(script, *learnt_alone(script), share=0.87)


@pytest.mark.parametrize(("script", "mode"), list(product(TRUTHS, MODES)))
def test_an_example_learns_as_much_in_every_mode(tmp_path, learnt_alone, script, mode):
    batch = f"--batch_size={ALONE[script] // 2}"
    found, best = learnt(run(tmp_path, script, *TRUTHS[script], batch, "--mode", mode, "--k_steps=5", workers=2))
    alone, also_best = learnt_alone(script)
    assert best == also_best, "the same data, and all of it"
    if mode == "sync" and script != "two_tower.py":  # a worker's negatives there are those of its own batch
        assert found == pytest.approx(alone, abs=2e-3), "the same training as one process's"
    else:
        assert_near_the_truth(script, found, best, share=0.8)


def test_matrix_factorisation_ranks_what_users_like(tmp_path):
    arguments = [*TRUTHS["matrix_factorisation.py"], "--batch_size=128"]
    found, best = learnt(run(tmp_path, "matrix_factorisation.py", "--loss=bpr", *arguments))
    assert 0.5 < 0.85 * best < found < best


def test_two_towers_find_less_without_the_correction_for_popular_items(tmp_path, learnt_alone):
    found, _ = learnt(run(tmp_path, "two_tower.py", "--plain", *TRUTHS["two_tower.py"], "--batch_size=256"))
    assert found < learnt_alone("two_tower.py")[0] - 0.1


def test_dlrm_learns_from_the_files_that_it_writes(tmp_path, learnt_alone):
    small = [*TRUTHS["dlrm.py"], "--batch_size=64"]
    assert not run(tmp_path, "dlrm.py", "--write=visits", *small)
    files = sorted((tmp_path / "visits").iterdir())
    assert [file.name for file in files] == [f"{kind}-{number}" for kind in ("test", "train") for number in range(4)]
    given = ["--files", *files[4:], "--test_files", *files[:4]]
    output = run(tmp_path, "dlrm.py", *given, "--batch_size=64", "--mode=sync", workers=2)
    # Nobody knows the truth of files, but it is the same.
    assert auc(output) > 0.9 * learnt_alone("dlrm.py")[0]


@pytest.fixture(scope="module")
def movie_lens(tmp_path_factory):
    """A file of the form of MovieLens's ratings.csv: who likes what depends on whether both numbers are even."""
    rng = np.random.default_rng(0)
    file = tmp_path_factory.mktemp("movie_lens") / "ratings.csv"
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["userId", "movieId", "rating", "timestamp"])
        for user, movie in product(range(1, 81), range(1, 61)):
            if rng.random() < (0.6 if (user + movie) % 2 else 0.1):
                rows.writerow([user, movie, 4.5 if (user + movie) % 2 else 1.5, 1_000_000_000])
    return file


def test_matrix_factorisation_reads_movie_lens(tmp_path, movie_lens):
    arguments = ["--ratings", movie_lens, "--batch_size=64", "--learning_rate=0.3", "--epochs=10", "--dim=4"]
    *_, found, _ = run(tmp_path, "matrix_factorisation.py", *arguments).splitlines()
    assert float(re.fullmatch(r"test RMSE (\d\.\d{4})", found)[1]) < 0.8, "stars alone differ by 1.0 from their mean"


def test_two_towers_read_movie_lens(tmp_path, movie_lens):
    arguments = ["--taken", movie_lens, "--batch_size=64", "--k=12", "--epochs=10"]
    *_, popular, found, _ = run(tmp_path, "two_tower.py", *arguments).splitlines()
    popular, found = (float(re.search(r"(\d\.\d{4})$", line)[1]) for line in (popular, found))
    assert found > popular + 0.1


FILES = ["wide_and_deep.py", "ctr_dnn.py", "word2vec/train.py", *TRUTHS]


@pytest.mark.parametrize("script", FILES)
def test_examples_choose_the_mode_in_the_same_words(script):
    """They stand in each file, for a file is what people copy."""
    text = (EXAMPLES / script).read_text()
    assert 'parser.add_argument("--mode", choices=["sync", "async", "geo"], default="async"' in text
    assert 'parser.add_argument("--k_steps", type=int, default=' in text
    assert 'modes = {"sync": flota.Sync(), "async": flota.Async(), "geo": flota.Geo(k_steps=arguments.k_steps)}' in text
    assert len(text.splitlines()) <= 250
    assert script in (EXAMPLES / "README.md").read_text()
