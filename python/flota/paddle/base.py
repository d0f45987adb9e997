"""``paddle.base``: what is left of 1.x's names in 2.x. Importing it leaves an eager script eager."""

from flota.paddle.names import public

_HERE = "flota.paddle"

NAMES = {
    "core": f"{_HERE}.core:*",
    **dict.fromkeys(("CPUPlace", "CUDAPlace"), f"{_HERE}.core"),
    **dict.fromkeys(("DistributeTranspiler", "DistributeTranspilerConfig"), f"{_HERE}.fluid.transpiler"),
    **dict.fromkeys(("BuildStrategy", "CompiledProgram", "ExecutionStrategy"), f"{_HERE}.static.strategies"),
    **dict.fromkeys(
        ("Program", "default_main_program", "default_startup_program", "program_guard"), f"{_HERE}.graph.program"
    ),
    **dict.fromkeys(("Scope", "global_scope", "scope_guard"), f"{_HERE}.graph.scope"),
    **dict.fromkeys(("cpu_places", "cuda_places", "device_guard"), f"{_HERE}.device"),
    "DataFeeder": f"{_HERE}.io.feeding",
    "DatasetFactory": f"{_HERE}.fluid.dataset",
    "Executor": f"{_HERE}.graph.executor",
    "ParamAttr": f"{_HERE}.attributes",
    "Variable": f"{_HERE}.graph.variable",
    "clip": f"{_HERE}.clipping:*",
    "data": f"{_HERE}.graph.building",
    "embedding": f"{_HERE}.static.nn",
    "framework": f"{_HERE}.framework:*",
    "name_scope": f"{_HERE}.graph.names",
    "regularizer": f"{_HERE}.regularizer:*",
    "unique_name": f"{_HERE}.graph.names:*",
}

__getattr__, __dir__ = public(f"{_HERE}.base", "paddle.base", NAMES)
