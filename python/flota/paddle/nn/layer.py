"""``paddle.nn.Layer``: what all layers are, eager or in a program."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.dtypes import as_dtype, default_dtype, name_of
from flota.paddle.graph import names
from flota.paddle.graph.variable import ParameterVariable
from flota.paddle.nn import state
from flota.paddle.nn.parameter import Parameter, make_parameter
from flota.paddle.tensor import Tensor

AnyParameter = Parameter | ParameterVariable


class HookRemoveHelper:
    """Takes a hook away again."""

    def __init__(self, hooks: dict[int, Any], number: int) -> None:
        self._hooks, self._number = hooks, number

    def remove(self) -> None:
        self._hooks.pop(self._number, None)


class Layer:
    """A piece of a model. Parameters, layers and tensors that are set as attributes belong to it.

    In a program, parameters are those of the program, and calling the layer records what ``forward`` does.
    """

    training: bool
    _parameters: dict[str, Any]
    _sub_layers: dict[str, Any]
    _buffers: dict[str, Any]
    _dtype: Any

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        attributes = self.__dict__
        attributes["_parameters"], attributes["_sub_layers"], attributes["_buffers"] = {}, {}, {}
        attributes["_non_persistable_buffer_names_set"] = set()
        self.training = True
        self._dtype = dtype
        self._full_name = names.generate(name_scope or _snake_case(type(self).__name__))
        self._pre_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._post_hooks: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._hook_count = 0

    # --- computing ---

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        for hook in list(self._pre_hooks.values()):
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        outputs = self.forward(*inputs, **kwargs)
        for hook in list(self._post_hooks.values()):
            changed = hook(self, inputs, outputs)
            outputs = outputs if changed is None else changed
        return outputs

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """``hook(layer, inputs)`` is called before ``forward``; what it returns, unless None, are the inputs."""
        return self._hooked(self._pre_hooks, hook)

    def register_forward_post_hook(self, hook: Callable[..., Any]) -> HookRemoveHelper:
        """``hook(layer, inputs, outputs)`` is called after ``forward``; what it returns, unless None, is the output."""
        return self._hooked(self._post_hooks, hook)

    def _hooked(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> HookRemoveHelper:
        self._hook_count += 1
        hooks[self._hook_count] = hook
        return HookRemoveHelper(hooks, self._hook_count)

    def train(self) -> None:
        """Dropout drops, and normalisation goes by the batch."""
        for layer in self.sublayers(include_self=True):
            layer.training = True

    def eval(self) -> None:
        for layer in self.sublayers(include_self=True):
            layer.training = False

    # --- what belongs to it ---

    def create_parameter(
        self,
        shape: Sequence[int],
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A parameter, which belongs to the layer once it is set as an attribute. None if ``attr`` is False."""
        kind = self._type() if dtype is None else dtype
        return make_parameter(shape, attr, kind, self._full_name, default_initializer, is_bias=is_bias)

    def _type(self) -> torch.dtype:
        return default_dtype() if self._dtype is None else as_dtype(self._dtype)

    def create_tensor(self, name: str | None = None, persistable: bool | None = None, dtype: Any = None) -> Tensor:
        """An empty tensor."""
        made = Tensor(torch.empty(0, dtype=self._type() if dtype is None else as_dtype(dtype)), name)
        made.persistable = bool(persistable)
        return made

    create_variable = create_tensor

    def add_parameter(self, name: str, parameter: AnyParameter | None) -> AnyParameter | None:
        self._check_name(name, self._parameters)
        if parameter is not None and not isinstance(parameter, (Parameter, ParameterVariable)):
            raise TypeError(f"parameter {name!r} must be a Parameter or None, not {type(parameter).__name__}")
        self._parameters[name] = parameter
        return parameter

    def add_sublayer(self, name: str, sublayer: Layer | None) -> Layer | None:
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise TypeError(f"sublayer {name!r} must be a Layer or None, not {type(sublayer).__name__}")
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def register_buffer(self, name: str, tensor: Tensor | None, persistable: bool = True) -> None:
        """A tensor that is not trained; ``persistable``: part of the state."""
        self._check_name(name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"buffer {name!r} must be a Tensor or None, not {type(tensor).__name__}")
        self._buffers[name] = tensor
        self._mark(name, persistable)

    def _mark(self, name: str, persistable: bool) -> None:
        passing: set[str] = self._non_persistable_buffer_names_set
        (passing.discard if persistable else passing.add)(name)

    def _check_name(self, name: Any, known: dict[str, Any]) -> None:
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"a name without dots is needed, not {name!r}")
        if name not in known and hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists")

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if "_sub_layers" not in attributes:
            raise ValueError("super().__init__() should be called first")
        kinds = (
            (self._parameters, (Parameter, ParameterVariable), "parameter"),
            (self._sub_layers, Layer, "sublayer"),
            (self._buffers, Tensor, "buffer"),
        )
        for members, kind, _ in kinds:
            if isinstance(value, kind):
                if members is self._buffers and name not in members:
                    self._mark(name, False)
                for others, _, _ in kinds:
                    if others is not members:
                        others.pop(name, None)
                attributes.pop(name, None)
                members[name] = value
                return
        for members, _, what in kinds:
            if name in members:
                if value is not None:
                    raise TypeError(f"{what} {name!r} can be set to its like or None, not {type(value).__name__}")
                members[name] = None
                return
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_sub_layers", "_buffers"):
            members = self.__dict__.get(kind, {})
            if name in members:
                return members[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for members in (self._parameters, self._sub_layers, self._buffers):
            if name in members:
                del members[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._parameters, *self._sub_layers, *self._buffers]

    # --- going through it ---

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def children(self) -> Iterator[Layer]:
        return (layer for _, layer in self.named_children())

    def named_sublayers(
        self, prefix: str = "", include_self: bool = False, layers_set: set[Any] | None = None
    ) -> Iterator[tuple[str, Layer]]:
        """All layers below, each once, with its path."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(path, include_self=True, layers_set=seen)

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_parameters(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, AnyParameter]]:
        """All parameters, each once, with the path of its attribute."""
        return self._named("_parameters", prefix, include_sublayers)

    def parameters(self, include_sublayers: bool = True) -> list[AnyParameter]:
        return [parameter for _, parameter in self.named_parameters(include_sublayers=include_sublayers)]

    def named_buffers(self, prefix: str = "", include_sublayers: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, include_sublayers)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        return [buffer for _, buffer in self.named_buffers(include_sublayers=include_sublayers)]

    def _named(self, kind: str, prefix: str, include_sublayers: bool) -> Iterator[tuple[str, Any]]:
        layers = self.named_sublayers(prefix, include_self=True) if include_sublayers else [(prefix, self)]
        seen: set[int] = set()
        for path, layer in layers:
            for name, member in getattr(layer, kind).items():
                if member is not None and id(member) not in seen:
                    seen.add(id(member))
                    yield f"{path}.{name}" if path else name, member

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Calls ``fn`` with every layer below and then this one."""
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def full_name(self) -> str:
        return str(self._full_name)

    # --- its state ---

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """Parameters and persistable buffers by the path of their attributes."""
        found = {} if destination is None else destination
        return state.collect(self, found, include_sublayers, structured_name_prefix)

    def set_state_dict(
        self, state_dict: dict[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Sets the values that ``state_dict`` has. Returns the names that it lacks and those that nothing took."""
        return state.restore(self, state_dict, use_structured_name)

    set_dict = set_state_dict
    load_dict = set_state_dict

    def clear_gradients(self) -> None:
        for parameter in self.parameters():
            if isinstance(parameter, Parameter):
                parameter.clear_grad()

    def to(self, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Layer:
        """Moves parameters and buffers to another device, and real numbers to another type."""
        state.move(self, device, dtype)
        if dtype is not None:
            for layer in self.sublayers(include_self=True):
                layer._dtype = name_of(as_dtype(dtype))
        return self

    def astype(self, dtype: Any = None) -> Layer:
        return self.to(dtype=dtype)

    def float(self, excluded_layers: Any = None) -> Layer:
        if excluded_layers is not None:
            raise InvalidArgument("float: excluded_layers is not known here; call to(dtype=…) of each layer")
        return self.to(dtype="float32")

    # --- as text ---

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = [self.extra_repr()] if self.extra_repr() else []
        inner = [f"  ({name}): " + repr(layer).replace("\n", "\n  ") for name, layer in self._sub_layers.items()]
        if not inner:
            return f"{type(self).__name__}({''.join(lines)})"
        return f"{type(self).__name__}(" + "\n".join(["".join(lines), *inner]) + "\n)"


def _snake_case(name: str) -> str:
    """MyLayer becomes my_layer, as parameters' names begin."""
    parted = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", parted).lower()
