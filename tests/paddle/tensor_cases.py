"""Cases of operations on tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
from golden_cases import FUNCTIONAL, ROWS, Case, Made, between, different, given, real, truth, whole

X = {"x": real(ROWS, 3)}
PAIR = {"x": real(ROWS, 3), "y": real(ROWS, 3)}


def each(names: str, made: Made, module: str = "") -> list[Case]:
    """Operations of one argument."""
    return [Case(name, {"x": made}, reference=module + name) for name in names.split()]


def pairs(names: str, first: Made, second: Made, label: str = "") -> list[Case]:
    return [Case(name, {"x": first, "y": second}, label=label) for name in names.split()]


ELEMENTS = [
    *each("abs ceil cos cosh erf exp expm1 floor neg sign sin sinh square tan atan", real(ROWS, 3)),
    *each("log log10 log1p log2 reciprocal rsqrt sqrt", between(0.2, 3.0, ROWS, 3)),
    *each("acos asin", between(-0.9, 0.9, ROWS, 3)),
    *each("isfinite isinf isnan nan_to_num", given([[1.0, np.nan], [np.inf, -np.inf]])),
    *each("logical_not bitwise_not", truth(ROWS, 3)),
    # torch's halves go to the even number.
    Case("round", {"x": given([0.5, 1.5, 2.5, -0.5, -1.5, 0.4, -0.6, 3.0])}),
    Case("scale", X, {"scale": 2.5, "bias": 1.0}),
    Case("scale", X, {"scale": 2.5, "bias": 1.0, "bias_after_scale": False}, label="before"),
    Case("scale", X, {"scale": -2.0, "act": "relu"}, label="act"),
    Case("scale", {"x": whole(0, 9, ROWS)}, {"scale": 3.0, "bias": 1.0}, label="whole"),
    Case("clip", X, {"min": -0.5, "max": 0.7}),
    Case("clip", X, {"min": 0.1}, label="below"),
    Case("trunc", {"input": real(ROWS, 3)}),
    Case("stanh", X),
    Case("logit", {"x": between(0.1, 0.9, ROWS, 3)}),
    Case("cast", X, {"dtype": "int64"}),
    Case("cast", {"x": whole(0, 5, ROWS, 3)}, {"dtype": "float32"}, label="real"),
    Case("assign", X),
    *each("relu relu6 sigmoid log_sigmoid tanh softsign swish silu mish hardswish", real(ROWS, 3), FUNCTIONAL),
    *each("softmax log_softmax gelu elu selu softplus leaky_relu hardsigmoid hardtanh", real(ROWS, 3), FUNCTIONAL),
    Case("softmax", {"x": real(ROWS, 3, 2)}, {"axis": 1}, FUNCTIONAL + "softmax", "axis"),
    Case("log_softmax", {"x": real(ROWS, 3, 2)}, {"axis": 1}, FUNCTIONAL + "log_softmax", "axis"),
    Case("gelu", X, {"approximate": True}, FUNCTIONAL + "gelu", "approximate"),
    Case("leaky_relu", X, {"negative_slope": 0.3}, FUNCTIONAL + "leaky_relu", "slope"),
    Case("softplus", X, {"beta": 2.0, "threshold": 3.0}, FUNCTIONAL + "softplus", "beta"),
    Case("prelu", {"x": real(ROWS, 3, 2), "weight": real(3)}, reference=FUNCTIONAL + "prelu"),
    Case("prelu", {"x": real(ROWS, 3), "weight": real(1)}, reference=FUNCTIONAL + "prelu", label="one"),
    Case("prelu", {"x": real(ROWS, 2, 5, 3), "weight": real(3)}, {"data_format": "NHWC"}, FUNCTIONAL + "prelu", "last"),
    Case("glu", {"x": real(ROWS, 6)}, reference=FUNCTIONAL + "glu"),
    *each("celu softshrink hardshrink tanhshrink thresholded_relu", real(ROWS, 3), FUNCTIONAL),
    Case("celu", X, {"alpha": 0.5}, FUNCTIONAL + "celu", "alpha"),
    Case("maxout", {"x": real(ROWS, 6, 2, 2)}, {"groups": 3}, FUNCTIONAL + "maxout"),
]

ARITHMETIC = [
    *pairs("add subtract multiply divide maximum minimum atan2", real(ROWS, 3), real(ROWS, 3)),
    *pairs("add subtract multiply divide maximum minimum", real(ROWS, 5, 3), real(5, 1), "broadcast"),
    *pairs("add subtract multiply divide floor_divide mod remainder", whole(-9, 9, ROWS), whole(1, 5, ROWS), "whole"),
    *pairs("mod remainder", real(ROWS, 3), between(0.5, 2.0, ROWS, 3)),
    Case("pow", {"x": between(0.2, 2.0, ROWS, 3), "y": real(ROWS, 3)}),
    Case("pow", X, {"y": 3}, label="number"),
    *pairs(
        "equal not_equal less_than less_equal greater_than greater_equal", whole(0, 3, ROWS, 3), whole(0, 3, ROWS, 3)
    ),
    *pairs("logical_and logical_or logical_xor", truth(ROWS, 3), truth(ROWS, 3)),
    *pairs("bitwise_and bitwise_or bitwise_xor", whole(0, 8, ROWS), whole(0, 8, ROWS)),
    *pairs("equal_all allclose", real(ROWS), real(ROWS)),
    Case("isclose", PAIR, {"rtol": 0.5, "atol": 0.5}),
    Case("add_n", {"inputs": [real(ROWS, 3), real(ROWS, 3), real(ROWS, 3)]}),
    Case("lerp", PAIR, {"weight": 0.3}),
    *pairs("fmax fmin", real(ROWS, 3), real(ROWS, 3)),
    Case("mv", {"x": real(ROWS, 3), "vec": real(3)}),
    Case("trace", {"x": real(ROWS, 3, 3)}, {"offset": 1, "axis1": 1, "axis2": 2}),
    Case("pairwise_distance", PAIR, reference=FUNCTIONAL + "pairwise_distance"),
    Case("diff", {"x": real(ROWS, 4)}),
    Case("rank", {"input": real(ROWS, 3)}),
    Case("bincount", {"x": whole(0, 5, ROWS)}, {"minlength": 8}),
    Case("histogram", {"input": between(-2, 2, ROWS, 3)}, {"bins": 4, "min": -1, "max": 1}),
    Case("matmul", {"x": real(ROWS, 3), "y": real(3, 5)}),
    Case("matmul", {"x": real(ROWS, 2, 3), "y": real(3, 5)}, label="batches"),
    Case("matmul", {"x": real(ROWS, 2, 3), "y": real(ROWS, 5, 3)}, {"transpose_y": True}, label="transposed"),
    Case("matmul", {"x": real(3, 2), "y": real(3, 5)}, {"transpose_x": True}, label="first"),
    Case("matmul", {"x": real(ROWS, 3), "y": real(3)}, label="vector"),
    Case(
        "mul",
        {"x": real(ROWS, 2, 3), "y": real(6, 5)},
        reference=lambda paddle, x, y: paddle.matmul(x.reshape([-1, 6]), y),
    ),
    Case("bmm", {"x": real(ROWS, 2, 3), "y": real(ROWS, 3, 5)}),
    Case("mm", {"input": real(ROWS, 3), "mat2": real(3, 5)}),
    Case("dot", PAIR),
    Case("outer", {"x": real(3), "y": real(5)}),
    Case("inner", {"x": real(ROWS, 3), "y": real(5, 3)}),
    Case("kron", {"x": real(2, 3), "y": real(3, 1)}),
    Case("addmm", {"input": real(5), "x": real(ROWS, 3), "y": real(3, 5)}, {"beta": 0.5, "alpha": 2.0}),
    Case("tensordot", {"x": real(ROWS, 3, 2), "y": real(3, 2, 5)}),
    Case("einsum", {"operands": [real(ROWS, 2, 3), real(ROWS, 5, 3)]}, {"equation": "bik,bjk->bij"}),
]

REDUCTIONS = [
    *each("sum mean max min amax amin logsumexp norm std var median", different(ROWS, 3)),
    # With a zero among them the reference's gradient is not a number.
    Case("prod", {"x": between(0.5, 2.0, ROWS, 3)}),
    Case("prod", {"x": between(0.5, 2.0, ROWS, 5, 3)}, {"axis": 1, "keepdim": True}, label="axis"),
    *[
        Case(name, {"x": different(ROWS, 5, 3)}, {"axis": 1, "keepdim": True}, label="axis")
        for name in ("sum", "mean", "max", "min", "amax", "amin", "logsumexp", "norm", "std", "var", "median")
    ],
    *[
        Case(name, {"x": real(ROWS, 5, 3)}, {"axis": [-1, 1]}, label="axes")
        for name in ("sum", "mean", "max", "min", "logsumexp", "norm", "std", "var")
    ],
    # Of several that are greatest each has the whole gradient; with amax they share it. So the documents say.
    Case("max", {"x": given([[1, 2, 2], [3, 1, 3]])}, {"axis": 1}, label="equal"),
    Case("amax", {"x": given([[1, 2, 2], [3, 1, 3]])}, {"axis": 1}, label="equal"),
    Case("median", {"x": different(ROWS, 4)}, {"axis": 1}, label="even"),
    Case("var", {"x": real(ROWS, 3)}, {"axis": 1, "unbiased": False}, label="biased"),
    Case("norm", {"x": real(ROWS, 3)}, {"p": 1, "axis": 1}, label="one"),
    Case("norm", {"x": real(ROWS, 3)}, {"p": np.inf, "axis": 1}, label="greatest"),
    Case("sum", {"x": whole(0, 9, ROWS, 3)}, {"axis": 0}, label="whole"),
    Case("sum", {"x": truth(ROWS, 3)}, {"axis": 1}, label="truth"),
    Case("sum", X, {"axis": 1, "dtype": "float64"}, label="type"),
    Case("cumsum", X),
    Case("cumsum", X, {"axis": 1}, label="axis"),
    Case("cumsum", X, {"axis": -1}, label="last"),
    Case("cumprod", X, {"dim": 1}),
    Case("all", {"x": truth(ROWS, 3)}, {"axis": 1}),
    Case("any", {"x": truth(ROWS, 3)}),
    Case("count_nonzero", {"x": whole(0, 2, ROWS, 3)}, {"axis": 1}),
    Case("dist", PAIR),
]

SHAPES = [
    Case("reshape", {"x": real(ROWS, 4, 3)}, {"shape": [0, -1, 2]}),
    Case("reshape", {"x": real(ROWS, 4, 3)}, {"shape": [-1, 12]}, label="flat"),
    Case("flatten", {"x": real(ROWS, 4, 3)}, {"start_axis": 1}),
    Case(
        "flatten_to_matrix",
        {"x": real(ROWS, 2, 3)},
        {"axis": 2},
        lambda paddle, x, axis: x.reshape([-1, 3]),
    ),
    Case("transpose", {"x": real(ROWS, 4, 3)}, {"perm": [1, 0, 2]}),
    Case("moveaxis", {"x": real(ROWS, 4, 3)}, {"source": 1, "destination": -1}),
    Case("t", {"input": real(ROWS, 3)}),
    Case("unsqueeze", X, {"axis": 1}),
    Case("unsqueeze", X, {"axis": [0, 2]}, label="several"),
    Case("squeeze", {"x": real(ROWS, 1, 3, 1)}, {"axis": [1]}),
    Case("squeeze", {"x": real(ROWS, 1, 3, 1)}, label="all"),
    Case("concat", {"x": [real(ROWS, 3), real(ROWS, 2)]}, {"axis": 1}),
    Case("concat", {"x": [real(ROWS, 3), real(ROWS, 3)]}, {"axis": 0}, label="rows"),
    Case("stack", {"x": [real(ROWS, 3), real(ROWS, 3)]}, {"axis": 1}),
    Case("unstack", X, {"axis": 1}),
    Case("unbind", {"input": real(ROWS, 3)}, {"axis": 1}),
    Case("split", {"x": real(ROWS, 6)}, {"num_or_sections": 3, "axis": 1}),
    Case("split", {"x": real(ROWS, 6)}, {"num_or_sections": [1, -1, 2], "axis": -1}, label="sections"),
    Case("chunk", {"x": real(ROWS, 6)}, {"chunks": 2, "axis": 1}),
    Case("slice", {"input": real(ROWS, 6, 3)}, {"axes": [1, 2], "starts": [-3, 0], "ends": [-1, 100]}),
    Case("strided_slice", {"x": real(ROWS, 6)}, {"axes": [1], "starts": [5], "ends": [0], "strides": [-2]}),
    Case("tile", X, {"repeat_times": [1, 2]}),
    Case("tile", X, {"repeat_times": [2, 1, 2]}, label="more"),
    Case("expand", {"x": real(1, 3)}, {"shape": [5, -1]}),
    Case("broadcast_to", {"x": real(1, 3)}, {"shape": [2, 5, 3]}),
    Case("expand_as", {"x": real(ROWS, 1), "y": real(ROWS, 3)}, fixed=("y",)),
    Case("repeat_interleave", X, {"repeats": 2, "axis": 1}),
    Case("flip", X, {"axis": [1]}),
    Case("roll", X, {"shifts": 1, "axis": 1}),
    Case("tril", {"x": real(ROWS, 4, 3)}, {"diagonal": 1}),
    Case("triu", {"x": real(ROWS, 4, 3)}),
    Case("diag", {"x": real(3)}, {"offset": 1, "padding_value": 2.0}),
    Case("diag", {"x": real(3, 4)}, label="of"),
    Case("diagonal", {"x": real(ROWS, 4, 3)}, {"axis1": 1, "axis2": 2}),
    Case("diag_embed", {"input": real(ROWS, 3)}),
    Case("shape", {"input": real(5, 3)}),
    Case("numel", {"x": real(5, 3)}),
    Case("sequence_mask", {"x": whole(0, 5, ROWS)}, {"maxlen": 4, "dtype": "float32"}, FUNCTIONAL + "sequence_mask"),
    Case("sequence_mask", {"x": given([3, 1, 2], "int64")}, reference=FUNCTIONAL + "sequence_mask", label="longest"),
]


GETITEM: list[tuple[str, Any]] = [
    ("row", 1),
    ("rows", slice(1, 4)),
    ("column", (slice(None), 2)),
    ("columns", (slice(None), slice(0, -1), slice(1, None))),
    ("new", (slice(None), None)),
    ("last", (..., 0)),
    ("step", (slice(None), slice(None, None, 2))),
    ("back", (slice(None), slice(None, None, -1))),
    ("back-of-end", (..., slice(3, 0, -2))),
    ("list", [0, 2]),
]
MAKING = [
    *[
        Case("getitem", {"x": real(ROWS, 4, 5)}, {"index": index}, lambda paddle, x, index: x[index], label)
        for label, index in GETITEM
    ],
    Case("full", {}, {"shape": [2, 3], "fill_value": 1.5}),
    Case("full", {}, {"shape": [2, 3], "fill_value": 4, "dtype": "int64"}, label="whole"),
    Case("ones", {}, {"shape": [2, 3]}),
    Case("zeros", {}, {"shape": [2, 3], "dtype": "int32"}),
    Case("full_like", X, {"fill_value": 2.0}, fixed=("x",)),
    Case("ones_like", X, {"dtype": "int64"}),
    Case("zeros_like", X, fixed=("x",)),
    Case("increment", {"x": real(1)}, {"value": 2.0}, fixed=("x",)),
    Case(
        "fill_constant_batch_size_like",
        {"input": real(ROWS, 3)},
        {"shape": [-1, 2], "dtype": "float32", "value": 1.5},
        lambda paddle, input, shape, dtype, value: paddle.full([input.shape[0], 2], value, dtype),
    ),
    Case("arange", {}, {"start": 5}),
    Case("arange", {}, {"start": 1, "end": 9, "step": 3}, label="step"),
    Case("arange", {}, {"start": 0.5, "end": 2.0, "step": 0.5}, label="real"),
    Case("linspace", {}, {"start": 0.0, "stop": 1.0, "num": 5}),
    Case("eye", {}, {"num_rows": 3, "num_columns": 2}),
    Case("meshgrid", {"args": [real(3), real(2)]}),
]

INDEX = whole(0, 3, 5)
SEARCHES = [
    Case("gather", {"x": real(ROWS, 3), "index": INDEX}),
    # The reference's gradient along an axis is wrong: each row has that of the first.
    Case("gather", {"x": real(ROWS, 3), "index": whole(0, 3, 4)}, {"axis": 1}, label="axis", fixed=("x",)),
    Case("gather_nd", {"x": real(5, 3, 2), "index": whole(0, 3, ROWS, 2)}),
    Case("index_select", {"x": real(ROWS, 3), "index": INDEX}, {"axis": 1}),
    Case("index_sample", {"x": real(ROWS, 3), "index": whole(0, 3, ROWS, 5)}),
    Case("take_along_axis", {"arr": real(ROWS, 3), "indices": whole(0, 3, ROWS, 2)}, {"axis": 1}),
    Case(
        "put_along_axis",
        {"arr": real(ROWS, 3), "indices": given([[1]] * ROWS, "int64"), "values": real(ROWS, 1)},
        {"axis": 1},
    ),
    Case(
        "put_along_axis",
        {"arr": real(ROWS, 3), "indices": whole(0, 3, ROWS, 2), "values": real(ROWS, 2)},
        {"axis": 1, "reduce": "add"},
        label="add",
    ),
    Case("scatter", {"x": real(ROWS, 3), "index": given([3, 1], "int64"), "updates": real(2, 3)}),
    Case(
        "scatter",
        {"x": real(ROWS, 3), "index": given([3, 1, 3], "int64"), "updates": real(3, 3)},
        {"overwrite": False},
        label="add",
        # The gradient of x in the reference is that of a copy: rows that were set to zero have one there. The document
        # says that they are zero first, whatever they were.
        fixed=("x",),
    ),
    Case("scatter_nd_add", {"x": real(5, 3), "index": whole(0, 3, ROWS, 2), "updates": real(ROWS)}),
    Case("scatter_nd", {"index": whole(0, 3, ROWS, 2), "updates": real(ROWS)}, {"shape": [5, 3]}),
    Case("index_add", {"x": real(5, 3), "index": given([0, 2], "int64"), "value": real(5, 2)}, {"axis": 1}),
    Case("shard_index", {"input": whole(0, 20, ROWS, 1)}, {"index_num": 20, "nshards": 3, "shard_id": 1}),
    Case("where", {"condition": truth(ROWS, 3), "x": real(ROWS, 3), "y": real(ROWS, 3)}),
    Case("nonzero", {"x": whole(0, 2, ROWS, 3)}),
    Case("masked_select", {"x": real(ROWS, 3), "mask": truth(ROWS, 3)}),
    Case("masked_fill", {"x": real(ROWS, 3), "mask": truth(ROWS, 3)}, {"value": 2.0}),
    Case(
        "multiplex",
        {"inputs": [real(ROWS, 3), real(ROWS, 3)], "index": given([[1], [0], [0], [1], [0], [1], [1]], "int32")},
    ),
    *[
        Case(name, {"x": different(ROWS, 5)}, {"axis": 1}, label="axis")
        for name in ("argmax", "argmin", "argsort", "sort")
    ],
    Case("argmax", {"x": different(ROWS, 5)}),
    Case("argmax", {"x": different(ROWS, 5)}, {"axis": -1, "keepdim": True, "dtype": "int32"}, label="keep"),
    Case("argsort", {"x": different(ROWS, 5)}, {"descending": True}, label="descending"),
    Case("sort", {"x": different(ROWS, 5)}, {"axis": 0, "descending": True}, label="descending"),
    Case("topk", {"x": different(ROWS, 5)}, {"k": 2}),
    Case("topk", {"x": different(ROWS, 5)}, {"k": 3, "axis": 1, "largest": False}, label="least"),
    Case("kthvalue", {"x": different(ROWS, 5)}, {"k": 2}),
    Case("searchsorted", {"sorted_sequence": given([1, 3, 5, 7]), "values": between(0, 9, ROWS, 2)}),
    Case("bucketize", {"x": between(0, 9, ROWS, 2), "sorted_sequence": given([1, 3, 5, 7])}, {"right": True}),
    Case("unique", {"x": whole(0, 4, ROWS)}),
    Case(
        "unique",
        {"x": whole(0, 4, ROWS, 2)},
        {"return_index": True, "return_inverse": True, "return_counts": True},
        label="all",
    ),
]

CASES = [*ELEMENTS, *ARITHMETIC, *REDUCTIONS, *SHAPES, *MAKING, *SEARCHES]
