"""Server rules give torch.optim's numbers: 200 random steps through two real servers.

`CLOSE` is the tolerance: a tenth of the 1e-5 that is promised. The learning rate changes with every push, as under a
scheduler, gradients are scaled, keys repeat within a push, and a step leaves most rows without a gradient.
"""

import dataclasses
import inspect

import numpy as np
import pytest
import torch

from flota.initializer import Normal, Uniform
from flota.rules import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    LazyAdam,
    Momentum,
    PaddleAdamax,
    PaddleRMSProp,
    RMSProp,
)
from references import TORCH_OPTIMIZERS, TorchReference, reference_of

STEPS = 200
ROWS = 12
DIM = 19  # two vectors of eight and a tail
CLOSE = {"rtol": 1e-6, "atol": 1e-6}

RULES = {
    "sgd": SGD(lr=0.1),
    "sgd-decay": SGD(lr=0.1, weight_decay=0.01),
    "momentum": Momentum(lr=0.02, momentum=0.9),
    "momentum-dampening": Momentum(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.01),
    "nesterov": Momentum(lr=0.02, momentum=0.9, nesterov=True, weight_decay=0.001),
    "adagrad": Adagrad(lr=0.1),
    "adagrad-decay": Adagrad(lr=0.1, lr_decay=0.05, initial_accumulator_value=0.3, weight_decay=0.01),
    "rmsprop": RMSProp(lr=0.01, alpha=0.9),
    "rmsprop-momentum": RMSProp(lr=0.01, momentum=0.7, weight_decay=0.01),
    "rmsprop-centered": RMSProp(lr=0.01, alpha=0.9, eps=1e-3, centered=True),
    "rmsprop-centered-momentum": RMSProp(lr=0.01, alpha=0.9, eps=1e-3, centered=True, momentum=0.5),
    "paddle-rmsprop": PaddleRMSProp(lr=0.01),
    "paddle-rmsprop-momentum": PaddleRMSProp(lr=0.01, eps=1e-2, momentum=0.7, weight_decay=0.01),
    "paddle-rmsprop-centered": PaddleRMSProp(lr=0.01, alpha=0.9, eps=1e-3, centered=True),
    "paddle-rmsprop-centered-momentum": PaddleRMSProp(lr=0.01, alpha=0.9, eps=1e-3, centered=True, momentum=0.5),
    "adam": Adam(lr=0.01),
    "adam-betas": Adam(lr=0.01, betas=(0.4, 0.9), eps=1e-4, weight_decay=0.01),
    "adam-amsgrad": Adam(lr=0.01, betas=(0.8, 0.95), amsgrad=True),
    "adamw": AdamW(lr=0.01, weight_decay=0.1),
    "adamw-amsgrad": AdamW(lr=0.01, betas=(0.8, 0.95), amsgrad=True),
    "adamax": Adamax(lr=0.01, weight_decay=0.01),
    "paddle-adamax": PaddleAdamax(lr=0.01, weight_decay=0.01),
    "paddle-adamax-eps": PaddleAdamax(lr=0.01, betas=(0.8, 0.9), eps=1e-2),
    "lazy-adam": LazyAdam(lr=0.01, betas=(0.4, 0.9), eps=1e-2, weight_decay=0.01, steps="row"),
    "lamb": Lamb(lr=0.01, weight_decay=0.05),
    "lamb-betas": Lamb(lr=0.01, betas=(0.4, 0.9), weight_decay=0.0),
    "ftrl": FTRL(lr=0.1, l1=0.5, l2=0.1, initial_accumulator_value=0.1),
    "ftrl-power": FTRL(lr=0.1, l1=0.01, lr_power=-0.3, initial_accumulator_value=0.5),
}
SPARSE_RULES = {name: rule for name, rule in RULES.items() if not isinstance(rule, Lamb)}
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def scheduled(lr, step):
    """A warm restart every 50 steps."""
    return lr * (0.55 + 0.45 * np.cos(np.pi * (step % 50) / 50))


def by_key(keys, gradients, scale):
    """What each key's row gets: the sum of its gradients in the caller's order, then scaled, all in float32."""
    sums = {}
    for key, gradient in zip(keys.tolist(), gradients, strict=True):
        sums[key] = sums[key] + gradient if key in sums else gradient
    return {key: gradient * np.float32(scale) for key, gradient in sums.items()}


def batches(rng):
    """(step, keys with duplicates, gradients, scale) of each step; a third of the rows has no gradient on average."""
    for step in range(1, STEPS + 1):
        keys = rng.integers(0, ROWS, size=ROWS)
        yield step, keys, rng.standard_normal((ROWS, DIM), dtype=np.float32), rng.uniform(0.2, 2.0)


@pytest.mark.parametrize("rule", SPARSE_RULES.values(), ids=SPARSE_RULES)
def test_a_row_is_a_parameter_of_its_own(client, name, rng, rule):
    table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Uniform(-0.5, 0.5), seed=3)
    rows = np.arange(ROWS)
    reference = reference_of(rule, table.pull(rows))
    for step, keys, gradients, scale in batches(rng):
        lr = scheduled(rule.lr, step)
        table.push(keys, gradients, lr=lr, scale=scale)
        reference.step(by_key(keys, gradients, scale), lr)
    np.testing.assert_allclose(table.pull(rows), reference.values(), **CLOSE)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_dense_parameter_cut_in_blocks_is_one_parameter(client, name, rng, rule):
    shape = (11, 13)
    table = client.create_dense_table(name, shape=shape, rule=rule, init=Normal(0, 0.3), seed=3, min_block_size=32)
    assert table.blocks == (1 if isinstance(rule, Lamb) else 2)
    reference = reference_of(rule, [table.pull().numpy()])
    for step in range(1, STEPS + 1):
        lr, scale = scheduled(rule.lr, step), rng.uniform(0.2, 2.0)
        gradient = rng.standard_normal(shape, dtype=np.float32)
        table.push(gradient, lr=lr, scale=scale)
        reference.step({0: gradient * np.float32(scale)}, lr)
    np.testing.assert_allclose(table.pull(), reference.values()[0], **CLOSE)


def sparse_gradient(keys, gradients):
    return torch.sparse_coo_tensor(torch.tensor(keys)[None], torch.tensor(gradients), (ROWS, DIM))


def push_counted_reference(optimizer, weight, table, rule, rng):
    """Trains an embedding's weight with torch's sparse gradients, and the table with the same ones."""
    for step, keys, gradients, _ in batches(rng):
        lr = scheduled(rule.lr, step)
        optimizer.param_groups[0]["lr"] = lr
        with torch.sparse.check_sparse_tensor_invariants():
            weight.grad = sparse_gradient(keys, gradients)
            optimizer.step()
        table.push(keys, gradients, lr=lr, step=step)


def test_adam_that_counts_pushes_is_sparse_adam(client, name, rng):
    rule = Adam(lr=0.01, betas=(0.8, 0.95), steps="push")
    table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Normal(0, 0.3))
    weight = torch.nn.Parameter(table.pull(torch.arange(ROWS)))
    optimizer = torch.optim.SparseAdam([weight], lr=rule.lr, betas=rule.betas, eps=rule.eps)
    push_counted_reference(optimizer, weight, table, rule, rng)
    np.testing.assert_allclose(table.pull(range(ROWS)), weight.detach(), **CLOSE)


def test_adagrad_that_counts_pushes_is_torchs_on_sparse_gradients(client, name, rng):
    rule = Adagrad(lr=0.1, lr_decay=0.05, initial_accumulator_value=0.1, steps="push")
    table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Normal(0, 0.3))
    weight = torch.nn.Parameter(table.pull(torch.arange(ROWS)))
    optimizer = torch.optim.Adagrad([weight], lr=rule.lr, lr_decay=rule.lr_decay, initial_accumulator_value=0.1)
    push_counted_reference(optimizer, weight, table, rule, rng)
    np.testing.assert_allclose(table.pull(range(ROWS)), weight.detach(), **CLOSE)


@pytest.mark.parametrize(
    "rule",
    [AdamW(steps="push"), Adamax(steps="push"), PaddleAdamax(steps="push"), LazyAdam(eps=1e-2)],
    ids=["adamw", "adamax", "paddle-adamax", "lazy-adam"],
)
def test_a_rule_that_counts_pushes_does_not_care_how_often_a_row_came(client, name, rng, rule):
    table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Uniform(-0.5, 0.5))
    first = table.pull([0, 1]).numpy()
    gradient = rng.standard_normal((1, DIM), dtype=np.float32)
    reference = TorchReference(rule, first[1:])
    for _ in range(4):
        reference.step({0: np.zeros(DIM, dtype=np.float32)}, lr=0.0)
    reference.step({0: gradient[0]}, lr=rule.lr)
    for step in range(1, 5):
        table.push([0], gradient, step=step)
    table.push([1], gradient, step=5)
    np.testing.assert_allclose(table.pull([1]), reference.values(), **CLOSE)


def test_pushes_without_a_step_are_counted(client, rng):
    rule = Adam(lr=0.01, steps="push")
    counted, told = (client.create_sparse_table(f"steps-{how}", dim=4, rule=rule) for how in ("counted", "told"))
    for step in range(1, 8):
        gradient = rng.standard_normal((1, 4), dtype=np.float32)
        counted.push([step % 3], gradient)
        told.push([step % 3], gradient, step=step)
    assert torch.equal(counted.pull([0, 1, 2]), told.pull([0, 1, 2]))


@pytest.mark.parametrize("storage", HALVES)
@pytest.mark.parametrize("rule", [SGD(lr=0.1), Adagrad(lr=0.1), Adam(lr=0.01)], ids=["sgd", "adagrad", "adam"])
def test_half_storage_computes_in_float32_and_rounds_after_each_step(client, name, rng, rule, storage):
    table = client.create_sparse_table(name, dim=DIM, rule=rule, init=Uniform(-0.5, 0.5), storage=storage)
    dense = client.create_dense_table(f"{name}-dense", shape=(ROWS, DIM), rule=rule, storage=storage)
    rows = np.arange(ROWS)
    first = table.pull(rows)
    assert np.array_equal(first, torch.tensor(first).to(HALVES[storage]).float()), "a first value that is not rounded"
    dense.push(first, kind="assign")
    sparse_reference = TorchReference(rule, first, storage=HALVES[storage])
    dense_reference = TorchReference(rule, [first], storage=HALVES[storage])
    for step, keys, gradients, scale in batches(rng):
        lr = scheduled(rule.lr, step)
        table.push(keys, gradients, lr=lr, scale=scale)
        sparse_reference.step(by_key(keys, gradients, scale), lr)
        dense.push(gradients, lr=lr, scale=scale)
        dense_reference.step({0: gradients * np.float32(scale)}, lr)
    for ours, theirs in (
        (table.pull(rows), sparse_reference.values()),
        (dense.pull().numpy(), dense_reference.values()[0]),
    ):
        # A last bit of float32 can tip a rounding to the other side: then, and only then, they are a half's bit apart.
        same = ours == theirs
        assert same.mean() > (0.999 if isinstance(rule, SGD) else 0.95)
        np.testing.assert_allclose(ours, theirs, rtol=2 * torch.finfo(HALVES[storage]).eps, atol=1e-6)


@pytest.mark.parametrize("rule", TORCH_OPTIMIZERS, ids=lambda rule: rule.__name__)
def test_defaults_are_torchs(rule):
    ours = {field.name: field.default for field in dataclasses.fields(rule) if field.name != "steps"}
    theirs = inspect.signature(TORCH_OPTIMIZERS[rule]).parameters
    if rule is Momentum:
        assert ours.pop("momentum") == 0.9  # torch's is 0, which is SGD
    assert ours == {name: theirs[name].default for name in ours}
