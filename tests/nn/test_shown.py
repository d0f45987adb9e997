"""Shows and clicks reach the rows of the samples they belong to, however a module takes its keys."""

import pytest
import torch

import flota
from flota.admission import Count, ShowClick
from flota.errors import InvalidArgument
from flota.nn.naming import reset_names

CLICKS = torch.tensor([1.0, 0.0, 1.0])


@pytest.fixture
def scores():
    """Trains a module once by what it is called with; returns shows and clicks by key."""

    def train(module, *inputs, **told):
        flota.init(flota.LocalRoleMaker())
        optimizer = flota.distributed_optimizer(torch.optim.SGD(module.parameters(), lr=0.1))
        flota.init_worker()
        with flota.nn.shown(**told):
            module(*inputs).sum().backward()
        optimizer.step()
        (handle,) = (each for each, _ in optimizer.tables())
        return {
            key: tuple(state[-2:])
            for part in handle.bound().lasting.export_shards()
            for key, state in zip(part.page.keys.tolist(), part.page.state.tolist(), strict=True)
        }

    reset_names()
    return train


def test_embedding(scores):
    keys = torch.tensor([[1, 2], [2, 2], [3, 0]])
    found = scores(flota.nn.Embedding(None, 2, padding_idx=0, admission=ShowClick()), keys, clicks=CLICKS)
    assert found == {1: (1, 1), 2: (3, 1), 3: (1, 1)}


def test_bags_of_any_length(scores):
    bag = flota.nn.EmbeddingBag(None, 2, mode="sum", admission=ShowClick())
    found = scores(bag, torch.tensor([1, 2, 2, 3]), torch.tensor([0, 2, 2]), clicks=CLICKS)
    assert found == {1: (1, 1), 2: (2, 2), 3: (1, 1)}


def test_a_collection_of_features(scores):
    many = flota.nn.EmbeddingCollection(["a", "b"], 2, admission=ShowClick())
    inputs = {"a": torch.tensor([1, 2, 2]), "b": (torch.tensor([5, 6]), torch.tensor([0, 1, 1]))}
    shows = torch.tensor([2.0, 1.0, 3.0])
    found = scores(many, inputs, clicks=CLICKS, shows=shows)
    assert found == {1: (2, 1), 2: (4, 1), 5: (2, 1), 6: (3, 1)}


@pytest.mark.parametrize("clicks", [torch.ones(2), torch.ones(4)])
def test_labels_of_another_batch_are_refused(scores, clicks):
    with pytest.raises(InvalidArgument, match="the batch has 3 samples"):
        scores(flota.nn.Embedding(None, 2, admission=ShowClick()), torch.arange(3), clicks=clicks)


def test_a_forward_pass_that_tells_nothing_is_refused(scores):
    module = flota.nn.Embedding(None, 2, admission=ShowClick())
    scores(module, torch.arange(3), clicks=CLICKS)
    with pytest.raises(InvalidArgument, match=r"with flota\.nn\.shown\(clicks=labels\)"):
        module(torch.arange(3))
    module.eval()
    module(torch.arange(3))


def test_more_than_floats_can_count_is_refused_whole(scores):
    module = flota.nn.Embedding(None, 2, admission=ShowClick())
    with pytest.raises(InvalidArgument, match="too often"):
        scores(module, torch.arange(3), clicks=CLICKS, shows=torch.tensor([1.0, 1.0, 1e9]))


def test_shrink_asks_each_table_what_it_can_answer():
    reset_names()
    flota.init(flota.LocalRoleMaker())
    plain, scored = flota.nn.Embedding(None, 2), flota.nn.Embedding(None, 2, admission=ShowClick())
    counted = flota.nn.Embedding(None, 2, admission=Count(1))
    model = torch.nn.ModuleList([plain, scored, counted])
    optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    flota.init_worker()

    def step(keys):
        with flota.nn.shown(clicks=torch.zeros(len(keys))):
            sum(each(torch.tensor(keys)).sum() for each in model).backward()
        optimizer.step()
        optimizer.zero_grad()

    step([1, 2])
    assert flota.shrink(max_age=1, min_score=0.01) == 0
    step([1])
    assert flota.shrink(max_age=1, min_score=0.15) == 3 + 0  # key 2 of each, by age
    assert flota.shrink(min_score=0.25) == 1  # key 1 of the one that keeps scores
    with pytest.raises(InvalidArgument, match=r"give \['embedding_0'\]"):
        flota.shrink(1, tables="embedding_0")
    with pytest.raises(InvalidArgument, match="keeps no scores"):
        flota.shrink(min_score=1.0, tables=["embedding_0"])
