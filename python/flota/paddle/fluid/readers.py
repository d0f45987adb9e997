"""``fluid.layers.py_reader``: a loader that has a program's inputs, instead of the inputs having a loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flota.errors import InvalidArgument
from flota.paddle.graph import names
from flota.paddle.graph.building import data
from flota.paddle.graph.variable import Variable
from flota.paddle.io.generator import PyReader

__all__ = ["create_py_reader_by_data", "double_buffer", "py_reader", "read_file"]


class ProgramReader(PyReader):
    """It feeds its program between ``start`` and the end of a pass."""

    def __init__(self, feed_list: Sequence[Variable], capacity: int, use_double_buffer: bool) -> None:
        super().__init__(feed_list, capacity, use_double_buffer, iterable=False)
        self.feed_list = list(feed_list)

    decorate_paddle_reader = PyReader.set_sample_list_generator
    decorate_tensor_provider = PyReader.set_batch_generator


def create_py_reader_by_data(
    capacity: int, feed_list: Sequence[Variable], name: str | None = None, use_double_buffer: bool = True
) -> ProgramReader:
    return ProgramReader(feed_list, capacity, use_double_buffer)


def py_reader(
    capacity: int,
    shapes: Sequence[Sequence[int]],
    dtypes: Sequence[Any],
    lod_levels: Sequence[int] | None = None,
    name: str | None = None,
    use_double_buffer: bool = True,
) -> ProgramReader:
    """Makes the inputs as well; ``read_file`` returns them."""
    levels = [0] * len(shapes) if lod_levels is None else list(lod_levels)
    if not len(shapes) == len(dtypes) == len(levels):
        raise InvalidArgument("py_reader: shapes, dtypes and lod_levels have one for each input")
    key = name or names.generate("py_reader")
    inputs = [
        data(f"{key}_{number}", shape, dtype, level)
        for number, (shape, dtype, level) in enumerate(zip(shapes, dtypes, levels, strict=True))
    ]
    return ProgramReader(inputs, capacity, use_double_buffer)


def read_file(reader: ProgramReader) -> Any:
    """The inputs that the reader feeds."""
    return reader.feed_list if len(reader.feed_list) > 1 else reader.feed_list[0]


def double_buffer(reader: ProgramReader, place: Any = None, name: str | None = None) -> ProgramReader:
    """The reader: it reads ahead already."""
    return reader
