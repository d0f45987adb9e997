"""Readers made of others."""

import os
import random
import threading

import pytest

import flota.paddle as paddle
from flota.errors import DataError, InvalidArgument
from flota.paddle import reader


def count(number, first=0):
    return lambda: iter(range(first, first + number))


def test_readers_are_made_of_others():
    assert list(reader.chain(count(2), count(3, 10))()) == [0, 1, 10, 11, 12]
    assert list(reader.firstn(count(9), 3)()) == [0, 1, 2]
    assert list(reader.buffered(count(5), 2)()) == [0, 1, 2, 3, 4]
    assert list(reader.map_readers(lambda a, b: a + b, count(3), count(3, 10))()) == [10, 12, 14]
    assert list(paddle.batch(count(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(paddle.batch(count(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(InvalidArgument, match="batch_size"):
        paddle.batch(count(5), 0)


def test_a_cache_reads_once():
    kept = reader.cache(iter([1, 2]).__iter__)
    assert (list(kept()), list(kept())) == ([1, 2], [1, 2])


def test_python_s_seed_decides_the_order():
    random.seed(3)
    assert list(reader.shuffle(count(10), 4)()) == [3, 0, 2, 1, 4, 5, 7, 6, 9, 8]


def test_composed_readers_end_together():
    pairs = reader.compose(lambda: iter([(1, 2), (3, 4)]), count(2, 10))
    assert list(pairs()) == [(1, 2, 10), (3, 4, 11)]
    with pytest.raises(reader.ComposeNotAligned):
        list(reader.compose(count(2), count(3))())
    assert list(reader.compose(count(2), count(3), check_alignment=False)()) == [(0, 0), (1, 1)]


def test_threads_map_samples():
    assert list(reader.xmap_readers(lambda x: x * 2, count(50), 3, 4, order=True)()) == list(range(0, 100, 2))
    assert sorted(reader.xmap_readers(lambda x: x * 2, count(50), 3, 4)()) == list(range(0, 100, 2))
    with pytest.raises(ZeroDivisionError):
        list(reader.xmap_readers(lambda x: 1 // x, count(3), 2, 4)())


def test_what_goes_wrong_while_reading_ahead_is_raised_in_the_loop():
    def broken():
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(reader.buffered(broken, 8)())
    for _ in reader.buffered(count(10**9), 8)():
        break
    assert not [thread for thread in threading.enumerate() if "reading ahead" in thread.name]


def test_processes_read_and_say_what_went_wrong():
    assert sorted(reader.multiprocess_reader([count(3), count(3, 10)])()) == [0, 1, 2, 10, 11, 12]

    def broken():
        yield 1
        raise OSError("the disk is gone")

    with pytest.raises(DataError, match="the disk is gone"):
        list(reader.multiprocess_reader([broken])())
    with pytest.raises(DataError, match="status 9"):
        list(reader.multiprocess_reader([lambda: (os._exit(9) for _ in "x")])())
