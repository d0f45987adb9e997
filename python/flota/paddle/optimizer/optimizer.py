"""What all optimizers share: a program's training, eager steps, learning rates, decay, clipping, state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar

import torch

import flota
from flota.communicator.local import LocalCommunicator
from flota.communicator.optimizer import DistributedOptimizer
from flota.errors import InvalidArgument
from flota.nn.table import TableParameter
from flota.paddle.attributes import ParamAttr
from flota.paddle.clipping import ClipGradBase
from flota.paddle.graph.program import Training
from flota.paddle.graph.training import trained_parameters
from flota.paddle.graph.variable import GradientVariable, Variable
from flota.paddle.optimizer.decays import StepwiseDecay
from flota.paddle.optimizer.schedulers import LRScheduler
from flota.paddle.optimizer.state import read_states, write_states
from flota.paddle.regularizer import L1Decay, WeightDecayRegularizer, as_regularizer
from flota.paddle.tensor import Tensor
from flota.paddle.without_compiler import spare_optimizers, step_of

Parameters = Sequence[tuple[ParamAttr, torch.Tensor]]
Group = dict[str, Any]


class Optimizer(ABC):
    """``learning_rate`` is a number or a scheduler. ``parameters``: what ``step`` moves; a program's ``minimize`` finds
    them by itself.

    A subclass keeps its own arguments before it calls this constructor.
    """

    # By torch's name of a state, Paddle's.
    states: ClassVar[Mapping[str, str]] = {}
    # Whether the torch optimizer adds the weights' share to gradients itself, by its groups' "weight_decay".
    adds_decay: ClassVar[bool] = True
    # Gradients are multiplied by it, after clipping.
    rescale: float = 1.0
    _learning_rate: Any

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        *,
        multi_precision: bool = False,
    ) -> None:
        if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
            raise InvalidArgument(f"grad_clip is one of paddle.nn.ClipGradBy…, not {grad_clip!r}")
        self._parameters = _listed(parameters)
        self._weight_decay = as_regularizer(weight_decay)
        self._grad_clip = grad_clip
        self._name = name
        self._multi_precision = multi_precision
        self.strategy: Any = None
        self.distributed = False
        self._torch: torch.optim.Optimizer | None = None
        self._named: list[tuple[str, torch.Tensor]] = []
        self._loaded: Mapping[str, Any] = {}
        self._stepper: DistributedOptimizer | None = None
        self.set_lr_scheduler(learning_rate)
        if any(isinstance(getattr(each, "value", None), TableParameter) for each in self._parameters):
            self.attach()  # its rows are looked up before the first step

    @abstractmethod
    def make(self, groups: list[Group], rate: float) -> torch.optim.Optimizer:
        """The torch optimizer of these groups."""

    # --- the learning rate ---

    def get_lr(self) -> float:
        return float(self._learning_rate()) if callable(self._learning_rate) else float(self._learning_rate)

    def set_lr(self, value: float) -> None:
        if callable(self._learning_rate):
            raise InvalidArgument("the learning rate is a scheduler's: set_lr would be undone by its next step")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: Any) -> None:
        """From now on the rate is this scheduler's."""
        if not isinstance(scheduler, (int, float, LRScheduler)):
            raise InvalidArgument(
                f"a learning rate is a number or a scheduler of paddle.optimizer.lr, not {scheduler!r}"
            )
        self._learning_rate = scheduler
        if isinstance(scheduler, StepwiseDecay):
            scheduler.drive(self)

    # --- programs ---

    def minimize(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Any], list[Any]]:
        """From now on running the loss's program trains by it. An eager loss: one step by the gradients that
        ``loss.backward()`` has left."""
        if isinstance(loss, Tensor):
            if parameters is not None or no_grad_set:
                raise InvalidArgument("an eager optimizer moves the parameters that it was made with")
            self.step()
            return [], [(each, each.grad) for each in self._parameters]
        gradients = self.backward(loss, startup_program, parameters, no_grad_set)
        return self.apply_gradients(gradients), gradients

    def backward(
        self,
        loss: Any,
        startup_program: Any = None,
        parameters: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> list[Any]:
        """The parameters that ``minimize`` would train, with what stands for their gradients: the first half of it."""
        if not isinstance(loss, Variable):
            raise InvalidArgument(f"minimize takes a loss, not {loss!r}")
        if callbacks:
            raise InvalidArgument("backward: callbacks would see operations that there are none of: leave them out")
        chosen = trained_parameters(loss.program, loss, parameters or self._parameters, no_grad_set)
        return [(each, each.gradient_of(loss)) for each in chosen]

    def apply_gradients(self, params_grads: Any) -> list[Any]:
        """The second half: from now on running the program trains these parameters."""
        pairs = list(params_grads)
        losses = {id(gradient.loss): gradient.loss for _, gradient in pairs if isinstance(gradient, GradientVariable)}
        if len(losses) != 1 or not all(isinstance(gradient, GradientVariable) for _, gradient in pairs):
            raise InvalidArgument(
                "apply_gradients takes what backward() of one loss has given: gradients are clipped and decayed by "
                "grad_clip=… and weight_decay=… of the optimizer, not by operations"
            )
        (loss,) = losses.values()
        loss.program.trainings.append(Training(loss, self, [parameter for parameter, _ in pairs]))
        loss.program.version += 1
        return []

    def build(self, parameters: Parameters) -> torch.optim.Optimizer:
        """The torch optimizer of these parameters: a group for all that are treated alike."""
        groups: dict[tuple[Any, ...], Group] = {}
        rate = self.get_lr()
        for attr, tensor in parameters:
            if self._multi_precision and tensor.dtype in (torch.float16, torch.bfloat16):
                raise InvalidArgument(
                    f"multi_precision: {attr.name!r} is {tensor.dtype}, and no optimizer here keeps a copy in float32"
                )
            settings = self.settings(attr, tensor)
            fresh = {"params": [], "lr": rate * settings["times"], **settings}
            groups.setdefault(tuple(settings.items()), fresh)["params"].append(tensor)
        spare_optimizers()
        self._torch = self.make(list(groups.values()), rate)
        self._torch.step = step_of(self._torch)  # type: ignore[method-assign]
        self._named = [(attr.name or f"parameter_{i}", tensor) for i, (attr, tensor) in enumerate(parameters)]
        names = {id(tensor): name for name, tensor in self._named}
        for group in self._torch.param_groups:
            group["param_names"] = [names[id(tensor)] for tensor in group["params"]]  # what servers call them
        self._load()
        return self._torch

    def settings(self, attr: ParamAttr, tensor: torch.Tensor) -> Group:
        """What a parameter's group says: its part of the learning rate, its decay, and whether it is clipped."""
        decay = as_regularizer(attr.regularizer) or self._weight_decay
        return {"times": float(attr.learning_rate), "need_clip": attr.need_clip, **self.decay_settings(decay)}

    def decay_settings(self, decay: WeightDecayRegularizer | None) -> Group:
        """By torch's optimizer where it can, else as a term that is added to the gradient here."""
        share = 0.0 if decay is None else decay.coefficient
        signs = share if isinstance(decay, L1Decay) else 0.0
        weights = share - signs
        by_torch = weights if self.adds_decay else 0.0
        return {"weight_decay": by_torch, "added_signs": signs, "added_weights": weights - by_torch}

    # --- a step ---

    def before_step(self, optimizer: DistributedOptimizer) -> None:
        rate = self.get_lr()
        for group in optimizer.param_groups:
            group["lr"] = rate * group["times"]
        if isinstance(self._learning_rate, StepwiseDecay):
            self._learning_rate.stepped(self)

    @torch.no_grad()
    def clip(self, optimizer: DistributedOptimizer) -> None:
        """Clips the gradients, and adds what decays."""
        if self._grad_clip is not None:
            wanted = (group for group in optimizer.param_groups if group["need_clip"])
            self._grad_clip.clip([parameter.grad for group in wanted for parameter in _with_gradients(group)])
        for group in optimizer.param_groups:
            for parameter in _with_gradients(group):
                if self.rescale != 1.0:
                    parameter.grad.mul_(self.rescale)
                if group["added_signs"] or group["added_weights"]:
                    weight = _weight(parameter)
                    parameter.grad.add_(weight.sign(), alpha=group["added_signs"])
                    parameter.grad.add_(weight, alpha=group["added_weights"])

    def _writes_gradients(self, optimizer: DistributedOptimizer) -> bool:
        added = any(group["added_signs"] or group["added_weights"] for group in optimizer.param_groups)
        return added or self._grad_clip is not None or self.rescale != 1.0

    # --- eager ---

    def attach(self) -> DistributedOptimizer:
        """Makes what moves the eager parameters, and their tables' rows."""
        if not self._parameters:
            raise InvalidArgument(f"{type(self).__name__} was made without parameters: what should it move?")
        trained = [each for each in self._parameters if not each.stop_gradient]
        wrapped = self.build([(_attr_of(each), each.value) for each in trained])
        if self.distributed:
            self._stepper = flota.distributed_optimizer(wrapped, self.strategy)
        else:
            self._stepper = DistributedOptimizer(wrapped)
            self._stepper.communicator = LocalCommunicator(self._stepper, any_optimizer=True)
        return self._stepper

    def step(self) -> None:
        """Moves the parameters by the gradients that ``backward()`` has left, which stay as they are."""
        stepper = self._stepper or self.attach()
        self.before_step(stepper)
        with _own_gradients(stepper) if self._writes_gradients(stepper) else nullcontext():
            self.clip(stepper)
            stepper.step()

    def clear_grad(self, set_to_zero: bool = True) -> None:
        for parameter in self._parameters:
            value = parameter.value
            if value.grad is None:
                continue
            if set_to_zero and not isinstance(value, TableParameter):
                value.grad = torch.zeros_like(value)
            else:
                value.grad = None

    clear_gradients = clear_grad

    # --- state ---

    def state_dict(self, *, tables: bool = True) -> dict[str, Any]:
        """By the parameters' names; the scheduler's state as ``LR_Scheduler``. ``tables``: there must be none, for
        their state is in their rows."""
        named = self._named if tables else [each for each in self._named if not isinstance(each[1], TableParameter)]
        found = {} if self._torch is None else read_states(self._torch, named, self.states)
        if isinstance(self._learning_rate, LRScheduler):
            found["LR_Scheduler"] = self._learning_rate.state_dict()
        return found

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from this state: now, or when it is known what it trains."""
        if isinstance(self._learning_rate, LRScheduler) and "LR_Scheduler" in state_dict:
            self._learning_rate.set_state_dict(state_dict["LR_Scheduler"])
        self._loaded = {key: value for key, value in state_dict.items() if key != "LR_Scheduler"}
        if self._torch is not None:
            self._load()
        elif self._parameters and isinstance(self._parameters[0], Tensor):
            self.attach()

    set_dict = set_state_dict

    def _load(self) -> None:
        assert self._torch is not None
        write_states(self._torch, self._named, self.states, self._loaded)
        self._loaded = {}

    def __str__(self) -> str:
        return f"{type(self).__name__}(learning_rate={self.get_lr():g})"


def _listed(parameters: Any) -> list[Any]:
    made = [] if parameters is None else list(parameters)
    if any(isinstance(each, dict) for each in made):
        raise InvalidArgument("parameters is a list of parameters; what differs among them goes to their ParamAttr")
    return made


def _attr_of(parameter: Any) -> ParamAttr:
    """What an eager parameter says about itself, which may be nothing."""
    return ParamAttr(
        name=parameter.name or None,
        learning_rate=getattr(parameter, "optimize_attr", {}).get("learning_rate", 1.0),
        regularizer=getattr(parameter, "regularizer", None),
        need_clip=getattr(parameter, "need_clip", True),
    )


def _with_gradients(group: Group) -> Iterator[Any]:
    return (parameter for parameter in group["params"] if parameter.grad is not None)


def _weight(parameter: torch.Tensor) -> torch.Tensor:
    """What the gradient is that of: of a table, the rows that were looked up."""
    if not isinstance(parameter, TableParameter):
        return parameter
    gradient = parameter.gradient()
    assert gradient is not None
    # Keys of its own: the gradient's know which version of the rows it was computed with.
    store = parameter.bound()
    keys = store.route(gradient.keys.distinct())
    return store.pull(keys, False, parameter.device)[keys.places.long()].to(parameter.device)


@contextmanager
def _own_gradients(optimizer: DistributedOptimizer) -> Iterator[None]:
    """Inside, gradients may be written to; outside, a script sees what it has computed."""
    before = [(parameter, parameter.grad) for parameter, _ in optimizer.dense()]
    for parameter, gradient in before:
        parameter.grad = None if gradient is None else gradient.clone()
    try:
        yield
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient
