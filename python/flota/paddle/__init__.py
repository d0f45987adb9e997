"""The documents' programs: Paddle's API over flota and torch.

import flota.paddle as paddle                            # in any process
python -m flota.paddle train.py                          # where scripts say `import paddle`
flota launch --paddle --server_num=1 --worker_num=2 train.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flota.paddle.names import public

_HERE = "flota.paddle"

# Modules that are attributes, and where the other names are.
_PUBLIC = {
    **{name: f"{_HERE}.{name}:*" for name in ("common_ops_import", "core", "distributed", "fluid", "io", "nn")},
    **{name: f"{_HERE}.{name}:*" for name in ("optimizer", "regularizer", "static")},
    "CPUPlace": f"{_HERE}.core",
    "CUDAPlace": f"{_HERE}.core",
    "ParamAttr": f"{_HERE}.attributes",
    "Tensor": f"{_HERE}.tensor",
    "batch": f"{_HERE}.io:batched",
    "create_parameter": f"{_HERE}.nn.parameter",
    "disable_static": f"{_HERE}.mode",
    "enable_static": f"{_HERE}.mode",
    "get_default_dtype": f"{_HERE}.dtypes",
    "grad": f"{_HERE}.nn.gradients",
    "in_dynamic_mode": f"{_HERE}.mode",
    "load": f"{_HERE}.nn.saving",
    "no_grad": f"{_HERE}.nn.gradients",
    "save": f"{_HERE}.nn.saving",
    "set_default_dtype": f"{_HERE}.dtypes",
    "to_tensor": f"{_HERE}.tensor",
}

# Functions of tensors that scripts find here; those of nn.functional are there.
_TENSOR_FUNCTIONS = frozenset(
    """
    abs add add_n all any arange argmax argmin argsort assign bmm cast ceil clip concat cos cumsum divide dot einsum
    equal exp expand expand_as eye flatten flip floor floor_divide full full_like gather gather_nd greater_equal
    greater_than index_select isfinite isinf isnan less_equal less_than linspace log log10 log1p log2 logical_and
    logical_not logical_or logical_xor logsumexp masked_fill masked_select matmul max maximum mean min minimum mm mod
    multiply nonzero norm not_equal numel ones ones_like pow prod rand randint randn randperm reciprocal reshape roll
    round rsqrt scale scatter shape sign sin slice sort split sqrt square squeeze stack subtract sum t take_along_axis
    tanh tile topk transpose tril triu unbind uniform unique unsqueeze unstack where zeros zeros_like
    """.split()  # noqa: SIM905 (one word a function, in as few lines as they need)
)


def _more() -> Mapping[str, Any]:
    from flota.paddle import dtypes, mode, ops  # noqa: F401 (they make operations, and say what those make)
    from flota.paddle.ops.registry import FUNCTIONS

    return {**dtypes.NAMES, **{name: FUNCTIONS[name] for name in _TENSOR_FUNCTIONS if name in FUNCTIONS}}


__getattr__, __dir__ = public(_HERE, "paddle", _PUBLIC, _more)
