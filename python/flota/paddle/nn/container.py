"""Layers that hold others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flota.paddle.nn.layer import AnyParameter, Layer


class Sequential(Layer):
    """Each layer is given what the one before it returns. Layers, or pairs of a name and a layer."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        for index, layer in enumerate(layers):
            if isinstance(layer, (list, tuple)):
                self.add_sublayer(*layer)
            else:
                self.add_sublayer(str(index), layer)

    def __getitem__(self, name: int | slice | str) -> Any:
        if isinstance(name, slice):
            return type(self)(*list(self._sub_layers.values())[name])
        return self._sub_layers[name] if isinstance(name, str) else list(self._sub_layers.values())[name]

    def __setitem__(self, name: int | str, layer: Layer) -> None:
        self.add_sublayer(self._key(name), layer)

    def __delitem__(self, name: int | str) -> None:
        del self._sub_layers[self._key(name)]

    def _key(self, name: int | str) -> str:
        return name if isinstance(name, str) else list(self._sub_layers)[name]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sub_layers.values()))

    def forward(self, input: Any) -> Any:
        for layer in self._sub_layers.values():
            input = layer(input)
        return input


class LayerList(Layer):
    """Layers by number."""

    def __init__(self, sublayers: Iterable[Layer] | None = None) -> None:
        super().__init__()
        self.extend(sublayers or [])

    def __getitem__(self, index: int | slice) -> Any:
        found = list(self._sub_layers.values())[index]
        return LayerList(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, sublayer: Layer) -> None:
        self.add_sublayer(list(self._sub_layers)[index], sublayer)

    def __delitem__(self, index: int | slice) -> None:
        layers = list(self._sub_layers.values())
        del layers[index]
        self._become(layers)

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._sub_layers.values()))

    def append(self, sublayer: Layer) -> LayerList:
        self.add_sublayer(str(len(self)), sublayer)
        return self

    def insert(self, index: int, sublayer: Layer) -> None:
        layers = list(self._sub_layers.values())
        layers.insert(index, sublayer)
        self._become(layers)

    def extend(self, sublayers: Iterable[Layer]) -> LayerList:
        for each in sublayers:
            self.append(each)
        return self

    def _become(self, layers: list[Layer]) -> None:
        self._sub_layers.clear()
        self.extend(layers)


class LayerDict(Layer):
    """Layers by name."""

    def __init__(self, sublayers: Mapping[str, Layer] | Iterable[tuple[str, Layer]] | None = None) -> None:
        super().__init__()
        self.update(sublayers or {})

    def __getitem__(self, key: str) -> Any:
        return self._sub_layers[key]

    def __setitem__(self, key: str, sublayer: Layer) -> None:
        self.add_sublayer(key, sublayer)

    def __delitem__(self, key: str) -> None:
        del self._sub_layers[key]

    def __len__(self) -> int:
        return len(self._sub_layers)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._sub_layers))

    def __contains__(self, key: str) -> bool:
        return key in self._sub_layers

    def clear(self) -> None:
        self._sub_layers.clear()

    def pop(self, key: str) -> Any:
        return self._sub_layers.pop(key)

    def keys(self) -> Iterable[str]:
        return self._sub_layers.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return self._sub_layers.items()

    def values(self) -> Iterable[Any]:
        return self._sub_layers.values()

    def update(self, sublayers: Mapping[str, Layer] | Iterable[tuple[str, Layer]]) -> None:
        for key, layer in sublayers.items() if isinstance(sublayers, Mapping) else sublayers:
            self.add_sublayer(key, layer)


class ParameterList(Layer):
    """Parameters by number."""

    def __init__(self, parameters: Iterable[AnyParameter] | None = None) -> None:
        super().__init__()
        for each in parameters or []:
            self.append(each)

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __setitem__(self, index: int, parameter: AnyParameter) -> None:
        setattr(self, list(self._parameters)[index], parameter)

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))

    def append(self, parameter: AnyParameter) -> ParameterList:
        self.add_parameter(str(len(self)), parameter)
        return self
