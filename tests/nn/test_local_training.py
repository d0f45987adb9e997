"""Modules and optimizers in one process, against torch's own."""

import copy

import pytest
import torch

import flota.optim
from flota import rules
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.initializer import Constant, Uniform
from flota.nn import Embedding, EmbeddingBag, EmbeddingCollection
from flota.nn.naming import reset_names

ROWS, DIM = 12, 4


@pytest.fixture(autouse=True)
def new_names():
    reset_names()


def local(model, make, **settings):
    optimizer = DistributedOptimizer(make(model.parameters(), **settings))
    optimizer.communicator = LocalCommunicator(optimizer)
    return optimizer


class Tower(torch.nn.Module):
    """Two features over one table, a third over another, and a dense layer."""

    def __init__(self, embedding, bag, linear):
        super().__init__()
        self.embedding, self.bag, self.linear = embedding, bag, linear

    def forward(self, ids, others):
        rows = [self.embedding(ids[:, 0]), self.embedding(ids[:, 1]), self.bag(others)]
        return self.linear(torch.cat(rows, dim=1)).squeeze(1)


def towers():
    """The same model twice: ours, and torch's with the same first values."""
    ours = Tower(
        Embedding(ROWS, DIM, init=Uniform(-1, 1)),
        EmbeddingBag(None, DIM, mode="sum", init=Uniform(-1, 1)),
        torch.nn.Linear(3 * DIM, 1),
    )
    theirs = Tower(
        torch.nn.Embedding(ROWS, DIM), torch.nn.EmbeddingBag(ROWS, DIM, mode="sum"), copy.deepcopy(ours.linear)
    )
    return ours, theirs


def equalise(ours, theirs):
    for module in ("embedding", "bag"):
        with torch.no_grad():
            getattr(theirs, module).weight.copy_(getattr(ours, module).pull(torch.arange(ROWS)))


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "decay": (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.01}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01}),
    "adam": (torch.optim.Adam, {"lr": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "ftrl": (flota.optim.Ftrl, {"lr": 0.1, "l1": 0.01}),
}


@pytest.mark.parametrize(("make", "settings"), OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_training_equals_torchs_when_every_step_touches_every_row(make, settings):
    torch.manual_seed(1)
    ours, theirs = towers()
    optimizer = local(ours, make, **settings)
    reference = make(theirs.parameters(), **settings)
    equalise(ours, theirs)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.5)
    reference_scheduler = torch.optim.lr_scheduler.StepLR(reference, 10, 0.5)
    for _ in range(30):
        ids = torch.stack([torch.randperm(ROWS), torch.randint(ROWS, (ROWS,))], dim=1)
        others = torch.stack([torch.randperm(ROWS), torch.randint(ROWS, (ROWS,))], dim=1)
        target = torch.randn(ROWS)
        losses = []
        for model, stepper in ((ours, optimizer), (theirs, reference)):
            stepper.zero_grad()
            loss = torch.nn.functional.mse_loss(model(ids, others), target)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.7)
            stepper.step()
            losses.append((loss.detach(), norm))
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)
        scheduler.step()
        reference_scheduler.step()
    for module in ("embedding", "bag"):
        rows = getattr(ours, module).pull(torch.arange(ROWS))
        torch.testing.assert_close(rows, getattr(theirs, module).weight.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.linear.weight, theirs.linear.weight, rtol=1e-5, atol=1e-6)


def test_rows_that_a_step_does_not_use_stay_as_they_are():
    model = Embedding(None, DIM, init=Uniform(-1, 1))
    optimizer = local(model, torch.optim.Adam, lr=0.1)
    before = model.pull(torch.tensor([1, 2]))
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.tensor([1])).sum().backward()
        optimizer.step()
    after = model.pull(torch.tensor([1, 2]))
    assert not torch.equal(after[0], before[0])
    assert torch.equal(after[1], before[1])


def test_evaluation_makes_no_rows():
    model = Embedding(None, DIM)
    optimizer = local(model, torch.optim.SGD, lr=0.1)
    with torch.no_grad():
        model(torch.arange(100))
    model.eval()
    model(torch.arange(100))
    assert model.weight.store.table.rows == 0
    model.train()
    model(torch.arange(100))
    assert model.weight.store.table.rows == 100
    optimizer.step()  # nothing was backpropagated


def test_gradients_accumulate_over_several_passes():
    whole, parts = (Embedding(None, DIM, init=Constant(1.0)) for _ in range(2))
    both = [local(model, torch.optim.Adagrad, lr=0.5) for model in (whole, parts)]
    ids = torch.tensor([5, 6, 5, 7, 6, 6])
    weights = torch.arange(24.0).reshape(6, 4)
    (whole(ids) * weights).sum().backward()
    for half in (slice(0, 3), slice(3, 6)):
        (parts(ids[half]) * weights[half]).sum().backward()
    for optimizer in both:
        optimizer.step()
    assert torch.equal(whole.pull(ids), parts.pull(ids))


def test_padding_is_zero_and_never_learns():
    model = EmbeddingBag(None, DIM, mode="mean", padding_idx=0, init=Constant(2.0))
    optimizer = local(model, torch.optim.SGD, lr=1.0)
    out = model(torch.tensor([[1, 0, 0], [0, 0, 0], [1, 2, 0]]))
    assert torch.equal(out, torch.tensor([[2.0] * DIM, [0.0] * DIM, [2.0] * DIM]))
    out.sum().backward()
    optimizer.step()
    assert model.weight.store.table.rows == 2
    assert torch.equal(model.pull(torch.tensor([0, 1, 2]))[:, 0], torch.tensor([0.0, 0.5, 1.5]))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_equal_torchs(mode):
    torch.manual_seed(2)
    ours = EmbeddingBag(None, DIM, mode=mode, init=Uniform(-1, 1))
    local(ours, torch.optim.SGD, lr=0.1)
    theirs = torch.nn.EmbeddingBag(ROWS, DIM, mode=mode)
    with torch.no_grad():
        theirs.weight.copy_(ours.pull(torch.arange(ROWS)))
    ids, offsets = torch.randint(ROWS, (40,)), torch.tensor([0, 3, 3, 10, 39])
    weights = torch.randn(40) if mode == "sum" else None
    assert torch.equal(ours(ids, offsets, weights), theirs(ids, offsets, weights))


def test_a_collection_takes_every_form_of_a_feature():
    model = EmbeddingCollection(["one", "padded", "jagged", "nested"], DIM, padding_idx=-1, init=Uniform(-1, 1))
    local(model, torch.optim.SGD, lr=0.1)
    nested = torch.nested.nested_tensor([torch.tensor([7]), torch.tensor([8, 9])], layout=torch.jagged)
    out = model(
        {
            "one": torch.tensor([1, 2]),
            "padded": torch.tensor([[3, -1], [3, 4]]),
            "jagged": (torch.tensor([5, 6]), torch.tensor([0, 2])),
            "nested": nested,
        }
    )
    row = model.pull
    expected = [
        [row(torch.tensor([keys])).sum(1)[0] if keys else torch.zeros(DIM) for keys in sample]
        for sample in ([[1], [3], [5, 6], [7]], [[2], [3, 4], [], [8, 9]])
    ]
    torch.testing.assert_close(out, torch.stack([torch.stack(sample) for sample in expected]))


def test_a_matrix_has_a_column_for_each_feature():
    model = EmbeddingCollection(3, DIM)
    local(model, torch.optim.SGD, lr=0.1)
    ids = torch.arange(6).reshape(2, 3)
    assert torch.equal(model(ids), model.pull(ids))
    with pytest.raises(InvalidArgument, match=r"\[batch, 3\]"):
        model(ids.T)


def test_modules_that_name_a_table_share_it():
    first, second = Embedding(None, DIM, name="shared"), EmbeddingBag(None, DIM, name="shared")
    assert first.weight is second.weight
    with pytest.raises(InvalidArgument, match="other settings"):
        Embedding(None, DIM + 1, name="shared")
    model = torch.nn.ModuleList([first, second])
    optimizer = local(model, torch.optim.Adagrad, lr=1.0)
    (first(torch.tensor([1])).sum() + second(torch.tensor([[1]])).sum()).backward()
    assert torch.equal(first.weight.grad, torch.full((1, DIM), 2.0)), "both uses in one gradient"
    optimizer.step()


def test_a_table_may_have_a_rule_of_its_own():
    model = torch.nn.ModuleList([Embedding(None, DIM, init=Constant(0.0), optimizer=rules.SGD(lr=0.25))])
    optimizer = local(model, torch.optim.Adam, lr=0.1)
    model[0](torch.tensor([3])).sum().backward()
    optimizer.step()
    assert torch.equal(model[0].pull(torch.tensor([3])), torch.full((1, DIM), -0.25))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidArgument, match="has no server rule; use one of SGD, Adagrad"):
        local(Embedding(None, DIM), torch.optim.Rprop)
    with pytest.raises(InvalidArgument, match="maximize"):
        local(Embedding(None, DIM), torch.optim.Adam, maximize=True)
    model = Embedding(10, DIM)
    with pytest.raises(InvalidArgument, match=r"call flota\.init_worker"):
        model(torch.tensor([1]))
    local(model, torch.optim.SGD, lr=0.1)
    with pytest.raises(IndexError, match="key 10 is out of range"):
        model(torch.tensor([1, 10]))
    with pytest.raises(InvalidArgument, match="int64"):
        model(torch.tensor([1.0]))
    with pytest.raises(InvalidArgument, match=r"before flota\.init_worker"):
        DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1)).step()
