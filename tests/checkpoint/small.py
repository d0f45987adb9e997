"""Small checkpoints for the tests, and the command on them."""

import numpy as np

from flota import _core, cli, rules
from flota.checkpoint.writer import CheckpointWriter
from flota.initializer import Uniform
from flota.pages import RowPage, ShardPage

RULE = rules.Adagrad(lr=0.1)


def spec_of(name, dim=2, rule=RULE):
    spec = _core.TableSpec()
    spec.name, spec.dim, spec.seed = name, dim, 7
    spec.rule, spec.init = rule.to_native(), Uniform(-0.5, 0.5).to_native()
    return spec


def dense_spec(name="dense/deep.weight", shape=(2, 3)):
    spec = _core.TableSpec()
    spec.name, spec.kind, spec.shape = name, _core.TableKind.dense, list(shape)
    spec.rule = rules.SGD(lr=0.1).to_native()
    return spec


def page_of(keys, value=1.0, dim=2, slots=1):
    keys = np.asarray(keys, np.int64)
    weights = value + np.arange(len(keys) * dim, dtype=np.float32).reshape(-1, dim)
    counted = np.full(len(keys), 3, np.uint64)
    return RowPage(keys, counted, counted, weights, np.full((len(keys), dim * slots), 0.5, np.float32))


def save(path, keys=range(10), value=1.0, step=5, shards=(0, 1023), tables=("users",), dense=True, file_bytes=1 << 20):
    """Sparse tables of these rows, and a dense parameter."""
    keys = np.asarray(list(keys), np.int64)
    with CheckpointWriter(path, step=step, source={"mode": "sync"}, file_bytes=file_bytes) as writer:
        for name in tables:
            parts = [keys[i : i + 5] for i in range(0, len(keys), 5)]
            writer.add_rows(spec_of(name), [ShardPage(shards, page_of(part, value)) for part in parts])
        if dense:
            whole = np.full((2, 3), value, np.float32)
            writer.add_parameter(dense_spec(), whole, {}, updates=step, last_seen=step)
        writer.publish()


def command(*arguments):
    """``flota checkpoint …``, in this process; returns its status."""
    return cli.main(["checkpoint", *map(str, arguments)])
