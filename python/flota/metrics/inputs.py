"""What callers pass, as numpy arrays: each check gives the array back, or says what it must be, with numbers.

Tensors of any device, with or without gradients, arrays and lists are taken. No library of tensors is imported for it.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from flota.errors import InvalidArgument


class SupportsNumpy(Protocol):
    def numpy(self) -> npt.NDArray[Any]: ...


Numbers: TypeAlias = npt.ArrayLike | SupportsNumpy
Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]


def numbers(owner: str, name: str, values: Any) -> Array:
    """An array of real numbers; floats of 16 bits or less become float32, which changes none of them."""
    try:
        array = np.asarray(_in_memory(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgument(f"{owner}: {name} must be numbers: {error}") from error
    if array.dtype.kind not in "fiub":
        raise InvalidArgument(f"{owner}: {name} must be numbers, not {array.dtype}")
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _in_memory(values: Any) -> Any:
    if (detach := getattr(values, "detach", None)) is not None:
        tensor = detach().cpu()
        # numpy knows neither bfloat16 nor the floats of 8 bits.
        return tensor.float() if getattr(tensor.dtype, "is_floating_point", False) and tensor.itemsize < 4 else tensor
    if not isinstance(values, np.ndarray) and (numpy := getattr(values, "numpy", None)) is not None:
        return numpy()
    return values


def one_each(owner: str, name: str, values: Any) -> Array:
    """One number for each sample: [N] or [N, 1]; a single number is one sample."""
    array = numbers(owner, name, values)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] != 1):
        raise InvalidArgument(f"{owner}: {name} must have shape [N] or [N, 1], not {list(array.shape)}")
    return array.reshape(-1)


def pairs(owner: str, names: tuple[str, str], first: Any, second: Any) -> tuple[Array, Array]:
    """Two arrays whose elements belong together, as flat ones: shapes may differ in dimensions of 1 only."""
    arrays = numbers(owner, names[0], first), numbers(owner, names[1], second)
    sizes, shapes = [array.size for array in arrays], [[n for n in array.shape if n != 1] for array in arrays]
    if sizes[0] != sizes[1]:
        raise InvalidArgument(f"{owner}: {sizes[0]} {names[0]} and {sizes[1]} {names[1]}; there must be one for each")
    if sizes[0] and shapes[0] != shapes[1]:
        raise InvalidArgument(
            f"{owner}: {names[0]} of shape {list(arrays[0].shape)} and {names[1]} of shape {list(arrays[1].shape)}; "
            "they must have the same"
        )
    return arrays[0].reshape(-1), arrays[1].reshape(-1)


def finite_pairs(owner: str, names: tuple[str, str], first: Any, second: Any) -> tuple[Floats, Floats]:
    """``pairs`` without NaN and infinity, as float64."""
    flat = pairs(owner, names, first, second)
    for name, array in zip(names, flat, strict=True):
        if not (finite := np.isfinite(array)).all():
            raise InvalidArgument(f"{owner}: {int((~finite).sum())} of {len(array)} {name} are NaN or infinite")
    return flat[0].astype(np.float64), flat[1].astype(np.float64)


def scores(owner: str, name: str, values: Any) -> Array:
    """A score for each sample: [N], [N, 1], or [N, 2], of which column 1 is that of the positive class. No NaN."""
    array = numbers(owner, name, values)
    if array.ndim > 2 or (array.ndim == 2 and array.shape[1] not in (1, 2)):
        raise InvalidArgument(f"{owner}: {name} must have shape [N], [N, 1] or [N, 2], not {list(array.shape)}")
    flat = array[:, -1] if array.ndim == 2 else array.reshape(-1)
    refuse_nan(owner, name, flat)
    return flat


def probabilities(owner: str, values: Any) -> Array:
    """``scores`` from 0 to 1; floats stay of the type they have."""
    flat = scores(owner, "predictions", values)
    if flat.dtype.kind != "f":
        flat = flat.astype(np.float64)
    if len(flat) and not (flat.min() >= 0 and flat.max() <= 1):
        outside = int(((flat < 0) | (flat > 1)).sum())
        raise InvalidArgument(
            f"{owner}: {outside} of {len(flat)} predictions are outside of [0, 1]: they go from {flat.min():g} to "
            f"{flat.max():g}; pass probabilities, such as the sigmoid of logits"
        )
    return flat


def labels(owner: str, values: Any, count: int) -> Flags:
    """Whether each of ``count`` samples is positive: labels 0 and 1, of shape [N] or [N, 1]."""
    flat = one_each(owner, "labels", values)
    _refuse_other_count(owner, "labels", len(flat), count)
    return flags(owner, flat)


def flags(owner: str, values: Array) -> Flags:
    """Labels 0 and 1 as False and True."""
    positive: Flags = values == 1
    wrong = ~positive & (values != 0)
    if wrong.any():
        raise InvalidArgument(
            f"{owner}: labels must be 0 or 1; {int(wrong.sum())} of {len(values)} are not, such as "
            f"{values[wrong.argmax()]}"
        )
    return positive


def classes(owner: str, values: Any, count: int, many: int) -> npt.NDArray[np.int64]:
    """The class of each of ``count`` samples, from 0 to ``many`` - 1."""
    flat = one_each(owner, "labels", values)
    _refuse_other_count(owner, "labels", len(flat), count)
    right = (flat >= 0) & (flat < many) & (flat == np.floor(flat))
    if not right.all():
        raise InvalidArgument(
            f"{owner}: labels must be classes from 0 to {many - 1}; {int((~right).sum())} of {len(flat)} are not, such "
            f"as {flat[right.argmin()]}"
        )
    return flat.astype(np.int64)


def weights(owner: str, values: Any, count: int) -> Floats:
    """A weight for each of ``count`` samples, finite and not negative."""
    flat = one_each(owner, "weights", values).astype(np.float64)
    _refuse_other_count(owner, "weights", len(flat), count)
    wrong = ~(np.isfinite(flat) & (flat >= 0))
    if wrong.any():
        raise InvalidArgument(
            f"{owner}: weights must be finite and not negative; {int(wrong.sum())} of {len(flat)} are not, such as "
            f"{flat[wrong.argmax()]}"
        )
    return flat


def keys(owner: str, values: Any, count: int) -> npt.NDArray[np.int64]:
    """A key of 64 bits for each of ``count`` samples."""
    flat = one_each(owner, "keys", values)
    _refuse_other_count(owner, "keys", len(flat), count)
    if flat.dtype.kind not in "iu" and len(flat):
        raise InvalidArgument(f"{owner}: keys must be whole numbers of 64 bits, not {flat.dtype}")
    return flat.astype(np.int64)


def refuse_nan(owner: str, name: str, values: Array) -> None:
    if values.dtype.kind == "f" and (wrong := int(np.isnan(values).sum())):
        raise InvalidArgument(f"{owner}: {wrong} of {values.size} {name} are NaN")


def _refuse_other_count(owner: str, name: str, found: int, count: int) -> None:
    if found != count:
        raise InvalidArgument(f"{owner}: {count} predictions and {found} {name}; there must be one for each")
