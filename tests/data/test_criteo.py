"""Criteo's text format, written and read."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from flota.data import read_criteo
from flota.data.synthetic import Clicks
from flota.errors import DataError, InvalidArgument


def line(label="1", counts=(), categories=()):
    """A line with these fields and nothing in the others."""
    counts = [*map(str, counts), *[""] * (13 - len(counts))]
    categories = [*categories, *[""] * (26 - len(categories))]
    return "\t".join([label, *counts, *categories]) + "\n"


@pytest.fixture
def log(tmp_path):
    """Writes lines to a file."""

    def write(*lines, name="train.txt"):
        (tmp_path / name).write_text("".join(lines))
        return tmp_path / name

    return write


def one(path, **settings):
    """All samples of files as one batch."""
    (batch,) = read_criteo(path, 1 << 20, **settings)
    return batch


def test_what_was_written_is_read(tmp_path):
    clicks = Clicks(1000, seed=3, vocabulary=2000)
    paths = clicks.write(tmp_path / "raw_data", files=3)
    assert [path.name for path in paths] == ["part-0", "part-1", "part-2"]
    (made,) = clicks.batches(1000)
    read = one(paths, counts="log1p")
    assert torch.equal(read.label, made.label)
    assert torch.equal(read.dense, made.dense)
    # Other numbers, for the reader knows texts only; but the same ids get the same one, and others another.
    pairs = set(zip(made.ids.ravel().tolist(), read.ids.ravel().tolist(), strict=True))
    assert len(pairs) == len({mine for mine, _ in pairs}) == len({theirs for _, theirs in pairs})
    assert (read.ids.dtype, read.dense.dtype, read.label.dtype) == (torch.int64, torch.float32, torch.float32)


def test_written_lines_are_criteos(tmp_path):
    (path,) = Clicks(3, vocabulary=2000).write(tmp_path)
    for text in path.read_text().splitlines():
        label, *fields = text.split("\t")
        assert label in ("0", "1")
        assert all(field.isdecimal() for field in fields[:13])
        assert all(len(field) == 8 and int(field, 16) < 2000 for field in fields[13:])


def test_files_of_an_earlier_writing_are_not_mixed_with_new_ones(tmp_path):
    clicks = Clicks(10, vocabulary=2000)
    clicks.write(tmp_path, files=3)
    clicks.write(tmp_path, files=3)
    with pytest.raises(InvalidArgument, match="part-2 is there already and would be read with the new files"):
        clicks.write(tmp_path, files=2)


def test_only_criteos_shape_can_be_written(tmp_path):
    with pytest.raises(InvalidArgument, match="13 counts and 26 categories, not 13 and 5"):
        Clicks(10, features=5).write(tmp_path)


def test_counts_become_logarithms_and_what_is_missing_or_negative_becomes_0(log):
    batch = one(log(line("0", ["3", "", "-2", "1000000"])), counts="log1p")
    assert batch.dense[0, :4].tolist() == np.log1p(np.array([3, 0, 0, 1e6])).astype(np.float32).tolist()
    assert batch.label.tolist() == [0.0]


def test_counts_are_shifted_and_scaled_as_the_classic_reader_does_it(log):
    batch = one(log(line("0", ["10", "600", "", "25", *["0"] * 8, "-50"])))
    assert batch.dense[0].tolist() == [0.5, 1.0, 0.0, 0.5, *[0.0] * 8, -1.0]


def test_a_missing_category_is_one_of_its_feature(log):
    ids = one(log(line(), line())).ids
    assert torch.equal(ids[0], ids[1])
    assert len(set(ids[0].tolist())) == 26


def test_the_same_text_in_two_features_has_two_ids(log):
    ids = one(log(line(categories=["68fd1e64"] * 26))).ids
    assert len(set(ids[0].tolist())) == 26
    assert (ids >= 0).all()


def test_an_id_does_not_depend_on_the_lines_around_it(log):
    short, long = line(categories=["ab"]), line(categories=["a text of many more than eight bytes"])
    alone, beside = one(log(short)), one(log(long, short, name="both.txt"))
    assert alone.ids[0].tolist() == beside.ids[1].tolist()
    assert beside.ids[0, 0] != beside.ids[1, 0]


def test_texts_that_differ_late_have_different_ids(log):
    texts = ["same beginning", "same beginning ", "same beginninh", "same", "emas"]
    ids = one(log(*(line(categories=[text]) for text in texts))).ids
    assert len(set(ids[:, 0].tolist())) == len(texts)


def test_ids_are_the_same_in_every_process(log):
    """Python's own hash is salted anew in each: the reference system gives each reader other ids."""
    path = log(line(categories=["68fd1e64", "80e26c9b"]))
    code = f"from flota.data import read_criteo; print(next(iter(read_criteo({str(path)!r}, 1))).ids.tolist())"
    printed = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)]
    assert printed == [f"{one(path).ids.tolist()}\n"] * 2
    assert one(path).ids[0, :2].tolist() == [1658614300077305216, 9133440880200627833]


def test_buckets_bound_the_ids(log):
    ids = one(log(*(line(categories=[f"{n:08x}"] * 26) for n in range(100))), buckets=1000).ids
    assert ids.min() >= 0
    assert ids.max() < 1000
    assert len(ids.unique()) > 800


def test_batches_reach_over_files_and_each_iteration_is_an_epoch(log):
    paths = [log(*(line("1", [n]) for n in range(begin, end)), name=f"{begin}") for begin, end in [(0, 13), (13, 20)]]
    batches = read_criteo(paths, 8, counts="log1p")
    for _ in range(2):
        counts = [batch.dense[:, 0].expm1().round().long().tolist() for batch in batches]
        assert counts == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]


@pytest.mark.parametrize("thread_num", [2, 5])
def test_any_number_of_threads_reads_the_same_samples(log, small_pieces, thread_num):
    path = log(*(line("1", [n]) for n in range(50)))
    batches = read_criteo(path, 8, thread_num, counts="log1p")
    counts = [count for batch in batches for count in batch.dense[:, 0].expm1().round().long().tolist()]
    assert sorted(counts) == [*range(50)]


def test_lines_may_end_as_on_windows(log):
    assert torch.equal(one(log(line()[:-1] + "\r\n")).ids, one(log(line(), name="other")).ids)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number from 1"),
        ({"thread_num": 0}, "thread_num must be a whole number from 1"),
        ({"buckets": 0}, "buckets must be a whole number from 1"),
        ({"counts": "sqrt"}, "counts must be 'classic' or 'log1p', not 'sqrt'"),
        ({"sharing": "all"}, "sharing must be one of"),
        ({"on_error": "warn"}, "on_error must be 'stop' or 'skip', not 'warn'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(settings, says):
    with pytest.raises(InvalidArgument, match=says):
        read_criteo(**{"paths": "train.txt", "batch_size": 1, **settings})


def test_an_empty_list_of_files_is_an_error():
    with pytest.raises(DataError, match="the list of files is empty"):
        iter(read_criteo([], 1))
