"""``paddle.fluid``: 1.x."""

from flota.paddle.base import NAMES
from flota.paddle.first_mode import begin_static
from flota.paddle.names import public

begin_static()  # 1.x has nothing else

_HERE = "flota.paddle"

_PUBLIC = {
    **NAMES,
    **dict.fromkeys(("LoDTensor", "Tensor"), f"{_HERE}.lod:LoDTensor"),
    **dict.fromkeys(("create_lod_tensor", "create_random_int_lodtensor"), f"{_HERE}.lod"),
    **dict.fromkeys(("get_flags", "set_flags"), f"{_HERE}.flags"),
    **dict.fromkeys(("is_compiled_with_cuda", "is_compiled_with_xpu"), f"{_HERE}.device"),
    **dict.fromkeys(("load", "save"), f"{_HERE}.static.saving"),
    "FetchHandler": f"{_HERE}.graph.fetching",
    "ParallelExecutor": f"{_HERE}.fluid.parallel_executor",
    "compiler": f"{_HERE}.static.strategies:*",
    "data_feeder": f"{_HERE}.io.feeding:*",
    "disable_dygraph": f"{_HERE}.mode:enable_static",
    "enable_dygraph": f"{_HERE}.mode:disable_static",
    "executor": f"{_HERE}.executor:*",
    "in_dygraph_mode": f"{_HERE}.mode:in_dynamic_mode",
    "one_hot": f"{_HERE}.nn.functional",
    "param_attr": f"{_HERE}.attributes:*",
}

__getattr__, __dir__ = public(f"{_HERE}.fluid", "paddle.fluid", _PUBLIC)
