"""Learning rates that change: scripts advance them by ``step()``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from flota.errors import InvalidArgument


class LRScheduler:
    """What all share. A subclass says in ``get_lr`` what the rate is in ``last_epoch``, which counts calls of ``step``;
    it sets what it needs for that before it calls this constructor."""

    # Whether the optimizer advances it, once in each of its steps.
    steps_itself = False

    def __init__(self, learning_rate: Any = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(learning_rate, (int, float)) or learning_rate < 0:
            raise InvalidArgument(f"a learning rate is a number from 0 on, not {learning_rate!r}")
        self.base_lr = float(learning_rate)
        self.last_lr = self.base_lr
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.keys: list[str] = []
        self.step()

    def __call__(self) -> float:
        return self.last_lr

    def get_lr(self) -> float:
        raise NotImplementedError(f"{type(self).__name__} must say in get_lr() what the learning rate is")

    def step(self, epoch: int | None = None) -> None:
        """The next epoch's rate, or this one's."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        self._tell()

    def _tell(self) -> None:
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def state_keys(self) -> None:
        """Sets ``keys``: the attributes that ``state_dict`` has. Subclasses with a state of their own override it."""
        self.keys = ["last_epoch", "last_lr"]

    def state_dict(self) -> dict[str, Any]:
        self.state_keys()
        return {key: getattr(self, key) for key in self.keys if hasattr(self, key)}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.state_keys()
        for key in self.keys:
            if key not in state_dict:
                raise InvalidArgument(f"{type(self).__name__}: the state has no {key!r}, only {sorted(state_dict)}")
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """Linear for ``warmup_steps``, then by the root of the steps ("Attention Is All You Need")."""

    def __init__(
        self, d_model: int, warmup_steps: int, learning_rate: float = 1.0, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        _check("NoamDecay", d_model=d_model, warmup_steps=warmup_steps)
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * noam(self.last_epoch, self.d_model, self.warmup_steps)


class PiecewiseDecay(LRScheduler):
    """``values[i]`` before ``boundaries[i]``, and the last value after them all."""

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.boundaries, self.values = checked_pieces(boundaries, values)
        super().__init__(last_epoch=last_epoch, verbose=verbose)

    def get_lr(self) -> float:
        return piece(self.last_epoch, self.boundaries, self.values)


class NaturalExpDecay(LRScheduler):
    """By ``exp(-gamma)`` an epoch."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        _check("NaturalExpDecay", gamma=gamma)
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(LRScheduler):
    """Divided by ``1 + gamma * epoch``."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From ``learning_rate`` to ``end_lr`` in ``decay_steps``; ``cycle``: again and again, each time more slowly."""

    def __init__(
        self, learning_rate: float, decay_steps: int, end_lr: float = 0.0001, power: float = 1.0, cycle: bool = False,
        last_epoch: int = -1, verbose: bool = False,
    ) -> None:  # fmt: skip
        _check("PolynomialDecay", decay_steps=decay_steps, power=power)
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        left = polynomial(self.last_epoch, self.decay_steps, self.power, self.cycle)
        return (self.base_lr - self.end_lr) * left + self.end_lr


class ExponentialDecay(LRScheduler):
    """By ``gamma`` an epoch."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        if not 0 < gamma < 1:
            raise InvalidArgument(f"ExponentialDecay: gamma is between 0 and 1, not {gamma}")
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma**self.last_epoch


class StepDecay(LRScheduler):
    """By ``gamma`` each ``step_size`` epochs."""

    def __init__(
        self, learning_rate: float, step_size: int, gamma: float = 0.1, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        _check("StepDecay", step_size=step_size)
        self.step_size, self.gamma = step_size, _shrinking("StepDecay", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepDecay(LRScheduler):
    """By ``gamma`` at each of the milestones."""

    def __init__(
        self, learning_rate: float, milestones: Sequence[int], gamma: float = 0.1, last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        if any(later <= earlier for earlier, later in pairwise(milestones)):
            raise InvalidArgument(f"MultiStepDecay: each milestone is above the one before: {list(milestones)}")
        self.milestones, self.gamma = list(milestones), _shrinking("MultiStepDecay", gamma)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.gamma ** sum(milestone <= self.last_epoch for milestone in self.milestones)


class LambdaDecay(LRScheduler):
    """Times what ``lr_lambda`` says for the epoch."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LRScheduler):
    """Each epoch times what ``lr_lambda`` says for it."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not callable(lr_lambda):
            raise InvalidArgument(f"MultiplicativeDecay: lr_lambda is a function of the epoch, not {lr_lambda!r}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.prod(self.lr_lambda(epoch) for epoch in range(1, self.last_epoch + 1))


class OneCycleLR(LRScheduler):
    """Up from ``max_learning_rate / divide_factor`` to ``max_learning_rate`` in ``phase_pct`` of the steps, and down to
    ``end_learning_rate``; ``three_phase``: down to where it began in as many, and to the end in the rest."""

    def __init__(
        self, max_learning_rate: float, total_steps: int, divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001, phase_pct: float = 0.3, anneal_strategy: str = "cos",
        three_phase: bool = False, last_epoch: int = -1, verbose: bool = False,
    ) -> None:  # fmt: skip
        _check("OneCycleLR", total_steps=total_steps, divide_factor=divide_factor)
        most = 0.5 if three_phase else 1.0
        if not 0 <= phase_pct <= most or (three_phase and phase_pct == most):
            raise InvalidArgument(f"OneCycleLR: phase_pct is a part of the steps, below {most}, not {phase_pct}")
        first, up, last = max_learning_rate / divide_factor, phase_pct * total_steps - 1, float(total_steps - 1)
        if three_phase:
            self.ends, self.rates = [up, 2 * up, last], [first, max_learning_rate, first, end_learning_rate]
        else:
            self.ends, self.rates = [up, last], [first, max_learning_rate, end_learning_rate]
        self.total_steps = total_steps
        self._way: Callable[[float], float] = _one_of(
            "anneal_strategy", anneal_strategy, {"cos": _half_cosine, "linear": lambda part: part}
        )
        super().__init__(first, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch > self.total_steps:
            raise InvalidArgument(f"OneCycleLR: step {self.last_epoch} is beyond its total_steps={self.total_steps}")
        phase = next((i for i, end in enumerate(self.ends) if self.last_epoch <= end), len(self.ends) - 1)
        begin = self.ends[phase - 1] if phase else 0.0
        way = self._way((self.last_epoch - begin) / (self.ends[phase] - begin))
        return self.rates[phase] + (self.rates[phase + 1] - self.rates[phase]) * way


class CyclicLR(LRScheduler):
    """Up from ``base_learning_rate`` to ``max_learning_rate`` and down again, over and over. ``mode``: the height stays
    (triangular), halves with each cycle (triangular2), or shrinks by ``exp_gamma`` a step (exp_range); or it is times
    ``scale_fn`` of the cycle or of the step (``scale_mode``: cycle, iterations)."""

    def __init__(
        self, base_learning_rate: float, max_learning_rate: float, step_size_up: int,
        step_size_down: int | None = None, mode: str = "triangular", exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:  # fmt: skip
        down = step_size_up if step_size_down is None else step_size_down
        _check("CyclicLR", step_size_up=step_size_up, step_size_down=down)
        heights: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 0.5 ** (cycle - 1), "cycle"),
            "exp_range": (lambda step: float(exp_gamma**step), "iterations"),
        }
        _one_of("scale_mode", scale_mode, {"cycle": True, "iterations": False})
        own: tuple[Callable[[float], float], str] = (
            _one_of("mode", mode, heights) if scale_fn is None else (scale_fn, scale_mode)
        )
        self.scale_fn, self.scale_mode = own
        self.cycle_size, self.step_up_pct = float(step_size_up + down), step_size_up / (step_size_up + down)
        self.max_lr, self.amplitude = float(max_learning_rate), max_learning_rate - base_learning_rate
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        part = 1 + self.last_epoch / self.cycle_size - cycle
        up = self.step_up_pct
        height = part / up if part <= up else (1 - part) / (1 - up)
        times = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        return float(self.base_lr + self.amplitude * height * times)


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from ``learning_rate`` to ``eta_min`` in ``T_max`` epochs, and back in as many."""

    def __init__(
        self, learning_rate: float, T_max: int, eta_min: float = 0.0, last_epoch: int = -1, verbose: bool = False  # noqa: N803
    ) -> None:  # fmt: skip
        _check("CosineAnnealingDecay", T_max=T_max)
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.eta_min + (self.base_lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class LinearWarmup(LRScheduler):
    """From ``start_lr`` to ``end_lr`` in ``warmup_steps``, then ``learning_rate``: a number, or a scheduler that begins
    there."""

    def __init__(
        self, learning_rate: float | LRScheduler, warmup_steps: int, start_lr: float, end_lr: float,
        last_epoch: int = -1, verbose: bool = False,
    ) -> None:  # fmt: skip
        _check("LinearWarmup", warmup_steps=warmup_steps)
        if not end_lr > start_lr:
            raise InvalidArgument(f"LinearWarmup: end_lr {end_lr} is above start_lr {start_lr}")
        if isinstance(learning_rate, LRScheduler) and learning_rate.steps_itself:
            raise InvalidArgument("LinearWarmup cannot advance a decay that advances by itself: use linear_lr_warmup")
        self.learning_rate = learning_rate
        self.warmup_steps, self.start_lr, self.end_lr = warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return self.start_lr + (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        inner = self.learning_rate
        return super().state_dict() | (
            {"LinearWarmup_LR": inner.state_dict()} if isinstance(inner, LRScheduler) else {}
        )

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])

    set_dict = set_state_dict


class ReduceOnPlateau(LRScheduler):
    """By ``factor`` when a metric has not become better for more than ``patience`` steps; then it waits ``cooldown``
    steps before it looks again."""

    def __init__(
        self, learning_rate: float, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: float = 0.0,
        epsilon: float = 1e-8, verbose: bool = False,
    ) -> None:  # fmt: skip
        self._sign: float = _one_of("mode", mode, {"min": -1.0, "max": 1.0})
        self._relative: bool = _one_of("threshold_mode", threshold_mode, {"rel": True, "abs": False})
        self.factor = _shrinking("ReduceOnPlateau", factor)
        self.patience, self.threshold, self.cooldown = patience, threshold, cooldown
        self.min_lr, self.epsilon = min_lr, epsilon
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best: float | None = None
        super().__init__(learning_rate, verbose=verbose)

    def get_lr(self) -> float:
        return self.last_lr

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def step(self, metrics: Any = None, epoch: int | None = None) -> None:  # type: ignore[override]
        """``metrics``: one number, however it is held."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if metrics is None:
            if self.last_epoch > 0:
                raise InvalidArgument("ReduceOnPlateau.step needs the metric that it watches")
            return
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        metric = float(metrics)
        if self.best is None or self._is_better(metric, self.best):
            self.best, self.num_bad_epochs = metric, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            reduced = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - reduced > self.epsilon:
                self.last_lr = reduced
                self._tell()

    def _is_better(self, metric: float, best: float) -> bool:
        margin = self.threshold * (best if self._relative else 1.0)
        return self._sign * metric > self._sign * best + margin


# --- the formulas, and what is asked of their numbers ---


def noam(step: float, d_model: int, warmup_steps: int) -> float:
    late = step**-0.5 if step > 0 else 1.0
    return float(d_model**-0.5 * min(late, step * warmup_steps**-1.5))


def _half_cosine(part: float) -> float:
    return (1 - math.cos(math.pi * part)) / 2


def piece(step: float, boundaries: Sequence[float], values: Sequence[float]) -> float:
    """The value of the first boundary that is still ahead."""
    ahead = (value for boundary, value in zip(boundaries, values, strict=False) if step < boundary)
    return next(ahead, values[-1])


def polynomial(step: float, decay_steps: int, power: float, cycle: bool) -> float:
    """Which part of the way is left."""
    if cycle:
        return float((1 - step / (decay_steps * max(math.ceil(step / decay_steps), 1))) ** power)
    return float((1 - min(step, decay_steps) / decay_steps) ** power)


def checked_pieces(boundaries: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
    if not boundaries or len(values) <= len(boundaries):
        raise InvalidArgument(
            f"a piecewise rate has boundaries and one value more, not {len(boundaries)} and {len(values)}"
        )
    return list(boundaries), [float(value) for value in values]


def _check(who: str, **numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise InvalidArgument(f"{who}: {name} is above 0, not {number}")


def _shrinking(who: str, factor: float) -> float:
    if not factor < 1:
        raise InvalidArgument(f"{who}: the rate is multiplied by a number below 1, not {factor}")
    return factor


def _one_of(what: str, word: str, meanings: dict[str, Any]) -> Any:
    if word.lower() not in meanings:
        raise InvalidArgument(f"{what} is one of {', '.join(meanings)}, not {word!r}")
    return meanings[word.lower()]
