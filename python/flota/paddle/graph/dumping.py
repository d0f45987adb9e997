"""What a debugger asks a program to write while it trains over a data set: ``program._fleet_opt = {"dump_fields": …}``.

A line is a sample, ``name:count:value:value…`` for each field, with tabs between fields; ``(batch,name):value:value…``
is a parameter after that batch. Workers write to files of their own, ``part-<worker>-<file>``.
"""

from __future__ import annotations

import difflib
import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from flota.errors import InvalidArgument
from flota.paddle.jagged import Jagged

if TYPE_CHECKING:
    from flota.paddle.graph.program import Program
    from flota.paddle.graph.scope import Scope

# Keys that act, with the type of their value.
_KEYS: dict[str, type | tuple[type, ...]] = {
    "dump_converter": str,
    "dump_fields": (list, tuple),
    "dump_fields_mode": str,
    "dump_fields_path": str,
    "dump_file_num": int,
    "dump_interval": int,
    "dump_num_decimals": int,
    "dump_param": (list, tuple),
    "enable_random_dump": bool,
    "user_define_dump_filename": str,
}
# Keys whose usual value says what is so in any case: a worker computes with the servers, and there is one kind of it.
_SO_ANYWAY: dict[str, tuple[Any, ...]] = {
    "device_worker": ("Hogwild", "DownpourSGD", "DownpourLite"),
    "trainer": ("MultiTrainer", "DistMultiTrainer"),
    "use_ps_gpu": (False, 0),
}
_INSTEAD = {
    "check_nan_var_names": "servers refuse NaN in any case",
    "fleet_desc": "tables follow from the program and its optimizer",
    "mpi_rank": "fleet.init says who this process is",
    "mpi_size": "fleet.init says who this process is",
    "trainer_id": "fleet.init says who this process is",
    "trainers": "fleet.init says who this process is",
    "use_cvm": "call static.nn.continuous_value_model(…, use_cvm=…)",
    "no_cvm": "call static.nn.continuous_value_model(…, use_cvm=…)",
    "worker_places": "give the Executor its place",
}


def check_options(options: Mapping[str, Any]) -> None:
    """Raises unless each of the options of ``_fleet_opt`` acts or is so in any case."""
    if not isinstance(options, Mapping):
        raise InvalidArgument(f"_fleet_opt is a dictionary or None, not {options!r}")
    for name, value in options.items():
        if name in _KEYS:
            if not isinstance(value, _KEYS[name]):
                raise InvalidArgument(f"_fleet_opt: {name}={value!r} is not of its type")
        elif name == "stat_var_names" and isinstance(value, (list, tuple)):
            continue  # statistics that threads would add up: a worker has one thread that counts
        elif value not in _SO_ANYWAY.get(name, ()):
            near = difflib.get_close_matches(name, _KEYS, n=1)
            hint = _INSTEAD.get(name) or (f"did you mean {near[0]}?" if near else f"it knows {', '.join(_KEYS)}")
            raise InvalidArgument(f"_fleet_opt: {name}={value!r} would have no effect: {hint}")
    _check_together(options)


def _check_together(options: Mapping[str, Any]) -> None:
    given = {name for name, value in options.items() if name in _KEYS and value}
    if given and not options.get("dump_fields_path"):
        raise InvalidArgument(f"_fleet_opt: {', '.join(sorted(given))} without dump_fields_path: where to write to?")
    if given and not options.get("dump_fields") and not options.get("dump_param"):
        raise InvalidArgument("_fleet_opt: dump_fields or dump_param says what to write")
    if ("dump_interval" in given) != bool(options.get("enable_random_dump")):
        raise InvalidArgument("_fleet_opt: enable_random_dump writes one sample in dump_interval: give both or none")
    for name in ("dump_file_num", "dump_interval"):
        if options.get(name, 1) < 1:
            raise InvalidArgument(f"_fleet_opt: {name}={options[name]}: give 1 or more")
    if options.get("dump_fields_mode", "w") not in ("w", "a"):
        raise InvalidArgument("_fleet_opt: dump_fields_mode is 'w', files begin anew, or 'a', lines are added")
    if "://" in options.get("dump_fields_path", "") or options.get("dump_fields_path", "").startswith("hdfs:"):
        raise InvalidArgument("_fleet_opt: dump_fields_path is a folder of this host")


class Dumper:
    """Writes a program's fields while it trains. ``names``: what to fetch in each step, for ``write``."""

    def __init__(self, program: Program, options: Mapping[str, Any], worker_index: int) -> None:
        self.names: list[str] = [str(name) for name in options.get("dump_fields", ())]
        self._parameters: list[str] = [str(name) for name in options.get("dump_param", ())]
        for name in [*self.names, *self._parameters]:
            if name not in program.variables:
                raise InvalidArgument(f"_fleet_opt: the program has no variable {name!r} to write")
        for name in self.names:
            if program.variables[name].shape[:1] != (-1,):
                raise InvalidArgument(f"_fleet_opt: {name!r} has no row for each sample: name it in fetch_list instead")
        for name in self._parameters:
            if not program.variables[name].persistable:
                raise InvalidArgument(f"_fleet_opt: {name!r} is no parameter: name it in dump_fields")
        self._interval: int = options.get("dump_interval", 1)
        decimals = options.get("dump_num_decimals")
        self._number = "{:.9g}" if decimals is None else f"{{:.{decimals}f}}"
        self._batches = 0
        folder = Path(options["dump_fields_path"])
        folder.mkdir(parents=True, exist_ok=True)
        who = options.get("user_define_dump_filename") or f"{max(worker_index, 0):03d}"
        paths = [folder / f"part-{who}-{number:05d}" for number in range(options.get("dump_file_num", 1))]
        self._converters: list[subprocess.Popen[str]] = []
        self._files = [
            self._open(path, options.get("dump_fields_mode", "w"), options.get("dump_converter")) for path in paths
        ]

    def _open(self, path: Path, mode: str, converter: str | None) -> IO[str]:
        if not converter:
            return path.open(mode)
        with path.open(mode) as file:
            process = subprocess.Popen(converter, shell=True, stdin=subprocess.PIPE, stdout=file, text=True)
        self._converters.append(process)
        assert process.stdin is not None
        return process.stdin

    def write(self, values: Sequence[torch.Tensor | Jagged], scope: Scope) -> None:
        """A batch's fields, in the order of ``names``, and parameters as they are after it."""
        fields = list(zip(self.names, map(_by_sample, values), strict=True))
        samples = max((len(rows) for _, rows in fields), default=0)
        for name, rows in fields:
            if len(rows) != samples:
                raise InvalidArgument(f"_fleet_opt: {name!r} has {len(rows)} rows for {samples} samples: leave it out")
        first = random.randrange(self._interval)
        file = self._files[self._batches % len(self._files)]
        for sample in range(first, samples, self._interval):
            file.write("\t".join(f"{name}:{len(rows[sample])}{self._text(rows[sample])}" for name, rows in fields))
            file.write("\n")
        for name in self._parameters:
            file.write(f"({self._batches},{name}){self._text(scope.read(name).cpu().flatten().tolist())}\n")
        self._batches += 1

    def _text(self, numbers: Sequence[float]) -> str:
        return "".join(f":{each if isinstance(each, int) else self._number.format(each)}" for each in numbers)

    def close(self) -> None:
        """All is written; an error if a converter has failed."""
        for file in self._files:
            file.close()
        for process in self._converters:
            if process.wait() != 0:
                raise InvalidArgument(f"_fleet_opt: dump_converter {process.args!r} ended with {process.returncode}")

    def __enter__(self) -> Dumper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def dumper(program: Program, worker_index: int) -> Dumper | None:
    """What writes the program's fields, if it was asked to."""
    options = program._fleet_opt or {}
    check_options(options)  # once more: scripts add to it
    return Dumper(program, options, worker_index) if options.get("dump_fields_path") else None


def _by_sample(value: torch.Tensor | Jagged) -> list[list[float]]:
    if isinstance(value, Jagged):
        return [part.flatten().tolist() for part in torch.split(value.values.cpu(), value.lengths().tolist())]
    return [row.flatten().tolist() for row in value.detach().cpu()] if value.dim() else []
