"""``paddle.save`` and ``paddle.load``: nested dictionaries and lists of tensors and plain values.

A file is one of safetensors, whose tensors have numbers for names; the structure that they belong in is JSON in its
header. Reading a file runs nothing that is in it.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.torch
import torch

from flota.errors import CheckpointError, InvalidArgument
from flota.paddle.graph.variable import Variable
from flota.paddle.nn.layer import Layer
from flota.paddle.tensor import Tensor

_STRUCTURE = "flota.paddle"
_PLAIN = (str, int, float, bool, type(None))


def save(obj: Any, path: str | os.PathLike[str] | BinaryIO, protocol: int = 4, **configs: Any) -> None:
    """Saves tensors and arrays, plain values, and lists, tuples and dictionaries of them. A file that was there before
    is replaced when the new one is complete. ``protocol`` is another format's."""
    if configs:
        raise InvalidArgument(f"save: there is no option {', '.join(configs)}")
    tensors: dict[str, torch.Tensor] = {}
    structure = _taken_apart(obj, tensors)
    data = safetensors.torch.save(tensors, {_STRUCTURE: json.dumps(structure)})
    if not isinstance(path, (str, os.PathLike)):
        path.write(data)
        return
    target = Path(path)
    if not target.name or target.is_dir():
        raise InvalidArgument(f"save: {str(path)!r} is no name of a file")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        file.write(data)
    os.replace(file.name, target)


def load(path: str | os.PathLike[str] | BinaryIO, return_numpy: bool = False) -> Any:
    """What was saved. ``return_numpy``: arrays in the place of tensors."""
    if isinstance(path, (str, os.PathLike)):
        if not Path(path).is_file():
            raise InvalidArgument(f"load: there is no file {str(path)!r}")
        data = Path(path).read_bytes()
    else:
        data = path.read()
    try:
        tensors = safetensors.torch.load(data)
        structure = json.loads(_header(data)["__metadata__"][_STRUCTURE])
        return _put_together(structure, tensors, return_numpy)
    except (safetensors.SafetensorError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise CheckpointError(
            f"load: {path!s} is no file of paddle.save of flota ({type(error).__name__}: {error})"
        ) from error


def _header(data: bytes) -> Any:
    """A safetensors file begins with the length of its header."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def _taken_apart(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """The value as JSON: a plain value itself, all else a list of its kind and its contents."""

    def numbered(kind: str, tensor: torch.Tensor) -> list[str]:
        number = str(len(tensors))
        tensors[number] = tensor.detach().cpu().contiguous().clone()
        return [kind, number]

    if isinstance(value, (np.ndarray, np.generic)):
        return numbered("array", torch.tensor(np.asarray(value)))
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor):
        return numbered("tensor", value.value)
    if isinstance(value, dict):
        pairs = [[_taken_apart(key, tensors), _taken_apart(each, tensors)] for key, each in value.items()]
        return ["dict", pairs]
    if isinstance(value, (list, tuple)):
        return ["list" if isinstance(value, list) else "tuple", [_taken_apart(each, tensors) for each in value]]
    if isinstance(value, Layer):
        raise InvalidArgument("save: a layer cannot be saved; save its state_dict()")
    if isinstance(value, Variable):
        raise InvalidArgument(f"save: {value.name!r} is a program's variable; paddle.static.save saves programs")
    raise InvalidArgument(f"save: {type(value).__name__} cannot be saved; tensors, arrays and plain values can")


def _put_together(value: Any, tensors: dict[str, torch.Tensor], as_arrays: bool) -> Any:
    if not isinstance(value, list):
        return value
    kind, inner = value
    if kind == "array":
        array = tensors[inner].numpy()
        return array if array.ndim else array[()]
    if kind == "tensor":
        return tensors[inner].numpy() if as_arrays else Tensor(tensors[inner])
    if kind == "dict":
        pairs = [[_put_together(each, tensors, as_arrays) for each in pair] for pair in inner]
        return dict(pairs)
    if kind not in ("list", "tuple"):
        raise ValueError(f"{kind!r} is no kind of value")
    parts = [_put_together(each, tensors, as_arrays) for each in inner]
    return parts if kind == "list" else tuple(parts)
