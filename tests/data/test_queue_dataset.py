"""Data sets that stream files: every sample once an epoch, in an order that does not depend on luck."""

import subprocess
import sys
import threading
from collections import Counter
from itertools import chain

import pytest
import torch

from flota import workers
from flota.data import Csv, Dense, Features, QueueDataset, Slot, get_file_shard, leases, reading
from flota.data.formats import lines as lines_of
from flota.errors import DataError, InvalidArgument
from waiting import wait_until


@pytest.fixture
def files(write, lines):
    """30 samples in 4 files, one of which is empty."""
    cuts = [(0, 11), (11, 11), (11, 14), (14, 30)]
    return [write(f"part-{number}", lines(*range(*cut))) for number, cut in enumerate(cuts)]


def sizes(batches):
    return [len(batch["number"]) for batch in batches]


def no_reader_is_left():
    return not any(thread.name.startswith(("flota reader", "flota leases")) for thread in threading.enumerate())


# --- every sample once ---


def test_batches_reach_over_files(dataset, files, numbers):
    batches = list(dataset(files, batch_size=4))
    assert sizes(batches) == [4, 4, 4, 4, 4, 4, 4, 2]
    assert numbers(batches) == [*range(30)]
    assert batches[0]["label"].tolist() == [[0.0], [1.0], [0.0], [1.0]]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_batches_reach_over_the_blocks_that_are_read(dataset, files, numbers, monkeypatch, chunk):
    monkeypatch.setattr(lines_of, "CHUNK", chunk)
    batches = list(dataset(files, batch_size=7))
    assert sizes(batches) == [7, 7, 7, 7, 2]
    assert numbers(batches) == [*range(30)]


@pytest.mark.parametrize("thread_num", [1, 2, 5])
def test_the_order_is_the_same_in_every_pass(dataset, files, numbers, small_pieces, monkeypatch, thread_num):
    monkeypatch.setattr(lines_of, "CHUNK", 16)
    made = dataset(files, 4, thread_num)
    first = [batch["number"].reshape(-1).tolist() for batch in made]
    assert sorted(chain(*first)) == [*range(30)]
    assert [len(batch) for batch in first] == [4] * 7 + [2]
    for other in (made, dataset(files, 4, thread_num)):
        assert [batch["number"].reshape(-1).tolist() for batch in other] == first


def test_each_iteration_is_an_epoch(dataset, files, numbers):
    made = dataset(files, 8)
    assert numbers(made) == numbers(made) == numbers(made) == [*range(30)]


def test_who_stops_early_begins_anew(dataset, files, numbers, small_pieces):
    made = dataset(files, 4, 2)
    for _ in range(12):
        assert len(next(iter(made))["number"]) == 4
    assert sorted(numbers(made)) == [*range(30)]


def test_two_iterations_at_a_time_do_not_disturb_each_other(dataset, files, numbers):
    made = dataset(files, 4)
    pairs = list(zip(made, made, strict=True))
    assert numbers(pair[0] for pair in pairs) == numbers(pair[1] for pair in pairs) == [*range(30)]


def test_two_data_sets_of_the_same_files_both_have_all(dataset, files, numbers):
    one, other = dataset(files, 4), dataset(files, 4)
    assert numbers(one) == numbers(other) == numbers(one) == [*range(30)]


def test_new_files_are_for_the_next_iteration(dataset, files, numbers, monkeypatch):
    monkeypatch.setattr(lines_of, "CHUNK", 8)
    made = dataset(files, 4)
    batches = iter(made)
    first = next(batches)
    made.set_filelist(files[2:3])
    assert numbers([first, *batches]) == [*range(30)]
    assert numbers(made) == [11, 12, 13]


def test_batches_are_full_however_slow_the_coordinator_is(dataset, files, monkeypatch):
    """A thread that is about to be given a piece does not wait for what others hold."""
    patience = threading.Event()
    send = leases.Leases._send

    def slow(self, **question):
        patience.wait(3 * reading._LOOK)
        return send(self, **question)

    monkeypatch.setattr(leases.Leases, "_send", slow)
    assert sizes(dataset(files, 8, 2)) == [8, 8, 8, 6]


# --- shared by workers ---


class Team(workers.Alone):
    """A worker among others, of which all are in this process."""

    client = None
    in_step = False
    steps = applied = 0

    def __init__(self, index, count):
        self.index, self.count = index, count

    def idle(self):
        pass


@pytest.fixture
def as_worker():
    """From here on this process is that worker."""
    yield lambda index, count: workers.meet(Team(index, count))
    workers.meet(workers.Alone())


def read_as_workers(as_worker, made, count):
    passes = []
    for index, each in enumerate(made):
        as_worker(index, count)
        passes.append(iter(each))
    return passes


@pytest.mark.parametrize("count", [2, 3, 7])
def test_workers_get_the_same_pieces_in_every_run(dataset, files, numbers, small_pieces, as_worker, count):
    """The data sets are one for each worker; with more workers than pieces, some have nothing."""
    runs = []
    for _ in range(2):
        # In processes of their own they would have the same names by themselves.
        made = [dataset(files, 4, sharing="static") for _ in range(count)]
        made[0]._name = made[0]._epoch(made[0]._pieces(), "").name
        for each in made:
            each._name, each._epochs = made[0]._name, Counter()
        runs.append([numbers(each) for each in read_as_workers(as_worker, made, count)])
    assert runs[0] == runs[1]
    assert sorted(chain(*runs[0])) == [*range(30)]


def test_a_worker_without_a_piece_has_no_batches(dataset, files, as_worker):
    as_worker(6, 7)
    assert list(dataset(files, sharing="static")) == []


def test_a_worker_that_reads_for_itself_does_not_take_part(dataset, files, numbers, as_worker):
    """All workers count the data sets of the same files that they share; others must not count."""
    as_worker(0, 2)
    assert numbers(dataset(files, sharing="none")) == [*range(30)]
    own, shared = dataset(files, sharing="none"), dataset(files, sharing="static")
    iter(own)
    iter(shared)
    assert own._name is None
    assert shared._name is not None


def test_each_file_of_a_list_without_leases_is_one_workers(files, dataset, numbers):
    shares = [get_file_shard(files, index, 3) for index in range(3)]
    assert list(chain(*(numbers(dataset(share)) for share in shares))) == [*range(30)]


@pytest.mark.parametrize("in_step", [True, False])
def test_workers_with_parts_of_the_list_read_all_of_them(files, dataset, numbers, as_worker, monkeypatch, in_step):
    """Not every so manieth piece of them."""
    monkeypatch.setattr(Team, "in_step", in_step)
    read = []
    for index in range(3):
        as_worker(index, 3)
        read += numbers(dataset(get_file_shard(files, index, 3), sharing=None if in_step else "static"))
    assert read == [*range(30)]


def test_in_step_workers_compare_their_lists(files, dataset, numbers, as_worker, monkeypatch):
    halves = [files[::2], files[1::2]]
    digests = []
    monkeypatch.setattr(Team, "in_step", True)
    monkeypatch.setattr(
        Team, "gather", lambda self, name, mine: [digests.append(mine) or mine, b"other"], raising=False
    )
    read = []
    for index, half in enumerate(halves):
        as_worker(index, 2)
        read += numbers(dataset(half))
    assert sorted(read) == [*range(30)]
    assert len(set(digests)) == 2
    monkeypatch.setattr(Team, "gather", lambda self, name, mine: [mine, mine])
    as_worker(0, 2)
    assert len(numbers(dataset(files))) < 30


def test_a_worker_with_an_empty_list_is_told(dataset):
    with pytest.raises(DataError, match="the list of files is empty: give every worker the whole list"):
        iter(dataset([]))


# --- with a DataLoader ---


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_a_data_loader_gets_every_sample_once(dataset, files, numbers, small_pieces, context):
    processes = 0 if context is None else 2
    made = dataset(files, 4)
    loader = torch.utils.data.DataLoader(made, batch_size=None, num_workers=processes, multiprocessing_context=context)
    assert sorted(numbers(loader)) == [*range(30)]


# --- threads ---


def test_no_thread_is_left(dataset, files, small_pieces):
    made = dataset(files, 2, 5)
    list(made)
    assert no_reader_is_left()
    for batch in made:
        del batch
        break
    wait_until(no_reader_is_left)


def test_a_program_may_end_in_the_middle_of_an_epoch(write, lines):
    path = write("part", lines(*range(200_000)))
    program = f"""
from flota.data import QueueDataset, InMemoryDataset, Slot
use_var = [Slot("number", (1,)), Slot("label", (1,), "float32")]
data = QueueDataset()
data.init(16, 3, use_var)
data.set_filelist([{path!r}] * 3)
kept = [iter(data) for _ in range(3)]
for batches in kept:
    next(batches)
for batch in data:
    break
memory = InMemoryDataset()
memory.init(16, 3, use_var)
memory.set_filelist([{path!r}] * 3)
memory.preload_into_memory()
print("ends")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


# --- settings ---

DENSE = Features([Dense("x")])

REFUSED = {
    "nothing to fill": ({}, "give one of use_var, schema and format, not none"),
    "no variables": ({"use_var": []}, "use_var is empty"),
    "one name": ({"use_var": "number"}, "use_var takes a list of variables, not 'number'"),
    "the same name": ({"use_var": ["a", "a"]}, "use_var has the same name twice: a"),
    "two ways": ({"use_var": ["a"], "schema": DENSE}, "not use_var and schema"),
    "a command and a format": ({"format": Csv(DENSE), "pipe_command": "x"}, "they do not go with format"),
    "batch_size": ({"batch_size": 0}, "batch_size must be a whole number from 1"),
    "thread_num": ({"thread_num": 0}, "thread_num must be a whole number from 1"),
    "input_type": ({"input_type": 1}, "input_type must be 0"),
    "sharing": ({"sharing": "all"}, "sharing must be one of"),
    "on_error": ({"use_var": ["a"], "on_error": "warn"}, "on_error must be 'stop' or 'skip', not 'warn'"),
    "fs_name": ({"fs_name": "host"}, "fs_name must be a URL such as hdfs://host:9000, not 'host'"),
    "fs_ugi": ({"fs_ugi": "user,word"}, "fs_ugi is who reads at fs_name, which is not given"),
    "lease_seconds": ({"lease_seconds": 0}, "lease_seconds must be a number from 0.1"),
    "no leases": ({"sharing": "none", "lease_seconds": 5}, "lease_seconds would have no effect"),
    "an empty command": ({"use_var": ["a"], "pipe_command": " "}, "pipe_command must be a shell command, not ' '"),
}


@pytest.mark.parametrize(("settings", "says"), REFUSED.values(), ids=REFUSED)
def test_settings_that_make_no_sense_are_refused(settings, says):
    with pytest.raises(InvalidArgument, match=says):
        QueueDataset().init(**settings)


@pytest.mark.parametrize("wrong", ["part-0", b"part-0", [3], [b"part-0"]])
def test_what_is_no_list_of_paths_is_refused(wrong):
    with pytest.raises(InvalidArgument, match="set_filelist takes a list of paths"):
        QueueDataset().set_filelist(wrong)


def test_a_data_set_that_is_not_ready_says_what_is_missing(files):
    made = QueueDataset()
    made.set_filelist(files)
    with pytest.raises(InvalidArgument, match=r"call init\(\) of the data set first"):
        iter(made)
    made = QueueDataset()
    made.init(use_var=[Slot("number")])
    with pytest.raises(InvalidArgument, match=r"call set_filelist\(\) of the data set first"):
        iter(made)
    assert made.get_filelist() == []
