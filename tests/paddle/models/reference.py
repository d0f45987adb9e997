"""What release 2.6.2 has dropped, made of what it has, so that it runs scripts of older ones:

python reference.py SCRIPT ARGUMENTS…
"""

import runpy
import sys
import types

import paddle
from paddle import base, static
from paddle.base import reader


def layers():
    """1.x's layers by 2.x's functions."""
    functional = paddle.nn.functional

    def data(name, shape, append_batch_size=True, dtype="float32", lod_level=0):
        return static.data(name, [-1, *shape] if append_batch_size else shape, dtype, lod_level)

    def embedding(input, size, is_sparse=False, is_distributed=False, padding_idx=None, param_attr=None, dtype="float32"):
        squeezed = paddle.squeeze(input, [-1]) if input.shape[-1] == 1 else input
        return static.nn.embedding(squeezed, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)

    def fill_like(input, shape, dtype, value, input_dim_idx=0, output_dim_idx=0):
        sides = list(shape)
        sides[output_dim_idx] = paddle.shape(input)[input_dim_idx]
        return paddle.full(sides, value, dtype)

    def decay(learning_rate, decay_steps, decay_rate, staircase=False):
        def rate(step):
            passed = step // decay_steps if staircase else step / decay_steps
            return decay_rate**passed

        return Stepped(learning_rate, rate)

    return {
        "data": data,
        "embedding": embedding,
        "elementwise_add": lambda x, y, axis=-1: paddle.add(x, y),
        "elementwise_mul": lambda x, y, axis=-1: paddle.multiply(x, y),
        "elementwise_sub": lambda x, y, axis=-1: paddle.subtract(x, y),
        "exponential_decay": decay,
        "fill_constant_batch_size_like": fill_like,
        "l2_normalize": lambda x, axis, epsilon=1e-12: functional.normalize(x, axis=axis, epsilon=epsilon),
        "matmul": lambda x, y, transpose_x=False, transpose_y=False: paddle.matmul(x, y, transpose_x, transpose_y),
        "reduce_mean": lambda input, dim=None, keep_dim=False: paddle.mean(input, dim, keep_dim),
        "reduce_sum": lambda input, dim=None, keep_dim=False: paddle.sum(input, dim, keepdim=keep_dim),
        "reshape": lambda x, shape: paddle.reshape(x, shape),
        "sigmoid_cross_entropy_with_logits": lambda x, label: functional.binary_cross_entropy_with_logits(
            x, label, reduction="none"
        ),
        "topk": lambda input, k: paddle.topk(input, k),
    }


class Stepped(paddle.optimizer.lr.LambdaDecay):
    """1.x's rates change with each run of the program, without being told."""

    made = []  # noqa: RUF012 (all that there are)

    def __init__(self, learning_rate, rate):
        super().__init__(learning_rate, rate)
        Stepped.made.append(self)


class Executor(static.Executor):
    def run(self, program=None, *args, **kwargs):
        found = super().run(program, *args, **kwargs)
        if kwargs.get("fetch_list"):
            for each in Stepped.made:
                each.step()
        return found


def make_fluid():
    fluid = types.ModuleType("paddle.fluid")
    fluid.layers = types.SimpleNamespace(**layers())
    fluid.io = types.SimpleNamespace(PyReader=reader.PyReader, save_persistables=lambda *args, **kwargs: None)
    fluid.optimizer = types.SimpleNamespace(SGD=paddle.optimizer.SGD)
    given = paddle.nn.initializer
    fluid.initializer = types.SimpleNamespace(
        ConstantInitializer=given.Constant,
        TruncatedNormal=lambda loc, scale: given.TruncatedNormal(loc, scale),
        Uniform=given.Uniform,
    )
    fluid.embedding, fluid.data, fluid.Executor = static.nn.embedding, static.data, Executor
    for name in ("CPUPlace", "ParamAttr", "Program", "core", "program_guard", "global_scope", "unique_name"):
        setattr(fluid, name, getattr(base, name))
    return fluid


paddle.io.DataLoader.from_generator = staticmethod(reader.DataLoader.from_generator)
paddle.fluid = sys.modules["paddle.fluid"] = make_fluid()
if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    if sys.argv[0].endswith("word2vec/train.py"):
        paddle.enable_static()
    runpy.run_path(sys.argv[0], run_name="__main__")
