"""``fluid.io``: loaders and readers of 1.x, and its files."""

from flota.paddle.fluid.saving import (
    load_inference_model,
    load_params,
    load_persistables,
    load_vars,
    save_inference_model,
    save_params,
    save_persistables,
    save_vars,
)
from flota.paddle.io.generator import PyReader
from flota.paddle.io.loader import DataLoader
from flota.paddle.reader import (
    batch,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    multiprocess_reader,
    shuffle,
    xmap_readers,
)
from flota.paddle.static.saving import load, load_program_state, save, set_program_state

__all__ = [
    "DataLoader",
    "PyReader",
    "batch",
    "buffered",
    "cache",
    "chain",
    "compose",
    "firstn",
    "load",
    "load_inference_model",
    "load_params",
    "load_persistables",
    "load_program_state",
    "load_vars",
    "map_readers",
    "multiprocess_reader",
    "save",
    "save_inference_model",
    "save_params",
    "save_persistables",
    "save_vars",
    "set_program_state",
    "shuffle",
    "xmap_readers",
]
