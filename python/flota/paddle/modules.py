"""Under which names scripts import what: the one table, and the importer that reads it.

Every release has had its own folders. Each name here stands for a module of this package, or for one that is made of
some of its names. An import that the table does not know is an error that says what is near.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_HERE = "flota.paddle"

# A name that scripts import: the module of this package behind it.
MODULES: dict[str, str] = {
    "paddle": "",
    "paddle.base": "base",
    "paddle.base.compiler": "static.strategies",
    "paddle.base.core": "core",
    "paddle.base.data_feeder": "io.feeding",
    "paddle.base.dataset": "fluid.dataset",
    "paddle.base.executor": "executor",
    "paddle.base.framework": "framework",
    "paddle.base.lod_tensor": "lod",
    "paddle.base.param_attr": "attributes",
    "paddle.base.reader": "fluid.io",
    "paddle.base.unique_name": "graph.names",
    "paddle.common_ops_import": "common_ops_import",
    "paddle.core": "core",
    "paddle.device": "device",
    "paddle.distributed": "distributed",
    "paddle.distributed.entry_attr": "entries",
    "paddle.distributed.fleet": "distributed.fleet",
    "paddle.distributed.fleet.base.distributed_strategy": "distributed.strategy",
    "paddle.distributed.fleet.base.role_maker": "distributed.role_maker",
    "paddle.distributed.fleet.data_generator": "distributed.data_generator",
    "paddle.distributed.fleet.data_generator.data_generator": "distributed.data_generator",
    "paddle.distributed.fleet.dataset": "distributed.datasets",
    "paddle.distributed.fleet.dataset.dataset": "distributed.datasets",
    "paddle.distributed.fleet.metrics": "distributed.metrics",
    "paddle.distributed.fleet.metrics.metric": "distributed.metrics",
    "paddle.distributed.fleet.utils": "distributed.conveniences",
    "paddle.distributed.fleet.utils.fs": "distributed.files",
    "paddle.distributed.fleet.utils.ps_util": "distributed.infer",
    "paddle.fluid": "fluid",
    "paddle.fluid.clip": "clipping",
    "paddle.fluid.compiler": "static.strategies",
    "paddle.fluid.core": "core",
    "paddle.fluid.data_feeder": "io.feeding",
    "paddle.fluid.dataset": "fluid.dataset",
    "paddle.fluid.dygraph": "fluid.dygraph",
    "paddle.fluid.dygraph.base": "fluid.dygraph",
    "paddle.fluid.dygraph.nn": "fluid.dygraph",
    "paddle.fluid.entry_attr": "entries",
    "paddle.fluid.executor": "executor",
    "paddle.fluid.framework": "framework",
    "paddle.fluid.incubate.data_generator": "distributed.data_generator",
    "paddle.fluid.incubate.fleet.base.role_maker": "distributed.role_maker",
    "paddle.fluid.incubate.fleet.parameter_server": "fluid.parameter_server",
    "paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler": "fluid.parameter_server",
    "paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy": "fluid.parameter_server",
    "paddle.fluid.incubate.fleet.utils.fs": "distributed.files",
    "paddle.fluid.incubate.fleet.utils.hdfs": "distributed.files",
    "paddle.fluid.initializer": "fluid.initializer",
    "paddle.fluid.io": "fluid.io",
    "paddle.fluid.layers": "fluid.layers",
    "paddle.fluid.lod_tensor": "lod",
    "paddle.fluid.metrics": "fluid.metrics",
    "paddle.fluid.nets": "fluid.nets",
    "paddle.fluid.optimizer": "fluid.optimizer",
    "paddle.fluid.parallel_executor": "fluid.parallel_executor",
    "paddle.fluid.param_attr": "attributes",
    "paddle.fluid.profiler": "fluid.profiler",
    "paddle.fluid.reader": "fluid.io",
    "paddle.fluid.regularizer": "regularizer",
    "paddle.fluid.transpiler": "fluid.transpiler",
    "paddle.fluid.transpiler.distribute_transpiler": "fluid.transpiler",
    "paddle.fluid.unique_name": "graph.names",
    "paddle.framework": "framework",
    "paddle.framework.core": "core",
    "paddle.io": "io",
    "paddle.io.dataloader": "io",
    "paddle.io.dataloader.collate": "io.collate",
    "paddle.metric": "metric",
    "paddle.nn": "nn",
    "paddle.nn.clip": "clipping",
    "paddle.nn.functional": "nn.functional",
    "paddle.nn.functional.activation": "nn.functional",
    "paddle.nn.functional.common": "nn.functional",
    "paddle.nn.functional.loss": "nn.functional",
    "paddle.nn.initializer": "initializer",
    "paddle.nn.layer": "nn.layer",
    "paddle.nn.layer.activation": "nn",
    "paddle.nn.layer.common": "nn",
    "paddle.nn.layer.container": "nn",
    "paddle.nn.layer.conv": "nn",
    "paddle.nn.layer.layers": "nn.layer",
    "paddle.nn.layer.loss": "nn",
    "paddle.nn.layer.norm": "nn",
    "paddle.nn.layer.pooling": "nn",
    "paddle.nn.layer.rnn": "nn",
    "paddle.nn.layer.transformer": "nn",
    "paddle.optimizer": "optimizer",
    "paddle.optimizer.lr": "optimizer.lr",
    "paddle.reader": "reader",
    "paddle.regularizer": "regularizer",
    "paddle.static": "static",
    "paddle.static.nn": "static.nn",
    "paddle.utils": "conveniences",
    "paddle.utils.unique_name": "graph.names",
    "paddle.version": "version",
}

# Folders of the reference that hold nothing but modules of the table.
FOLDERS = frozenset(
    {
        "paddle.distributed.fleet.base",
        "paddle.fluid.incubate",
        "paddle.fluid.incubate.fleet",
        "paddle.fluid.incubate.fleet.base",
        "paddle.fluid.incubate.fleet.utils",
    }
)

# What `python -m` runs as `flota launch --paddle`.
LAUNCHERS = frozenset({"paddle.distributed.fleet.launch", "paddle.distributed.launch", "paddle.distributed.launch_ps"})


def home_of(name: str) -> str:
    """The module behind an imported name."""
    inner = MODULES[name]
    return f"{_HERE}.{inner}" if inner else _HERE


class _AliasLoader(Loader):
    """Puts a module of this package in the place of the one that is imported."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        home = import_module(home_of(module.__spec__.name))
        if not hasattr(home, "__path__"):
            home.__path__ = []  # to scripts it may be a package, whose modules the table knows
        # The import machinery takes what it finds here afterwards.
        sys.modules[module.__spec__.name] = home


class _FolderLoader(Loader):
    """Makes a folder: its names are the modules in it, as for any package."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        folder = module.__name__

        def look_up(name: str) -> ModuleType:
            full = f"{folder}.{name}"
            if full in MODULES or full in FOLDERS:
                return import_module(full)
            raise AttributeError(missing(full))

        vars(module)["__getattr__"] = look_up


class PaddleFinder(MetaPathFinder):
    """Finds ``paddle`` and what is in it, before any package of that name that is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "paddle" and not fullname.startswith("paddle."):
            return None
        if fullname in MODULES:
            return ModuleSpec(fullname, _AliasLoader(), is_package=True)
        if fullname in FOLDERS:
            return ModuleSpec(fullname, _FolderLoader(), is_package=True)
        raise ModuleNotFoundError(missing(fullname), name=fullname)


def missing(fullname: str) -> str:
    """What an error says about a name that is not there."""
    folder, _, last = fullname.rpartition(".")
    beside = [name.rpartition(".")[2] for name in (*MODULES, *FOLDERS) if name.rpartition(".")[0] == folder]
    near = difflib.get_close_matches(last, beside, n=1, cutoff=0.75)
    hint = f": did you mean {folder}.{near[0]}?" if near else ""
    return f"flota's paddle has no {fullname}{hint} (docs/paddle.md lists what it has)"


def install() -> None:
    """From here on ``import paddle`` is this package, in this process."""
    if any(isinstance(finder, PaddleFinder) for finder in sys.meta_path):
        return
    for name in [name for name in sys.modules if name == "paddle" or name.startswith("paddle.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, PaddleFinder())
