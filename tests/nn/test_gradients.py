"""Gradients of tables, as a torch user handles them: against torch's own."""

import pytest
import torch

from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.initializer import Constant
from flota.nn import Embedding
from flota.nn.naming import reset_names

KEYS = torch.arange(3)


@pytest.fixture(autouse=True)
def new_names():
    reset_names()


def pair(make, **settings):
    """Ours and torch's, each with its optimizer."""
    ours = Embedding(None, 2, init=Constant(1.0))
    theirs = torch.nn.Embedding(3, 2)
    torch.nn.init.constant_(theirs.weight, 1.0)
    optimizer = DistributedOptimizer(make(ours.parameters(), **settings))
    optimizer.communicator = LocalCommunicator(optimizer)
    return (ours, optimizer), (theirs, make(theirs.parameters(), **settings))


def assert_same(ours, theirs):
    torch.testing.assert_close(ours.pull(KEYS), theirs.weight.detach())


def test_two_backward_passes_over_one_forward_add_up():
    (ours, mine), (theirs, other) = pair(torch.optim.SGD, lr=0.1)
    for module, optimizer in ((ours, mine), (theirs, other)):
        rows = module(KEYS)
        rows.sum().backward(retain_graph=True)
        (2 * rows).sum().backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        (rows * rows).sum().backward()
        optimizer.step()
    assert_same(ours, theirs)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_the_model_zeroes_are_gone(set_to_none):
    (ours, mine), (theirs, other) = pair(torch.optim.SGD, lr=0.1)
    for module, optimizer in ((ours, mine), (theirs, other)):
        for step in range(3):
            module.zero_grad(set_to_none)
            module(torch.tensor([step])).sum().backward()
            optimizer.step()
    assert_same(ours, theirs)
    assert ours.weight.grad.shape == (1, 2), "of the last step's row only"


def test_gradients_that_nobody_clears_add_up():
    (ours, mine), (theirs, other) = pair(torch.optim.SGD, lr=0.1)
    for module, optimizer in ((ours, mine), (theirs, other)):
        for _ in range(3):
            module(KEYS).sum().backward()
            optimizer.step()
    assert_same(ours, theirs)


def test_what_is_done_to_a_gradient_after_its_step_does_not_reach_it():
    (ours, mine), _ = pair(torch.optim.SGD, lr=0.1)
    ours(KEYS).sum().backward()
    sent = ours.weight.gradient().values
    mine.step()
    ours.weight.grad.zero_()
    assert bool(sent.all())


def test_a_loaded_state_and_later_schedules_are_followed():
    (ours, mine), _ = pair(torch.optim.SGD, lr=1.0)
    state = mine.state_dict()
    state["param_groups"][0]["lr"] = 0.25
    mine.load_state_dict(state)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(mine, gamma=0.5)
    for expected in (0.75, 0.625):
        mine.zero_grad()
        ours(KEYS).sum().backward()
        mine.step()
        scheduler.step()
        assert ours.pull(KEYS)[0, 0].item() == expected


def test_settings_other_than_the_learning_rate_may_not_change():
    (ours, mine), _ = pair(torch.optim.SGD, lr=0.1, momentum=0.9)
    ours(KEYS).sum().backward()
    mine.step()
    mine.param_groups[0]["lr"] = 0.2
    mine.step()
    mine.param_groups[0]["momentum"] = 0.5
    with pytest.raises(InvalidArgument, match=r"momentum was 0\.9 when the tables were made and is 0\.5 now"):
        mine.step()


def test_copies_of_a_module_share_its_table():
    import copy

    ours = Embedding(None, 2, init=Constant(0.0))
    other = copy.deepcopy(ours)
    optimizer = DistributedOptimizer(torch.optim.SGD([*ours.parameters(), *other.parameters()], lr=1.0))
    optimizer.communicator = LocalCommunicator(optimizer)
    ours(KEYS).sum().backward()
    optimizer.step()
    assert torch.equal(ours.pull(KEYS), torch.full((3, 2), -1.0))
    assert torch.equal(other.pull(KEYS), ours.pull(KEYS))


def test_the_step_count_of_an_optimizer_without_a_rule_goes_on():
    ours = Embedding(None, 2, init=Constant(1.0))
    optimizer = DistributedOptimizer(torch.optim.NAdam(ours.parameters(), lr=0.1))
    optimizer.communicator = LocalCommunicator(optimizer, any_optimizer=True)
    for key in (0, 0, 0, 1, 0):
        optimizer.zero_grad()
        ours(torch.tensor([key])).sum().backward()
        optimizer.step()
    rows = optimizer.communicator._rows["embedding_0"]
    assert rows._common["step"].item() == 4, "rows that were moved before: the third of them, and the last"


def test_hooks_of_the_optimizer_run_once():
    (ours, mine), _ = pair(torch.optim.SGD, lr=0.1)
    ran = []
    mine.register_step_post_hook(lambda *_: ran.append("after"))
    ours(KEYS).sum().backward()
    mine.step()
    assert ran == ["after"]


def test_a_second_derivative_is_refused():
    ours = pair(torch.optim.SGD, lr=0.1)[0][0]
    loss = (ours(KEYS) ** 2).sum()
    loss.backward(create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|does not require grad"):
        ours.weight.gradient().values.sum().backward()
