"""What the reference's optimizers and schedulers do with a small model: written to golden/ for test_optimizers.py.

Run under a Python that has paddlepaddle 2.6: ``python tests/paddle/make_optimizer_goldens.py``.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden"

STEPS = 20
ROWS, WIDTH, NUMBERS, BATCH, SLOTS = 12, 3, 4, 6, 2
INPUTS = WIDTH * SLOTS + NUMBERS

_random = np.random.RandomState(7)
FIRST = {
    "table": _random.uniform(-0.5, 0.5, (ROWS, WIDTH)).astype("float32"),
    "weight": _random.uniform(-0.5, 0.5, (INPUTS, 2)).astype("float32"),
    "bias": np.array([0.1, -0.2], "float32"),
}
# A table's rows begin alike.
ROW = 0.25
BATCHES = [
    {
        "ids": _random.randint(0, ROWS, (BATCH, SLOTS)).astype("int64"),
        "numbers": _random.uniform(-1, 1, (BATCH, NUMBERS)).astype("float32"),
        "wanted": _random.uniform(-2, 2, (BATCH, 2)).astype("float32"),
    }
    for _ in range(STEPS)
]

# What makes something of a module that is the reference, or stands for it.
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Setting:
    """``attrs``: what is said about the table, the weight and the bias. ``sparse``: the table's gradient is that of the
    rows that were looked up."""

    optimizer: Make
    attrs: dict[str, Make] = field(default_factory=dict)
    sparse: bool = False


def _pieces(p: Any) -> Any:
    return p.optimizer.lr.PiecewiseDecay([5, 12], [0.2, 0.05, 0.01])


SETTINGS: dict[str, Setting] = {
    "sgd": Setting(lambda p: p.optimizer.SGD(0.1)),
    "sgd_number_decay": Setting(lambda p: p.optimizer.SGD(0.1, weight_decay=0.05)),
    "sgd_l1": Setting(lambda p: p.optimizer.SGD(0.1, weight_decay=p.regularizer.L1Decay(0.02))),
    "sgd_own_regularizers": Setting(
        lambda p: p.optimizer.SGD(0.1, weight_decay=p.regularizer.L2Decay(0.05)),
        {
            "weight": lambda p: {"regularizer": p.regularizer.L1Decay(0.03)},
            "bias": lambda p: {"regularizer": p.regularizer.L2Decay(0.0)},
        },
    ),
    "sgd_own_rates": Setting(
        lambda p: p.optimizer.SGD(0.1),
        {"weight": lambda p: {"learning_rate": 0.3}, "bias": lambda p: {"learning_rate": 2.0}},
    ),
    "sgd_global_norm": Setting(lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByGlobalNorm(0.5))),
    "sgd_global_norm_not_all": Setting(
        lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByGlobalNorm(0.3)),
        {"bias": lambda p: {"need_clip": False}},
    ),
    "sgd_norm": Setting(lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByNorm(0.4))),
    "sgd_value": Setting(lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByValue(0.1))),
    "sgd_value_from_to": Setting(lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByValue(0.2, -0.05))),
    "sgd_clip_before_decay": Setting(
        lambda p: p.optimizer.SGD(0.1, weight_decay=0.2, grad_clip=p.nn.ClipGradByGlobalNorm(0.2))
    ),
    "sgd_pieces": Setting(lambda p: p.optimizer.SGD(_pieces(p))),
    "momentum": Setting(lambda p: p.optimizer.Momentum(0.05, 0.8)),
    "momentum_nesterov": Setting(lambda p: p.optimizer.Momentum(0.05, 0.8, use_nesterov=True)),
    "momentum_decay": Setting(lambda p: p.optimizer.Momentum(0.05, 0.8, weight_decay=0.1)),
    "momentum_l1_nesterov": Setting(
        lambda p: p.optimizer.Momentum(0.05, use_nesterov=True, weight_decay=p.regularizer.L1Decay(0.02))
    ),
    "adagrad": Setting(lambda p: p.optimizer.Adagrad(0.1)),
    "adagrad_decay": Setting(
        lambda p: p.optimizer.Adagrad(0.1, epsilon=1e-3, weight_decay=0.05, initial_accumulator_value=0.1)
    ),
    "adam": Setting(lambda p: p.optimizer.Adam(0.02)),
    "adam_all": Setting(
        lambda p: p.optimizer.Adam(
            _pieces(p), 0.8, 0.95, 1e-4, weight_decay=0.05, grad_clip=p.nn.ClipGradByGlobalNorm(0.5)
        ),
        {"weight": lambda p: {"learning_rate": 0.5}},
    ),
    "adam_l1": Setting(lambda p: p.optimizer.Adam(0.02, weight_decay=p.regularizer.L1Decay(0.05))),
    "adamw": Setting(lambda p: p.optimizer.AdamW(0.02)),
    "adamw_some": Setting(
        lambda p: p.optimizer.AdamW(0.02, weight_decay=0.3, apply_decay_param_fun=lambda name: name != "bias")
    ),
    "adamw_own_regularizer": Setting(
        lambda p: p.optimizer.AdamW(0.02, weight_decay=0.1, grad_clip=p.nn.ClipGradByNorm(0.3)),
        {"weight": lambda p: {"regularizer": p.regularizer.L2Decay(0.2)}},
    ),
    "adamax": Setting(lambda p: p.optimizer.Adamax(0.02)),
    "adamax_epsilon": Setting(lambda p: p.optimizer.Adamax(0.02, 0.8, 0.9, 1e-2, weight_decay=0.05)),
    "rmsprop": Setting(lambda p: p.optimizer.RMSProp(0.01)),
    "rmsprop_epsilon": Setting(lambda p: p.optimizer.RMSProp(0.01, 0.9, 1e-2)),
    "rmsprop_momentum": Setting(lambda p: p.optimizer.RMSProp(_pieces(p), 0.9, 1e-4, 0.8, weight_decay=0.05)),
    "rmsprop_centered": Setting(lambda p: p.optimizer.RMSProp(0.01, 0.9, 1e-3, 0.5, centered=True)),
    "ftrl": Setting(lambda p: p.optimizer.Ftrl(0.1)),
    "ftrl_sparse": Setting(lambda p: p.optimizer.Ftrl(0.2, l1=0.05, l2=0.1)),
    "ftrl_power": Setting(lambda p: p.optimizer.Ftrl(0.1, l1=0.01, lr_power=-0.7, weight_decay=0.05)),
    "lamb": Setting(lambda p: p.optimizer.Lamb(0.02)),
    "lamb_some": Setting(
        lambda p: p.optimizer.Lamb(
            0.02,
            0.1,
            exclude_from_weight_decay_fn=lambda parameter: parameter.name == "bias",
            grad_clip=p.nn.ClipGradByGlobalNorm(0.5),
        )
    ),
    "lamb_without_decay": Setting(lambda p: p.optimizer.Lamb(0.02, 0.0)),
    "lamb_always_adapts": Setting(lambda p: p.optimizer.Lamb(0.02, 0.0, always_adapt=True)),
    "rows_sgd": Setting(lambda p: p.optimizer.SGD(0.1), sparse=True),
    "rows_sgd_global_norm": Setting(
        lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByGlobalNorm(0.5)), sparse=True
    ),
    "rows_sgd_norm": Setting(lambda p: p.optimizer.SGD(0.1, grad_clip=p.nn.ClipGradByNorm(0.2)), sparse=True),
    "rows_adagrad": Setting(lambda p: p.optimizer.Adagrad(_pieces(p)), sparse=True),
    "rows_own_rate": Setting(lambda p: p.optimizer.SGD(0.1), {"table": lambda p: {"learning_rate": 3.0}}, sparse=True),
}

# On the CPU the reference corrects the rows' averages as if they were a step older than they are; on other devices, and
# for dense parameters, it does not.
LAZY = Setting(lambda p: p.optimizer.Adam(0.02, lazy_mode=True), sparse=True)

SCHEDULERS: dict[str, Make] = {
    "noam": lambda lr: lr.NoamDecay(64, 10, 0.5),
    "pieces": lambda lr: lr.PiecewiseDecay([3, 9, 20], [0.4, 0.3, 0.2, 0.1]),
    "natural": lambda lr: lr.NaturalExpDecay(0.3, 0.07),
    "inverse": lambda lr: lr.InverseTimeDecay(0.3, 0.2),
    "polynomial": lambda lr: lr.PolynomialDecay(0.3, 12, 0.01, 2.0),
    "polynomial_cycle": lambda lr: lr.PolynomialDecay(0.3, 8, 0.01, 0.7, cycle=True),
    "warmup": lambda lr: lr.LinearWarmup(0.3, 7, 0.0, 0.25),
    "warmup_then_pieces": lambda lr: lr.LinearWarmup(lr.PiecewiseDecay([4, 9], [0.3, 0.2, 0.1]), 7, 0.05, 0.3),
    "warmup_then_cosine": lambda lr: lr.LinearWarmup(lr.CosineAnnealingDecay(0.3, 8), 5, 0.05, 0.3),
    "exponential": lambda lr: lr.ExponentialDecay(0.3, 0.85),
    "exponential_resumed": lambda lr: lr.ExponentialDecay(0.3, 0.85, last_epoch=6),
    "milestones": lambda lr: lr.MultiStepDecay(0.3, [4, 9, 25], 0.3),
    "steps": lambda lr: lr.StepDecay(0.3, 6, 0.4),
    "function": lambda lr: lr.LambdaDecay(0.3, lambda epoch: 0.9**epoch),
    "cosine": lambda lr: lr.CosineAnnealingDecay(0.3, 11, 0.02),
    "cosine_to_zero": lambda lr: lr.CosineAnnealingDecay(0.3, 9),
    "plateau": lambda lr: lr.ReduceOnPlateau(0.3, factor=0.5, patience=2, cooldown=1),
    "plateau_abs_max": lambda lr: lr.ReduceOnPlateau(
        0.3, mode="max", factor=0.3, patience=1, threshold=0.05, threshold_mode="abs", min_lr=0.01
    ),
}
METRICS = [round(1 / (1 + i % 7), 3) for i in range(30)]
# 1.x's, which advance by themselves.
DECAYS: dict[str, Make] = {
    "exponential": lambda lr: lr.exponential_decay(0.3, 4, 0.7),
    "exponential_stairs": lambda lr: lr.exponential_decay(0.3, 4, 0.7, staircase=True),
    "natural": lambda lr: lr.natural_exp_decay(0.3, 4, 0.7),
    "natural_stairs": lambda lr: lr.natural_exp_decay(0.3, 4, 0.7, True),
    "inverse": lambda lr: lr.inverse_time_decay(0.3, 4, 0.7),
    "inverse_stairs": lambda lr: lr.inverse_time_decay(0.3, 4, 0.7, True),
    "polynomial": lambda lr: lr.polynomial_decay(0.3, 12, 0.01, 2.0),
    "polynomial_cycle": lambda lr: lr.polynomial_decay(0.3, 8, 0.01, 1.0, cycle=True),
    "pieces": lambda lr: lr.piecewise_decay([3, 9], [0.4, 0.3, 0.2]),
    "noam": lambda lr: lr.noam_decay(64, 10, 0.5),
    "cosine": lambda lr: lr.cosine_decay(0.3, 3, 5),
    "warmup": lambda lr: lr.linear_lr_warmup(0.3, 7, 0.05, 0.25),
    "warmup_then_exponential": lambda lr: lr.linear_lr_warmup(lr.exponential_decay(0.3, 4, 0.7), 5, 0.05, 0.25),
}


def advance(scheduler: Any, step: int) -> None:
    """As a script does after a step."""
    if type(scheduler).__name__ == "ReduceOnPlateau":
        scheduler.step(METRICS[step])
    else:
        scheduler.step()


# --- the reference ---


def _with_ftrl(paddle: Any) -> None:
    """2.x has Ftrl's operation and no optimizer for it: this is 1.x's."""

    class Ftrl(paddle.optimizer.Optimizer):
        def __init__(self, rate: float, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5, **rest: Any) -> None:
            super().__init__(rate, **rest)
            self.options = {"l1": l1, "l2": l2, "lr_power": lr_power}

        def _create_accumulators(self, block: Any, parameters: Any) -> None:
            for parameter in parameters:
                self._add_accumulator("squared", parameter)
                self._add_accumulator("linear", parameter)

        def _append_optimize_op(self, block: Any, pair: Any) -> Any:
            square, linear = (self._get_accumulator(each, pair[0]) for each in ("squared", "linear"))
            inputs = {"Param": pair[0], "Grad": pair[1], "SquaredAccumulator": square, "LinearAccumulator": linear}
            outputs = {"ParamOut": pair[0], "SquaredAccumOut": square, "LinearAccumOut": linear}
            inputs["LearningRate"] = self._create_param_lr(pair)
            return block.append_op(type="ftrl", inputs=inputs, outputs=outputs, attrs=self.options)

    paddle.optimizer.Ftrl = Ftrl


def train(paddle: Any, setting: Setting) -> dict[str, np.ndarray]:
    """The losses, and what the parameters have become."""
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        ids = paddle.static.data("ids", [-1, SLOTS], "int64")
        numbers = paddle.static.data("numbers", [-1, NUMBERS], "float32")
        wanted = paddle.static.data("wanted", [-1, 2], "float32")

        def attr(name: str) -> Any:
            own = setting.attrs[name](paddle) if name in setting.attrs else {}
            first = np.full_like(FIRST[name], ROW) if name == "table" and setting.sparse else FIRST[name]
            return paddle.ParamAttr(name=name, initializer=paddle.nn.initializer.Assign(first), **own)

        table = attr("table")
        rows = paddle.static.nn.embedding(ids, [ROWS, WIDTH], is_sparse=setting.sparse, param_attr=table)
        flat = paddle.concat([paddle.reshape(rows, [-1, WIDTH * SLOTS]), numbers], 1)
        out = paddle.static.nn.fc(flat, 2, weight_attr=attr("weight"), bias_attr=attr("bias"))
        loss = paddle.mean(paddle.square(out - wanted))
        optimizer = setting.optimizer(paddle)
        optimizer.minimize(loss)
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        losses = []
        for batch in BATCHES:
            losses.append(executor.run(main, feed=batch, fetch_list=[loss])[0].reshape(()))
            if hasattr(optimizer._learning_rate, "step"):
                optimizer._learning_rate.step()
        scope = paddle.static.global_scope()
        values = {name: np.array(scope.find_var(name).get_tensor()) for name in FIRST}
    return {"losses": np.array(losses), **values}


def schedule(scheduler: Any, steps: int = 30) -> list[float]:
    rates = []
    for step in range(steps):
        rates.append(float(scheduler()))
        advance(scheduler, step)
    return rates


def decay(paddle: Any, make: Make) -> list[float]:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        rate = make(paddle.optimizer.lr)
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        return [executor.run(main, fetch_list=[rate])[0].item() for _ in range(30)]


def write() -> None:
    import paddle

    paddle.enable_static()
    _with_ftrl(paddle)
    GOLDEN.mkdir(exist_ok=True)
    arrays = {}
    for name, setting in {**SETTINGS, "lazy": LAZY}.items():
        arrays |= {f"{name}/{part}": value for part, value in train(paddle, setting).items()}
    np.savez_compressed(GOLDEN / "optimizers.npz", **arrays)
    rates = {
        "schedulers": {name: schedule(make(paddle.optimizer.lr)) for name, make in SCHEDULERS.items()},
        "decays": {name: decay(paddle, make) for name, make in DECAYS.items()},
    }
    (GOLDEN / "learning_rates.json").write_text(json.dumps(rates) + "\n")


if __name__ == "__main__":
    write()
