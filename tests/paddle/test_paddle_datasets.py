"""Data sets of files that feed programs: as 2.x sets them up, and as 1.x does."""

import subprocess
import sys
from itertools import chain

import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument


@pytest.fixture
def files(tmp_path):
    """Ten samples: a sequence of ids, and a label."""
    paths = []
    for part in range(2):
        path = tmp_path / f"part-{part}"
        path.write_text(
            "".join(f"{1 + i % 3} {' '.join([str(i)] * (1 + i % 3))} 1 {i}\n" for i in range(part * 5, part * 5 + 5))
        )
        paths.append(str(path))
    return paths


@pytest.fixture
def variables():
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        yield [
            paddle.static.data("ids", [None, 1], "int64", lod_level=1),
            paddle.static.data("label", [None, 1], "int64"),
        ]
    paddle.disable_static()


def labels(dataset):
    return [batch["label"].reshape(-1).tolist() for batch in dataset]


def made(kind, variables, files, **settings):
    dataset = paddle.fluid.DatasetFactory().create_dataset(kind)
    dataset.set_filelist(files)
    dataset.set_batch_size(4)
    dataset.set_use_var(variables)
    for name, value in settings.items():
        getattr(dataset, name)(value)
    return dataset


def test_slots_with_one_id_in_each_sample_lie_in_one_tensor(tmp_path):
    """And all others where they were; a batch decides for itself."""
    path = tmp_path / "part"
    path.write_text("1 7 2 1 2 1 3 0 1 0.5 2 8 9\n1 4 1 5 1 6 2 1 1 1 1.5 2 3 2\n1 2 1 1 1 9 1 4 1 2.5 2 0 1\n")
    paddle.enable_static()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        variables = [
            paddle.static.data("label", [None, 1], "int64"),
            paddle.static.data("many", [None, 1], "int64", lod_level=1),
            paddle.static.data("one", [None, 1], "int64", lod_level=1),
            paddle.static.data("some", [None, 1], "int64", lod_level=1),
            paddle.static.data("dense", [None, 1], "float32"),
            paddle.static.data("pair", [None, 2], "int64"),
        ]
    paddle.disable_static()
    dataset = paddle.distributed.QueueDataset()
    dataset.init(batch_size=3, use_var=variables)
    dataset.set_filelist([str(path)])
    (batch,) = dataset
    assert batch["label"].tolist() == [[7], [4], [2]]
    assert (batch["many"].values.tolist(), batch["many"].offsets.tolist()) == ([[1], [2], [5], [1]], [0, 2, 3, 4])
    assert (batch["one"].values.tolist(), batch["one"].offsets.tolist()) == ([[3], [6], [9]], [0, 1, 2, 3])
    # As many values as samples, and yet not one each.
    assert (batch["some"].values.tolist(), batch["some"].offsets.tolist()) == ([[1], [1], [4]], [0, 0, 2, 3])
    assert not batch["some"].one_each()
    assert batch["one"].one_each()
    assert batch["pair"].tolist() == [[8, 9], [3, 2], [0, 1]]
    assert {name: leaf.tolist() for name, leaf in batch.keys_of.items()} == {
        "ids": [[7, 4, 2], [3, 6, 9]],
        "['many']": [[1], [2], [5], [1]],
        "['some']": [[1], [1], [4]],
        "['pair']": [[8, 9], [3, 2], [0, 1]],
    }


def test_settings_of_1_x_come_in_any_order(variables, files):
    assert labels(made("QueueDataset", variables, files)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    dataset = made("QueueDataset", variables, files, set_thread=1, set_pipe_command="head -n 2", set_batch_size=8)
    assert labels(dataset) == [[0, 1, 5, 6]]
    dataset.set_batch_size(3)  # also after the first use
    assert labels(dataset) == [[0, 1, 5], [6]]
    first = next(iter(dataset))["ids"]
    assert (first.values.reshape(-1).tolist(), first.offsets.tolist()) == ([0, 1, 1, 5, 5, 5], [0, 1, 3, 6])


def test_a_data_set_of_1_x_in_memory(variables, files):
    dataset = made("InMemoryDataset", variables, files)
    dataset.load_into_memory()
    assert (dataset.get_memory_data_size(), labels(dataset)[0]) == (10, [0, 1, 2, 3])
    dataset.local_shuffle()
    dataset.global_shuffle(paddle.distributed.fleet)
    shuffled = list(chain.from_iterable(labels(dataset)))
    assert shuffled != sorted(shuffled)
    assert sorted(shuffled) == list(range(10))
    assert dataset.get_shuffle_data_size() == 10
    dataset.release_memory()
    with pytest.raises(InvalidArgument, match="load_into_memory"):
        dataset.get_memory_data_size()
    dataset.preload_into_memory(thread_num=2)
    dataset.wait_preload_done()
    assert dataset.get_memory_data_size() == 10


def test_a_program_trains_from_a_data_set_of_1_x(variables, files):
    ids, label = variables
    pooled = paddle.fluid.layers.sequence_pool(paddle.fluid.embedding(ids, size=[20, 4]), "sum")
    loss = paddle.fluid.layers.mean(
        paddle.fluid.layers.square_error_cost(
            paddle.fluid.layers.fc(pooled, 1), paddle.fluid.layers.cast(label, "float32")
        )
    )
    paddle.fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)
    executor = paddle.fluid.Executor(paddle.fluid.CPUPlace())
    executor.run(paddle.fluid.default_startup_program())
    executor.train_from_dataset(paddle.fluid.default_main_program(), made("QueueDataset", variables, files))


def test_what_1_x_is_not_told_or_cannot_do(variables, files):
    dataset = paddle.fluid.DatasetFactory().create_dataset("InMemoryDataset")
    dataset.set_filelist(files)
    with pytest.raises(InvalidArgument, match="set_use_var"):
        dataset.load_into_memory()
    with pytest.raises(InvalidArgument, match="QueueDataset"):
        paddle.fluid.DatasetFactory().create_dataset("BoxPSDataset")
    with pytest.raises(InvalidArgument, match="InMemoryDataset"):
        made("QueueDataset", variables, files).local_shuffle()
    with pytest.raises(InvalidArgument, match="queue_num=12 would have no effect"):
        dataset.set_queue_num(12)
    dataset.set_fleet_send_batch_size(1024)  # what it is anyway


def test_settings_of_2_x_can_be_changed(variables, files):
    dataset = paddle.distributed.InMemoryDataset()
    dataset._init_distributed_settings(fea_eval=True)
    dataset.init(4, 1, variables)
    dataset.set_filelist(files)
    dataset.update_settings(batch_size=10, pipe_command="head -n 3")
    dataset.load_into_memory()
    assert labels(dataset) == [[0, 1, 2, 5, 6, 7]]
    dataset.slots_shuffle(["label"])
    assert sorted(labels(dataset)[0]) == [0, 1, 2, 5, 6, 7]
    dataset.load_into_memory(is_shuffle=True)
    assert sorted(labels(dataset)[0]) == [0, 1, 2, 5, 6, 7]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"batchsize": 3}, "did you mean 'batch_size'"),
        ({"parse_ins_id": True}, "make the id a slot"),
        ({"use_var": []}, "needs use_var"),
    ],
)
def test_settings_of_2_x_that_do_not_act_are_refused(variables, settings, says):
    dataset = paddle.distributed.InMemoryDataset()
    with pytest.raises(InvalidArgument, match=says):
        dataset.init(**{"use_var": variables, **settings})


@pytest.mark.parametrize(
    "imported",
    [
        "import paddle.fluid.incubate.data_generator as home",
        "import paddle.distributed.fleet as home",
        "import paddle.distributed.fleet.data_generator as home",
    ],
)
def test_generators_print_slots_without_importing_torch(tmp_path, imported):
    script = tmp_path / "reader.py"
    script.write_text(
        f"{imported}\n"
        "import sys\n"
        "class Reader(home.MultiSlotDataGenerator):\n"
        "    def generate_sample(self, line):\n"
        "        def local_iter():\n"
        "            yield [('ids', [int(each) for each in line.split()]), ('label', [1])]\n"
        "        return local_iter\n"
        "reader = Reader()\n"
        "reader.set_batch(2)\n"
        "reader.run_from_stdin()\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "flota.paddle", str(script)],
        input="3 4\n5\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("2 3 4 1 1\n1 5 1 1\n", "")
