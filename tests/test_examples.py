"""The examples, at small size, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

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
