"""Each file is read by exactly one worker."""

from itertools import chain
from pathlib import Path

import pytest

from flota.data import get_file_shard
from flota.errors import InvalidArgument


def files(count):
    return [f"part-{number}" for number in range(count)]


@pytest.mark.parametrize("worker_num", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 12])
def test_each_file_has_one_worker_and_shares_differ_by_one_at_most(count, worker_num):
    shards = [get_file_shard(files(count), index, worker_num) for index in range(worker_num)]
    assert list(chain(*shards)) == files(count)
    sizes = [len(shard) for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def test_the_example_of_fleets_documents():
    """Files a to e for two workers: the first reads a, b, c."""
    assert get_file_shard(["a", "b", "c", "d", "e"], 0, 2) == ["a", "b", "c"]
    assert get_file_shard(["a", "b", "c", "d", "e"], 1, 2) == ["d", "e"]


def test_paths_and_tuples_are_taken():
    assert get_file_shard((Path("a"), Path("b")), 1, 2) == [Path("b")]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("part-0", 0, 1), "files must be a list of paths in an order that all workers share, not 'part-0'"),
        (({"a", "b"}, 0, 1), "in an order that all workers share"),
        ((None, 0, 1), "files must be a list of paths"),
        ((["a", 3], 0, 1), "files must be a list of paths, and 3 is none"),
        ((["a"], 1, 1), "worker_index must be a whole number from 0 to 0, not 1"),
        ((["a"], -1, 2), "worker_index must be a whole number from 0 to 1, not -1"),
        ((["a"], 0, 0), "worker_num must be a whole number from 1"),
        ((["a"], 0, "2"), "worker_num must be a whole number from 1 to .*, not '2'"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says):
    with pytest.raises(InvalidArgument, match=says):
        get_file_shard(*arguments)
