"""Rows that are pulled ahead: the same training, with the pulls out of the way."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch
from test_modes import run

import flota
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.initializer import Uniform
from flota.nn import Embedding, EmbeddingCollection
from flota.nn.batches import Unshared
from flota.nn.lookup import joined, look_up
from flota.nn.naming import reset_names
from flota.nn.store import KeyRules


@pytest.mark.parametrize("depth", [1, 3])
def test_sync_training_is_the_same_bit_for_bit(tmp_path, depth):
    results = []
    for ahead in (0, depth):
        folder = tmp_path / str(ahead)
        folder.mkdir()
        results.append(run(folder, "sync", "Adagrad", servers=2, workers=2, steps=25, ahead=ahead))
    plain, ahead = results
    for name, values in plain.items():
        assert np.array_equal(values, ahead[name]), name


@pytest.mark.parametrize(("mode", "steps"), [("async", 300), ("geo", 200), ("uneven", 10)])
def test_other_modes_learn_with_it(tmp_path, mode, steps):
    trained = run(tmp_path, mode, "Adagrad", servers=2, workers=2, steps=steps, ahead=2)
    if mode != "uneven":
        assert trained["loss"][-20:].mean() < 0.7 * trained["loss"][:5].mean()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users = Embedding(None, 3, init=Uniform(-1, 1), name="users")
        self.items = EmbeddingCollection(["a", "b"], 3, init=Uniform(-1, 1), name="items")

    def forward(self, batch):
        return self.users(batch["user"][:, 1]).sum() + (self.items({"a": batch["a"], "b": batch["b"]}) ** 2).sum()


def trained(batches, ahead):
    reset_names()
    model = Model()
    optimizer = DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.1))
    optimizer.communicator = LocalCommunicator(optimizer)
    for batch in flota.prefetch(batches, model) if ahead else batches:
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
    return model.users.pull(torch.arange(20)), model.items.pull(torch.arange(20))


def batches(count):
    generator = torch.Generator().manual_seed(0)
    for size in range(3, 3 + count):
        ids = torch.randint(0, 20, (size, 2), generator=generator)
        jagged = (torch.randint(0, 20, (2 * size,), generator=generator), torch.arange(0, 2 * size, 2))
        yield {"user": ids, "a": ids[:, 0].clone(), "b": jagged}


def test_columns_and_jagged_features_are_found_in_batches_of_any_size():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ahead = trained(batches(8), ahead=True)
    for mine, plain in zip(ahead, trained(batches(8), ahead=False), strict=True):
        assert torch.equal(mine, plain)


def test_columns_of_a_matrix_that_the_batch_does_not_have_are_found():
    """As those of a data set's features that have one id a sample, where others have many."""
    reset_names()
    module = local(EmbeddingCollection(["a", "b", "c"], 3, init=Uniform(-1, 1)))
    trainer = threading.current_thread()
    routed_here = []
    store = module.weight.store

    def route(keys, route=store.route):
        if threading.current_thread() is trainer:
            routed_here.append(len(keys))
        return route(keys)

    store.route = route
    hidden = [torch.arange(30 * n, 30 * n + 2 * size).reshape(size, 2) for n, size in enumerate(range(3, 9))]
    batches = [{"a": ids[:, 0], "b": ids[:, 1], "c": (ids.flatten() % 7, torch.arange(len(ids)))} for ids in hidden]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in flota.prefetch(batches, module):
            module(batch)
    # The second batch, of 16 keys, may have been read before the first one's lookup was known.
    assert routed_here[0] == 12
    assert routed_here[1:] in ([], [16])


def local(module):
    optimizer = DistributedOptimizer(torch.optim.SGD(module.parameters(), lr=1.0))
    optimizer.communicator = LocalCommunicator(optimizer)
    return module


def look_up_all(module, batches, keys_of=lambda keys: keys):
    for batch in flota.prefetch(batches, module):
        module(keys_of(batch))


def test_what_was_prepared_is_used_and_what_was_changed_is_not():
    reset_names()
    module = local(Embedding(None, 2, init=Uniform(-1, 1)))
    routed = []
    store = module.weight.store
    route, store.route = store.route, lambda keys: routed.append(keys.clone()) or route(keys)
    batches = [torch.arange(n, n + 4) for n in range(6)]
    for step, keys in enumerate(flota.prefetch(batches, module)):
        if step == 5:
            keys += 100
        routed.clear()
        rows = module(keys)
        own = [each for each in routed if torch.equal(each, keys)]
        # The second batch may have been read before the first one's lookup was known.
        assert len(own) == (1 if step in (0, 5) else 0) or step == 1
        assert torch.equal(rows.detach(), module.pull(keys))


def test_keys_that_the_model_computes_are_pulled_when_needed():
    reset_names()
    module = local(Embedding(None, 2))
    with pytest.warns(UserWarning, match="keys of table 'embedding_0' are not part of the batch"):
        look_up_all(module, [torch.arange(4)] * 3, lambda keys: keys * 2)


def test_parts_that_follow_each_other_are_one():
    matrix = torch.arange(12).reshape(4, 3)
    assert [part.tolist() for part in joined(matrix[1:].unbind(0))] == [list(range(3, 12))]
    assert [part.tolist() for part in joined([matrix[0, :1], matrix[0, 1:], matrix[1]])] == [list(range(6))]
    for apart in (matrix[::2].unbind(0), matrix.unbind(1), [matrix[1], matrix[0]], [matrix[0], matrix[1].int()]):
        assert joined(apart) is apart
    # Two tensors of numpy memory that is one block are still two.
    block = np.arange(6)
    apart = [torch.from_numpy(block[:3]), torch.from_numpy(block[3:])]
    assert joined(apart) is apart


def test_rows_of_a_matrix_are_found_in_batches_of_any_size():
    """A batch that knows its keys, one tensor for all features: some of its rows are one lookup."""
    reset_names()
    module = local(Embedding(None, 2, init=Uniform(-1, 1)))
    matrices = [torch.arange(4 * n).reshape(4, n) + n for n in (3, 5, 1, 2, 4, 6)]
    batches = [Unshared({"ids": ids}, {"ids": ids}) for ids in matrices]
    routed = []
    store = module.weight.store
    route, store.route = store.route, lambda keys: routed.append(keys.tolist()) or route(keys)
    for batch in flota.prefetch(batches, module):
        rows = batch["ids"][1:3]
        looked = look_up(module.weight, rows.unbind(0), KeyRules(), True)
        assert torch.equal(looked.gathered().detach(), module.pull(rows.reshape(-1)))
    wanted = [matrix[1:3].reshape(-1).tolist() for matrix in matrices]
    # The second batch may have been read before the first one's lookup was known.
    assert [routed.count(keys) for keys in wanted[2:]] == [2] * 4, "once for the lookup, once for pull()"


def test_numpy_batches_are_understood():
    reset_names()
    module = local(Embedding(None, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for keys in flota.prefetch([np.arange(n) for n in range(1, 5)], module):
            module(torch.as_tensor(keys))


def test_keys_of_a_numpy_batch_that_are_changed_are_pulled_again():
    reset_names()
    module = local(Embedding(None, 2, init=Uniform(-1, 1)))
    for keys in flota.prefetch([np.arange(n, n + 5) for n in range(5)], module):
        keys %= 3
        assert torch.equal(module(torch.as_tensor(keys)).detach(), module.pull(torch.as_tensor(keys)))


def test_batches_made_in_inference_mode_are_taken():
    reset_names()
    module = local(Embedding(None, 2))
    with torch.inference_mode():
        batches = [torch.arange(4) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for keys in flota.prefetch(batches, module):
            module(keys)


def test_a_loader_that_waits_for_data_does_not_keep_the_process_alive():
    script = """
import threading, torch, flota
from flota.nn import Embedding
def endless():
    yield torch.arange(3)
    yield torch.arange(3)
    threading.Event().wait()
for number, batch in enumerate(flota.prefetch(endless(), Embedding(None, 2), depth=3)):
    if number == 1:
        break
print("ended")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "ended\n", done.stderr
    assert done.returncode == 0, done.stderr


def test_a_process_may_end_while_a_batch_is_being_prepared():
    script = """
import torch, flota
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.nn import Embedding
table = Embedding(None, 2)
optimizer = DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=1.0))
optimizer.communicator = LocalCommunicator(optimizer)
def endless():
    while True:
        yield torch.randint(1 << 40, (300_000,))
batches = flota.prefetch(endless(), table, depth=4)
for number, keys in enumerate(batches):
    table(keys)
    if number == 3:
        break
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr


def test_an_error_of_the_loader_or_a_key_reaches_the_loop():
    reset_names()
    module = local(Embedding(10, 2))

    def broken():
        yield torch.arange(3)
        yield torch.arange(3)
        raise OSError("no more disk")

    with pytest.raises(OSError, match="no more disk"):
        look_up_all(module, broken())
    with pytest.raises(IndexError, match="key 12 is out of range"):
        look_up_all(module, [torch.tensor([k]) for k in (1, 2, 3, 12)])
    assert module.weight.watcher is None
    with pytest.raises(InvalidArgument, match="depth"):
        flota.prefetch([], module, depth=0)
