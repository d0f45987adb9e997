"""Models to serve: a ``torch.export`` program with the rows it needs, in a folder that holds no code to unpickle.

The program's graph is JSON; its weights and the tables' rows are safetensors, under a manifest with checksums as in any
checkpoint. A key that the tables have no row for gives the average of what rows begin with (``Initializer.average``).
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import safetensors.torch
import torch
from torch.utils import _pytree as pytree

from flota.checkpoint.reader import Checkpoint
from flota.checkpoint.writer import CheckpointWriter
from flota.communicator.contents import all_rows, default_of, spec_of
from flota.errors import CheckpointError, InvalidArgument
from flota.nn.frozen import FrozenTable, frozen, frozen_rows
from flota.nn.table_module import TableModule

_PROGRAM = "program.json"
_WEIGHTS = "weights.safetensors"
_STATE, _CONSTANT = "state/", "constant/"


def save(
    dirname: str | os.PathLike[str],
    model: torch.nn.Module,
    example_inputs: Sequence[Any],
    source: Mapping[str, Any] | None = None,
) -> None:
    """Saves ``model`` as it computes in ``eval()``, on the CPU.

    ``example_inputs`` are the arguments of one call, with at least two samples: the first dimension of each tensor may
    have another size in each call, all other sizes are kept.
    """
    modules = [module for module in model.modules() if isinstance(module, TableModule)]
    stores = {module.weight.options.name: module.weight.bound() for module in modules}
    rows = {name: all_rows(store) for name, store in stores.items()}
    tables = {
        name: FrozenTable(torch.from_numpy(keys), torch.from_numpy(weights), default_of(stores[name]))
        for name, (keys, weights) in rows.items()
    }
    stands_for = {id(module): frozen(module, tables[module.weight.options.name]) for module in modules}
    servable = copy.deepcopy(model, memo=dict(stands_for)).to("cpu").eval()
    program = _export(servable, example_inputs)
    state, embeddings, aliases = _sorted_out(program, tables)
    with CheckpointWriter(dirname, kind="inference", source=source) as writer:
        for name, (keys, weights) in rows.items():
            writer.add_embedding(spec_of(stores[name]), keys, weights)
        writer.add_bytes(_WEIGHTS, safetensors.torch.save(state))
        writer.add_bytes(_PROGRAM, _to_json(program))
        parameters = list(program.graph_signature.parameters)
        about = {"parameters": parameters, "embeddings": embeddings, "aliases": aliases}
        writer.publish({"torch": torch.__version__, **about})


def load(dirname: str | os.PathLike[str]) -> torch.nn.Module:
    """The model that ``save_inference_model`` saved: call it as the model was called. It needs no servers."""
    checkpoint = Checkpoint(dirname, kind="inference")
    about = checkpoint.manifest.inference
    tensors = safetensors.torch.load(checkpoint.bytes_of(_WEIGHTS))
    tables = {name: _read_table(checkpoint, name) for name in checkpoint.manifest.tables}
    for name, (table, part) in about["embeddings"].items():
        tensors[name] = tables[table][part]
    for name in {about["aliases"].get(_STATE + name, _STATE + name) for name in about["parameters"]}:
        tensors[name] = torch.nn.Parameter(tensors[name], requires_grad=False)
    for name, other in about["aliases"].items():
        tensors[name] = tensors[other]
    state = {name.removeprefix(_STATE): value for name, value in tensors.items() if name.startswith(_STATE)}
    constants = {name.removeprefix(_CONSTANT): value for name, value in tensors.items() if name.startswith(_CONSTANT)}
    try:
        program = _from_json(checkpoint.bytes_of(_PROGRAM), state, constants)
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"{checkpoint.path / _PROGRAM} is not a program for torch {torch.__version__} (it was saved by "
            f"{about['torch']}): {error}"
        ) from error
    return program.module()


# --- rows ---


def _read_table(checkpoint: Checkpoint, name: str) -> dict[str, torch.Tensor]:
    keys, weights = checkpoint.embedding(name)
    entry = checkpoint.manifest.tables[name]
    default = entry.init.average() if entry.admission is None else 0.0
    return {"keys": torch.from_numpy(keys), "rows": frozen_rows(torch.from_numpy(weights), default)}


# --- the program ---


def _export(model: torch.nn.Module, example_inputs: Sequence[Any]) -> torch.export.ExportedProgram:
    if not isinstance(example_inputs, (tuple, list)):
        raise InvalidArgument("example_inputs must be a tuple: the arguments of one call of the model")

    def checked(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.is_nested:
            raise InvalidArgument("example_inputs: a nested tensor cannot be served; give (values, offsets)")
        if value.dim() > 0 and value.shape[0] < 2:
            raise InvalidArgument(
                f"example_inputs: a tensor of shape {list(value.shape)} cannot show which size varies; give at least "
                "two samples"
            )
        return value.detach().to("cpu")

    def varies(value: Any) -> Any:
        return {0: torch.export.Dim.AUTO} if isinstance(value, torch.Tensor) and value.dim() > 0 else None

    inputs = pytree.tree_map(checked, tuple(example_inputs))
    with torch.no_grad():
        return torch.export.export(model, inputs, dynamic_shapes=pytree.tree_map(varies, inputs), strict=False)


def _sorted_out(
    program: torch.export.ExportedProgram, tables: Mapping[str, FrozenTable]
) -> tuple[dict[str, torch.Tensor], dict[str, list[str]], dict[str, str]]:
    """The program's tensors: those to be saved, which are parts of tables, and which are others by another name."""
    parts = {_place(getattr(table, part)): [name, part] for name, table in tables.items() for part in ("keys", "rows")}
    saved: dict[str, torch.Tensor] = {}
    embeddings: dict[str, list[str]] = {}
    aliases: dict[str, str] = {}
    seen: dict[Any, str] = {}
    named = [(_STATE + name, value) for name, value in program.state_dict.items()]
    for name, value in [*named, *((_CONSTANT + name, value) for name, value in program.constants.items())]:
        if not isinstance(value, torch.Tensor):
            raise InvalidArgument(f"the model holds {name!r}, a {type(value).__name__}: only tensors can be saved")
        place = _place(value)
        if place in parts:
            embeddings[name] = parts[place]
        elif value.numel() and place in seen:
            aliases[name] = seen[place]
        else:
            seen[place] = name
            saved[name] = value.detach().clone().contiguous()
    return saved, embeddings, aliases


def _place(tensor: torch.Tensor) -> Any:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


# torch.export.save would pickle example inputs and constants, and torch.export.load unpickle them. The graph itself is
# JSON in its archive; these two functions write and read that part alone, by what save and load are made of.


def _to_json(program: torch.export.ExportedProgram) -> bytes:
    from torch._export.serde.serialize import serialize

    # Shape checks in the form of source code: the operators check shapes as well.
    program._guards_code = []
    artifact = serialize(program, serialize_state_dict=False, serialize_constants=False, serialize_example_inputs=False)
    return artifact.exported_program


def _from_json(
    data: bytes, state: dict[str, torch.Tensor], constants: dict[str, torch.Tensor]
) -> torch.export.ExportedProgram:
    from torch._export.serde import schema
    from torch._export.serde.serialize import ExportedProgramDeserializer, _bytes_to_dataclass

    graph = _bytes_to_dataclass(schema.ExportedProgram, data)
    if graph.guards_code:
        raise CheckpointError(f"{_PROGRAM} brings code of its own")
    return ExportedProgramDeserializer().deserialize(graph, state, constants)
