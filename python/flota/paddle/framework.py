"""``paddle.framework``: a second place for names that scripts find elsewhere too."""

from flota.paddle.names import public

_HERE = "flota.paddle"

_PUBLIC = {
    **dict.fromkeys(("CPUPlace", "CUDAPlace"), f"{_HERE}.core"),
    **dict.fromkeys(("disable_static", "enable_static", "in_dynamic_mode"), f"{_HERE}.mode"),
    "in_dygraph_mode": f"{_HERE}.mode:in_dynamic_mode",
    **dict.fromkeys(("get_default_dtype", "set_default_dtype"), f"{_HERE}.dtypes"),
    **dict.fromkeys(("grad", "no_grad"), f"{_HERE}.nn.gradients"),
    **dict.fromkeys(("load", "save"), f"{_HERE}.nn.saving"),
    **dict.fromkeys(
        ("Block", "Operator", "Program", "default_main_program", "default_startup_program", "program_guard"),
        f"{_HERE}.graph.program",
    ),
    "ParamAttr": f"{_HERE}.attributes",
    "Parameter": f"{_HERE}.graph.variable:ParameterVariable",
    "Variable": f"{_HERE}.graph.variable",
    "core": f"{_HERE}.core:*",
    "random": f"{_HERE}.device:*",
    "seed": f"{_HERE}.device",
}

__getattr__, __dir__ = public(f"{_HERE}.framework", "paddle.framework", _PUBLIC)
