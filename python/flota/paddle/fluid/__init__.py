"""``paddle.fluid``: 1.x."""

from flota.paddle.first_mode import begin_static
from flota.paddle.names import public

_HERE = "flota.paddle"

_PUBLIC = {
    "core": f"{_HERE}.core:*",
    **dict.fromkeys(("CPUPlace", "CUDAPlace"), f"{_HERE}.core"),
    **dict.fromkeys(("DistributeTranspiler", "DistributeTranspilerConfig"), f"{_HERE}.fluid.transpiler"),
    **dict.fromkeys(
        ("Program", "default_main_program", "default_startup_program", "program_guard"), f"{_HERE}.graph.program"
    ),
    **dict.fromkeys(("Scope", "global_scope", "scope_guard"), f"{_HERE}.graph.scope"),
    "DataFeeder": f"{_HERE}.io.feeding",
    "DatasetFactory": f"{_HERE}.fluid.dataset",
    "Executor": f"{_HERE}.graph.executor",
    "ParamAttr": f"{_HERE}.attributes",
    "clip": f"{_HERE}.clipping:*",
    "data": f"{_HERE}.graph.building",
    "embedding": f"{_HERE}.static.nn",
    "regularizer": f"{_HERE}.regularizer:*",
    "unique_name": f"{_HERE}.graph.names:*",
}

begin_static()  # 1.x has nothing else

__getattr__, __dir__ = public(f"{_HERE}.fluid", "paddle.fluid", _PUBLIC)
