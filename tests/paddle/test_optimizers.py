"""Optimizers and learning rates do what the reference's do: 20 steps of a small model, in programs and eagerly."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from make_optimizer_goldens import (
    BATCH,
    BATCHES,
    DECAYS,
    FIRST,
    GOLDEN,
    LAZY,
    NUMBERS,
    ROW,
    ROWS,
    SCHEDULERS,
    SETTINGS,
    SLOTS,
    WIDTH,
    Setting,
    schedule,
)

import flota.paddle as paddle
from flota import initializer as rows
from flota.errors import InvalidArgument
from flota.nn.lookup import look_up
from flota.nn.store import KeyRules
from flota.nn.table import TableOptions, TableParameter
from flota.paddle import clipping, mode, optimizer, regularizer
from flota.paddle.attributes import ParamAttr
from flota.paddle.graph.building import data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, program_guard
from flota.paddle.graph.scope import Scope
from flota.paddle.graph.training import trainer_of
from flota.paddle.initializer import Assign, Constant
from flota.paddle.optimizer import fluid, lr
from flota.paddle.static.nn import embedding, fc
from flota.paddle.tensor import Tensor

# What settings know of the reference's module.
PADDLE = SimpleNamespace(optimizer=optimizer, regularizer=regularizer, nn=clipping)

RATES = json.loads((GOLDEN / "learning_rates.json").read_text())


@pytest.fixture
def programs() -> Iterator[None]:
    """Operations are recorded."""
    mode.enable_static()
    yield
    mode.disable_static()


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(GOLDEN / "optimizers.npz") as arrays:
        return {part: arrays[f"{name}/{part}"] for part in ("losses", *FIRST)}


def assert_as_the_reference(name: str, result: dict[str, Any]) -> None:
    for part, value in golden(name).items():
        np.testing.assert_allclose(result[part], value, rtol=1e-5, atol=1e-6, err_msg=part)


class Trained:
    """The reference's model as a program."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.main, self.startup, self.scope = Program(), Program(), Scope()
        self.executor = Executor()
        with program_guard(self.main, self.startup):
            ids = data("ids", [-1, SLOTS], "int64")
            numbers, wanted = data("numbers", [-1, NUMBERS]), data("wanted", [-1, 2])
            self.rows = embedding(ids, [ROWS, WIDTH], is_sparse=setting.sparse, param_attr=self._attr("table"))
            flat = paddle.concat([paddle.reshape(self.rows, [-1, WIDTH * SLOTS]), numbers], 1)
            out = fc(flat, 2, weight_attr=self._attr("weight"), bias_attr=self._attr("bias"))
            self.loss = paddle.mean(paddle.square(out - wanted))
            self.test = self.main.clone(for_test=True)
            self.optimizer = setting.optimizer(PADDLE)
            self.minimize()
        self.executor.run(self.startup, scope=self.scope)

    def minimize(self) -> None:
        self.optimizer.minimize(self.loss)

    def _attr(self, name: str) -> ParamAttr:
        own = self.setting.attrs[name](PADDLE) if name in self.setting.attrs else {}
        first = Constant(ROW) if name == "table" and self.setting.sparse else Assign(FIRST[name])
        return ParamAttr(name=name, initializer=first, **own)

    def step(self, batch: dict[str, np.ndarray]) -> float:
        (loss,) = self.executor.run(self.main, batch, [self.loss], scope=self.scope)
        return float(loss[0])

    def values(self) -> dict[str, np.ndarray]:
        dense = [name for name in FIRST if name != "table" or not self.setting.sparse]
        found = {name: np.array(self.scope.find_var(name).get_tensor()) for name in dense}
        if self.setting.sparse:
            every = np.arange(ROWS).reshape(-1, SLOTS)
            (rows,) = self.executor.run(self.test, {"ids": every}, [self.rows], scope=self.scope)
            found["table"] = rows.reshape(ROWS, WIDTH)
        return found


def advance(trained: Any) -> None:
    """As a script does after a step."""
    if isinstance(trained._learning_rate, lr.LRScheduler) and not trained._learning_rate.steps_itself:
        trained._learning_rate.step()


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_program_trains_as_the_reference_does(name: str) -> None:
    trained = Trained(SETTINGS[name])
    losses = []
    for batch in BATCHES:
        losses.append(trained.step(batch))
        advance(trained.optimizer)
    assert_as_the_reference(name, {"losses": losses, **trained.values()})


class Eager:
    """The same model, eagerly."""

    def __init__(self, setting: Setting) -> None:
        self.parameters = {name: self._parameter(name, setting) for name in FIRST}
        self.make = setting.optimizer

    @staticmethod
    def _parameter(name: str, setting: Setting) -> Tensor:
        made = Tensor(torch.tensor(FIRST[name], requires_grad=True), name)
        own = setting.attrs[name](PADDLE) if name in setting.attrs else {}
        made.optimize_attr = {"learning_rate": own.pop("learning_rate", 1.0)}  # type: ignore[attr-defined]
        made.__dict__.update(own)
        return made

    def optimizer(self) -> Any:
        """The setting's, of these parameters; settings say nothing of them."""
        given = list(self.parameters.values())

        def made(kind: Any) -> Any:
            return lambda *args, **kwargs: kind(*args, parameters=given, **kwargs)

        kinds = {name: made(getattr(optimizer, name)) for name in optimizer.__all__ if name not in ("Optimizer", "lr")}
        return self.make(
            SimpleNamespace(optimizer=SimpleNamespace(lr=lr, **kinds), regularizer=regularizer, nn=clipping)
        )

    def loss(self, batch: dict[str, np.ndarray]) -> Tensor:
        table, weight, bias = (self.parameters[name].value for name in FIRST)
        ids, numbers, wanted = (torch.from_numpy(batch[name]) for name in ("ids", "numbers", "wanted"))
        held = look_up(table, [ids], KeyRules(), True).gathered() if isinstance(table, TableParameter) else table[ids]
        out = torch.cat([held.reshape(BATCH, -1), numbers], 1) @ weight + bias
        return Tensor((out - wanted).square().mean())

    def values(self) -> dict[str, np.ndarray]:
        return {name: parameter.numpy() for name, parameter in self.parameters.items()}


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if not setting.sparse])
def test_eager_training_is_the_same(name: str) -> None:
    model = Eager(SETTINGS[name])
    trained = model.optimizer()
    losses = []
    for batch in BATCHES:
        loss = model.loss(batch)
        loss.backward()
        trained.step()
        trained.clear_grad()
        advance(trained)
        losses.append(loss.item())
    assert_as_the_reference(name, {"losses": losses, **model.values()})


@pytest.mark.parametrize(
    "name", ["adam", "momentum", "adagrad", "adamax", "rmsprop_centered", "lamb", "ftrl", "sgd_pieces"]
)
def test_training_goes_on_from_a_saved_state(name: str) -> None:
    model = Eager(SETTINGS[name])
    trained = model.optimizer()
    for number, batch in enumerate(BATCHES):
        if number == 8:
            state = trained.state_dict()
            trained = model.optimizer()
            trained.set_state_dict(state)
        model.loss(batch).backward()
        trained.minimize(model.loss(batch))
        trained.clear_grad()
        advance(trained)
    np.testing.assert_allclose(model.values()["weight"], golden(name)["weight"], rtol=1e-5, atol=1e-6)


def test_a_state_of_something_else_is_refused() -> None:
    model = Eager(SETTINGS["adam"])
    with pytest.raises(InvalidArgument, match="other_moment1_0"):
        model.optimizer().set_state_dict({"other_moment1_0": np.zeros(3)})


def test_gradients_stay_as_they_are_when_a_step_clips_them() -> None:
    model = Eager(SETTINGS["sgd_clip_before_decay"])
    model.loss(BATCHES[0]).backward()
    before = {name: parameter.gradient().copy() for name, parameter in model.parameters.items()}
    model.optimizer().step()
    for name, parameter in model.parameters.items():
        np.testing.assert_array_equal(parameter.gradient(), before[name])


def test_a_ratio_is_part_of_the_rate() -> None:
    def moved(ratio: float) -> np.ndarray:
        weight = Tensor(torch.zeros(2, requires_grad=True), "weight")
        trained = optimizer.AdamW(0.1, parameters=[weight], lr_ratio=lambda parameter: ratio)
        weight.value.grad = torch.ones(2)
        trained.step()
        return weight.numpy()

    np.testing.assert_allclose(moved(0.25), moved(1.0) * 0.25, rtol=1e-6)


def test_a_rescaled_gradient_is_that_much_shorter() -> None:
    def moved(scale: float) -> np.ndarray:
        weight = Tensor(torch.zeros(2, requires_grad=True), "weight")
        trained = optimizer.Momentum(0.1, parameters=[weight], rescale_grad=scale)
        weight.value.grad = torch.ones(2)
        trained.step()
        return weight.numpy()

    np.testing.assert_allclose(moved(0.25), moved(1.0) * 0.25, rtol=1e-6)


# --- tables ---


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {}),
        ("Momentum", {}),
        ("Adagrad", {}),
        ("Adam", {}),
        ("Adam", {"lazy_mode": True, "epsilon": 1e-2}),
        ("AdamW", {}),
        ("AdamW", {"lazy_mode": True, "epsilon": 1e-2}),
        ("Adamax", {"epsilon": 1e-2}),
        ("RMSProp", {"epsilon": 1e-2}),
        ("RMSProp", {"momentum": 0.5, "centered": True}),
        ("Ftrl", {}),
    ],
)
def test_rows_move_as_dense_parameters_where_each_step_has_them_all(kind: str, options: dict[str, Any]) -> None:
    every = [{**batch, "ids": np.arange(ROWS).reshape(-1, SLOTS) % ROWS} for batch in BATCHES]

    def run(sparse: bool) -> np.ndarray:
        def make(p: Any) -> Any:
            return getattr(p.optimizer, kind)(learning_rate=0.05, grad_clip=p.nn.ClipGradByGlobalNorm(0.8), **options)

        attrs = {"table": lambda p: {"regularizer": p.regularizer.L1Decay(0.05), "learning_rate": 2.0}}
        trained = Trained(Setting(make, attrs, sparse))
        if not sparse:
            trained.scope.find_var("table").get_tensor().set(np.full_like(FIRST["table"], ROW))
        for batch in every:
            trained.step(batch)
        return trained.values()["table"]

    np.testing.assert_allclose(run(True), run(False), rtol=1e-5, atol=1e-6)


def test_eager_rows_are_the_reference_s() -> None:
    model = Eager(SETTINGS["rows_sgd_global_norm"])
    table = TableParameter.make(TableOptions("eager_rows", WIDTH, rows.Constant(ROW)))
    model.parameters["table"] = Tensor(table, "table")
    trained = model.optimizer()
    for batch in BATCHES:
        model.loss(batch).backward()
        trained.step()
        trained.clear_grad()
    every = look_up(table, [torch.arange(ROWS)], KeyRules(), training=False).gathered()
    found = {**model.values(), "table": every.numpy()}
    for part in FIRST:
        np.testing.assert_allclose(found[part], golden("rows_sgd_global_norm")[part], rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("programs")
def test_lazy_rows_count_the_optimizer_s_steps() -> None:
    trained = Trained(LAZY)
    trainer = trainer_of(trained.main.trainings[0], trained.scope)
    trainer.optimizer.steps = 1  # the reference's rows are a step older
    losses = [trained.step(batch) for batch in BATCHES]
    assert_as_the_reference("lazy", {"losses": losses, **trained.values()})


@pytest.mark.parametrize(("kind", "decay"), [("Adam", 0.0), ("AdamW", 0.3)])
def test_a_lazy_row_that_comes_late_is_corrected_by_the_steps_of_all(kind: str, decay: float) -> None:
    table = TableParameter.make(TableOptions(f"late_rows_{kind}", 1, rows.Constant(ROW)))
    trained = getattr(optimizer, kind)(0.02, parameters=[Tensor(table, "table")], weight_decay=decay, lazy_mode=True)
    for key in (0, 0, 0, 1):
        look_up(table, [torch.tensor([key])], KeyRules(), True).gathered().mul(0.5).sum().backward()
        trained.step()
        trained.clear_grad()
    late = look_up(table, [torch.tensor([1])], KeyRules(), training=False).gathered().item()
    average, square = 0.1 * 0.5 / (1 - 0.9**4), 0.001 * 0.5**2 / (1 - 0.999**4)
    assert late == pytest.approx(ROW * (1 - 0.02 * decay) - 0.02 * average / square**0.5, rel=1e-5)


@pytest.mark.usefixtures("programs")
def test_lamb_refuses_a_table() -> None:
    trained = Trained(Setting(lambda p: p.optimizer.Lamb(), sparse=True))
    with pytest.raises(InvalidArgument, match="norm of whole parameters"):
        trained.step(BATCHES[0])


# --- learning rates ---


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_schedule_is_the_reference_s(name: str) -> None:
    scheduler = SCHEDULERS[name](lr)
    assert schedule(scheduler) == pytest.approx(RATES["schedulers"][name], rel=1e-7, abs=1e-12)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", DECAYS)
def test_a_decay_follows_the_runs_of_its_program(name: str) -> None:
    trained = Trained(Setting(lambda p: p.optimizer.SGD(DECAYS[name](p.optimizer.lr))))
    rates = []
    for step in range(30):
        rates.append(trained.optimizer.get_lr())
        trained.step(BATCHES[step % len(BATCHES)])
    # The reference computes these in single precision.
    assert rates == pytest.approx(RATES["decays"][name], rel=2e-6)


def test_a_scheduler_goes_on_from_its_state() -> None:
    first, second = (SCHEDULERS["warmup_then_cosine"](lr) for _ in range(2))
    for _ in range(9):
        first.step()
    second.set_state_dict(first.state_dict())
    assert schedule(second, 10) == schedule(first, 10)


def test_a_scheduler_of_a_script_s_own_says_its_rate() -> None:
    class Halves(lr.LRScheduler):
        def get_lr(self) -> float:
            return self.base_lr / 2**self.last_epoch

    assert schedule(Halves(1.0), 4) == [1.0, 0.5, 0.25, 0.125]


def test_two_optimizers_advance_a_shared_decay_once_a_step() -> None:
    shared = lr.exponential_decay(1.0, 1, 0.5)
    weights = [Tensor(torch.zeros(1, requires_grad=True), name) for name in "ab"]
    trained = [optimizer.SGD(shared, parameters=[weight]) for weight in weights]
    for _ in range(3):
        for each, weight in zip(trained, weights, strict=True):
            weight.value.grad = torch.ones(1)
            each.step()
    assert shared() == 0.125


def test_a_rate_is_set_unless_a_scheduler_says_it() -> None:
    trained = optimizer.SGD(0.1)
    trained.set_lr(0.2)
    assert trained.get_lr() == 0.2
    with pytest.raises(InvalidArgument, match="scheduler"):
        optimizer.SGD(lr.ExponentialDecay(0.1, 0.5)).set_lr(0.2)


# --- 1.x, and what is refused ---


@pytest.mark.usefixtures("programs")
def test_fluid_s_arguments_mean_the_same() -> None:
    decay = regularizer.L2DecayRegularizer(0.05)
    trained = Trained(Setting(lambda p: fluid.SGDOptimizer(0.1, regularization=decay)))
    for batch in BATCHES:
        trained.step(batch)
    np.testing.assert_allclose(trained.values()["weight"], golden("sgd_number_decay")["weight"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: optimizer.SGD("fast"), "learning rate"),
        (lambda: optimizer.SGD(0.1, weight_decay="much"), "weight decay"),
        (lambda: optimizer.SGD(0.1, grad_clip=1.0), "grad_clip"),
        (lambda: optimizer.SGD(0.1, parameters=[{"params": []}]), "ParamAttr"),
        (lambda: optimizer.AdamW(0.1, weight_decay=regularizer.L2Decay(0.1)), "number"),
        (lambda: optimizer.SGD(0.1).step(), "without parameters"),
        (lambda: clipping.ClipGradByGlobalNorm(0.0), "above 0"),
        (lambda: clipping.ClipGradByGlobalNorm(1.0, group_name="mine"), "mine"),
        (lambda: lr.ExponentialDecay(0.1, 1.5), "between 0 and 1"),
        (lambda: lr.PiecewiseDecay([1, 2], [0.1, 0.2]), "one value more"),
        (lambda: lr.LinearWarmup(lr.exponential_decay(0.1, 2, 0.5), 3, 0.0, 0.1), "linear_lr_warmup"),
    ],
)
def test_what_would_have_no_effect_is_refused(make: Any, what: str) -> None:
    with pytest.raises(InvalidArgument, match=what):
        make()


def test_half_precision_needs_no_copy_that_nobody_keeps() -> None:
    weight = Tensor(torch.zeros(2, dtype=torch.bfloat16, requires_grad=True), "weight")
    with pytest.raises(InvalidArgument, match="multi_precision"):
        optimizer.Adam(parameters=[weight], multi_precision=True).attach()
