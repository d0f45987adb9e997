"""The documents' programs: Paddle's API over flota and torch.

import flota.paddle as paddle                            # in any process
python -m flota.paddle train.py                          # where scripts say `import paddle`
flota launch --paddle --server_num=1 --worker_num=2 train.py
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flota.paddle.names import public

__version__ = "2.6.2"  # the release whose numbers it gives: scripts ask

_HERE = "flota.paddle"

# Modules that are attributes, and where the other names are.
_PUBLIC = {
    **{
        name: f"{_HERE}.{name}:*"
        for name in ("base", "common_ops_import", "core", "device", "distributed", "fluid", "framework", "io", "nn")
    },
    **{name: f"{_HERE}.{name}:*" for name in ("optimizer", "regularizer", "static")},
    **{name: f"{_HERE}.{name}:*" for name in ("metric", "reader")},
    "utils": f"{_HERE}.conveniences:*",
    **dict.fromkeys(
        (
            "get_device",
            "get_rng_state",
            "is_compiled_with_cuda",
            "is_compiled_with_custom_device",
            "is_compiled_with_rocm",
            "is_compiled_with_xpu",
            "seed",
            "set_device",
            "set_rng_state",
        ),
        f"{_HERE}.device",
    ),
    "CPUPlace": f"{_HERE}.core",
    "CUDAPlace": f"{_HERE}.core",
    "ParamAttr": f"{_HERE}.attributes",
    "Tensor": f"{_HERE}.tensor",
    "batch": f"{_HERE}.reader",
    "create_parameter": f"{_HERE}.nn.parameter",
    "disable_static": f"{_HERE}.mode",
    "enable_static": f"{_HERE}.mode",
    "get_default_dtype": f"{_HERE}.dtypes",
    "get_flags": f"{_HERE}.flags",
    "grad": f"{_HERE}.nn.gradients",
    "in_dynamic_mode": f"{_HERE}.mode",
    "init": f"{_HERE}.legacy",
    "is_grad_enabled": "torch",
    "is_tensor": f"{_HERE}.tensor",
    "load": f"{_HERE}.nn.saving",
    "no_grad": f"{_HERE}.nn.gradients",
    "save": f"{_HERE}.nn.saving",
    "set_default_dtype": f"{_HERE}.dtypes",
    "set_flags": f"{_HERE}.flags",
    "set_grad_enabled": "torch",
    "set_printoptions": f"{_HERE}.tensor",
    "summary": f"{_HERE}.summary",
    "to_tensor": f"{_HERE}.tensor",
    "version": f"{_HERE}.version:*",
}

# Functions of tensors that scripts find here; those of nn.functional are there.
_TENSOR_FUNCTIONS = frozenset(
    """
    abs acos add add_n addmm all allclose amax amin any arange argmax argmin argsort asin assign atan atan2
    bernoulli bincount bitwise_and bitwise_or bitwise_xor bmm broadcast_to bucketize cast ceil chunk clip concat cos
    cosh count_nonzero cumprod cumsum diag diag_embed diagonal diff dist divide dot einsum empty empty_like equal
    equal_all erf exp expand expand_as expm1 eye flatten flip floor floor_divide floor_mod fmax fmin full full_like
    gather gather_nd greater_equal greater_than histogram increment index_add index_sample index_select inner
    is_empty isclose isfinite isinf isnan kron kthvalue lerp less_equal less_than linspace log log10 log1p log2
    logical_and logical_not logical_or logical_xor logit logsumexp masked_fill masked_select matmul max maximum mean
    median meshgrid min minimum mm mod moveaxis multinomial multiplex multiply mv nan_to_num neg nonzero norm normal
    not_equal numel ones ones_like outer pow prod put_along_axis rand randint randn randperm rank reciprocal remainder
    repeat_interleave reshape roll round rsqrt scale scatter scatter_nd scatter_nd_add searchsorted shape
    shard_index sign sin sinh slice sort split sqrt square squeeze stack standard_normal stanh std strided_slice
    subtract sum t take_along_axis tan tanh tensordot tile topk trace transpose tril triu trunc unbind uniform
    unique unsqueeze unstack var where zeros zeros_like
    """.split()  # noqa: SIM905 (one word a function, in as few lines as they need)
)


def _more() -> Mapping[str, Any]:
    from flota.paddle import dtypes, mode, ops  # noqa: F401 (they make operations, and say what those make)
    from flota.paddle.ops.registry import FUNCTIONS

    return {**dtypes.NAMES, **{name: FUNCTIONS[name] for name in _TENSOR_FUNCTIONS if name in FUNCTIONS}}


__getattr__, __dir__ = public(_HERE, "paddle", _PUBLIC, _more)
