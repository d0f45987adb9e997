"""Data sets in memory: loaded, shuffled, read again and again."""

import threading

import pytest
import torch

from flota import workers
from flota.data import InMemoryDataset, Slot
from flota.data.formats.text import Text
from flota.errors import DataError, InvalidArgument, MissingFile

USE_VAR = [Slot("number", (1,)), Slot("label", (1,), "float32")]


@pytest.fixture
def memory(write, lines):
    """Makes a data set of 50 samples in 3 files, or of other files."""
    cuts = [(0, 20), (20, 23), (23, 50)]
    own = [write(f"part-{number}", lines(*range(*cut))) for number, cut in enumerate(cuts)]

    def make(files=own, batch_size=8, thread_num=1, load=True, **settings):
        made = InMemoryDataset()
        made.init(batch_size, thread_num, USE_VAR, **settings)
        made.set_filelist(files)
        if load:
            made.load_into_memory()
        return made

    return make


def test_what_was_loaded_is_read_again_and_again(memory, numbers):
    made = memory()
    assert numbers(made) == numbers(made) == [*range(50)]
    assert [len(batch["number"]) for batch in made] == [8] * 6 + [2]
    assert len(made) == 7
    assert made.get_memory_data_size() == 50
    assert made.get_memory_data_size(fleet=object()) == 50
    assert made.memory_bytes > 50 * 12


@pytest.mark.parametrize("thread_num", [2, 5])
def test_the_order_does_not_depend_on_luck(memory, numbers, small_pieces, thread_num):
    first, second = memory(thread_num=thread_num), memory(thread_num=thread_num)
    assert sorted(numbers(first)) == [*range(50)]
    assert numbers(first) == numbers(second)


def test_loading_in_the_background(memory, numbers, monkeypatch):
    """While it is loaded there is nothing to be had, and nothing to be lost."""
    go_on = threading.Event()
    read = Text.read

    def slow(self, piece, trouble):
        assert go_on.wait(30)
        return read(self, piece, trouble)

    monkeypatch.setattr(Text, "read", slow)
    made = memory(load=False)
    made.preload_into_memory(thread_num=2)
    for use in (made.preload_into_memory, made.local_shuffle, made.release_memory, lambda: list(made)):
        with pytest.raises(InvalidArgument, match=r"still being loaded: call wait_preload_done\(\) first"):
            use()
    go_on.set()
    made.wait_preload_done()
    assert sorted(numbers(made)) == [*range(50)]
    with pytest.raises(InvalidArgument, match="nothing is being loaded"):
        made.wait_preload_done()


def test_what_goes_wrong_in_the_background_is_raised_by_who_waits(memory, write, lines, numbers):
    made = memory([write("bad", lines(1) + "1 one 1 0\n")], load=False)
    made.preload_into_memory()
    with pytest.raises(DataError, match="bad, line 2: slot 'number': 'one' is no whole number"):
        made.wait_preload_done()
    with pytest.raises(InvalidArgument, match=r"not loaded: call load_into_memory\(\) first"):
        list(made)
    made.set_filelist([write("good", lines(1, 2))])
    made.load_into_memory()
    assert numbers(made) == [1, 2]


def test_a_missing_file_is_told_at_once(memory):
    made = memory(["/nowhere/part"], load=False)
    with pytest.raises(MissingFile, match="/nowhere/part: there is no such file"):
        made.preload_into_memory()
    with pytest.raises(InvalidArgument, match="nothing is being loaded"):
        made.wait_preload_done()


def test_bad_lines_are_skipped_and_counted(memory, write, lines, numbers, capfd):
    made = memory([write("bad", lines(1) + "1 one 1 0\n" + lines(2))], on_error="skip")
    assert numbers(made) == [1, 2]
    assert (made.skipped.lines, made.skipped.files) == (1, 0)
    assert "bad, line 2: slot 'number': 'one' is no whole number" in capfd.readouterr().err


def test_a_local_shuffle_depends_on_its_seed(memory, numbers):
    orders = []
    for seed in (7, 7, 8):
        made = memory()
        made.local_shuffle(seed)
        orders.append(numbers(made))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == [*range(50)]
    assert orders[0] != [*range(50)]


def test_each_shuffle_without_a_seed_makes_another_order_the_same_in_every_run(memory, numbers):
    runs = []
    for made in (memory(), memory()):
        runs.append([])
        for _ in range(3):
            made.local_shuffle()
            runs[-1].append(numbers(made))
    assert runs[0] == runs[1]
    assert len({tuple(order) for order in runs[0]}) == 3


def test_a_global_shuffle_of_one_worker_mixes_its_samples(memory, numbers):
    made = memory()
    assert made.get_shuffle_data_size() == 0
    made.global_shuffle(seed=3)
    assert sorted(numbers(made)) == [*range(50)] != numbers(made)
    assert made.get_shuffle_data_size() == made.get_shuffle_data_size(fleet=object()) == 50
    with pytest.raises(InvalidArgument, match="thread_num=5"):
        made.global_shuffle(thread_num=5)


def test_released_memory_is_empty_until_it_is_loaded_again(memory, numbers):
    made = memory()
    made.release_memory()
    made.release_memory()
    for use in (lambda: list(made), lambda: len(made), made.get_memory_data_size, made.local_shuffle):
        with pytest.raises(InvalidArgument, match=r"call load_into_memory\(\) first"):
            use()
    made.load_into_memory()
    made.load_into_memory()
    assert numbers(made) == [*range(50)]


@pytest.mark.parametrize("change", [InMemoryDataset.release_memory, InMemoryDataset.local_shuffle])
def test_an_epoch_does_not_survive_a_change_of_the_samples(memory, change):
    made = memory()
    batches = iter(made)
    next(batches)
    change(made)
    with pytest.raises(InvalidArgument, match="released, loaded or shuffled in the middle of an epoch"):
        next(batches)


def test_a_file_without_samples_makes_an_empty_data_set(memory, write):
    made = memory([write("empty", "")])
    assert (list(made), len(made), made.get_memory_data_size()) == ([], 0, 0)
    made.local_shuffle()


def test_a_data_loaders_processes_share_the_batches(memory, numbers):
    made = memory()
    loader = torch.utils.data.DataLoader(made, batch_size=None, num_workers=2, multiprocessing_context="fork")
    assert numbers(loader) == [*range(50)]
    assert len(loader) == 7


def test_samples_in_memory_cannot_go_to_another_program(memory):
    loader = torch.utils.data.DataLoader(
        memory(), batch_size=None, num_workers=1, multiprocessing_context="spawn", timeout=60
    )
    with pytest.raises(InvalidArgument, match="multiprocessing_context='fork'"):
        iter(loader)


@pytest.mark.parametrize(("sharing", "share"), [("static", 1), (None, 1), ("none", 3)])
def test_each_worker_loads_its_part(memory, numbers, small_pieces, monkeypatch, sharing, share):
    class Team(workers.Alone):
        count = 3

    loaded = []
    for index in range(3):
        monkeypatch.setattr(Team, "index", index)
        monkeypatch.setattr(workers, "_current", Team())
        loaded += numbers(memory(sharing=sharing))
    assert sorted(loaded) == sorted([*range(50)] * share)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sharing": "lease"}, "sharing must be one of"),
        ({"lease_seconds": 5.0}, "lease_seconds would have no effect"),
    ],
)
def test_nothing_is_leased(memory, settings, says):
    with pytest.raises(InvalidArgument, match=says):
        memory(**settings)
