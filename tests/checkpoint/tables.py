"""Tables for the tests: some of every rule, filled, and what is in them."""

import contextlib

import numpy as np

from flota import _core, rules
from flota.client import Client
from flota.initializer import Normal, Uniform

SECRET = "a secret for the tests of checkpoints"

RULES = {
    "SGD": rules.SGD(lr=0.1),
    "Momentum": rules.Momentum(lr=0.1, momentum=0.9),
    "Adagrad": rules.Adagrad(lr=0.1, initial_accumulator_value=0.5),
    "RMSProp": rules.RMSProp(lr=0.1),
    "RMSProp-all": rules.RMSProp(lr=0.1, momentum=0.9, centered=True),
    "PaddleRMSProp-all": rules.PaddleRMSProp(lr=0.1, momentum=0.9, centered=True),
    "Adam": rules.Adam(lr=0.1, steps="push"),
    "LazyAdam": rules.LazyAdam(lr=0.1),
    "AdamW-amsgrad": rules.AdamW(lr=0.1, amsgrad=True),
    "Adamax": rules.Adamax(lr=0.1),
    "PaddleAdamax": rules.PaddleAdamax(lr=0.1),
    "Lamb": rules.Lamb(lr=0.1),
    "FTRL": rules.FTRL(lr=0.1, l1=0.01, initial_accumulator_value=0.25),
}


@contextlib.contextmanager
def servers(count, checkpoint=None, tables=None):
    """A client of so many servers in this process, restored from a checkpoint, or from some of its tables."""
    from flota.checkpoint.restore import restore_server

    made = []
    try:
        for index in range(count):
            options = _core.ServerOptions()
            options.secret, options.index, options.count = SECRET, index, count
            made.append(_core.Server.make(options))
            if checkpoint is not None:
                restore_server(made[-1], checkpoint, tables)
            made[-1].listen()
        with Client([server.endpoint for server in made], secret=SECRET, timeout=20) as client:
            yield client
    finally:
        for server in made:
            server.stop()


def make(client, min_block_size=16):
    """A table of every rule: sparse (but for Lamb) and dense, of several blocks, and odd ones."""
    tables = {}
    for name, rule in RULES.items():
        if name != "Lamb":
            tables[f"rows/{name}"] = client.create_sparse_table(f"rows/{name}", dim=3, rule=rule, init=Uniform(-1, 1))
        tables[f"dense/{name}"] = client.create_dense_table(
            f"dense/{name}", shape=(7, 9), rule=rule, init=Normal(), min_block_size=min_block_size
        )
    tables["number"] = client.create_dense_table("number", shape=(), rule=RULES["Adam"])
    tables["half"] = client.create_sparse_table("half", dim=5, rule=RULES["Adagrad"], storage="bfloat16", seed=-1)
    tables["empty"] = client.create_sparse_table("empty", dim=2, rule=RULES["Adam"])
    return tables


def push(tables, step):
    """The same gradients whoever pushes them, and other ones in each step."""
    for place, (name, table) in enumerate(sorted(tables.items())):
        random = np.random.default_rng([place, step])
        if name == "empty":
            continue
        if hasattr(table, "dim"):
            keys = np.concatenate([random.integers(-(1 << 63), 1 << 62, 40), np.arange(50)])
            table.push(keys, random.standard_normal((90, table.dim)).astype(np.float32), step=step)
        else:
            table.push(np.array(random.standard_normal(table.shape), dtype=np.float32), step=step)


def contents(table):
    """Everything in a table, to be compared: rows by key, or the parameter put together from its blocks."""
    if hasattr(table, "dim"):
        return {
            int(key): tuple(column[i].tobytes() for column in (page.updates, page.last_seen, page.weights, page.state))
            for page in table.export()
            for i, key in enumerate(page.keys)
        }
    pages = list(table.export())
    slots = [np.concatenate([page.weights[0] for page in pages])]
    widths = [page.weights.shape[1] for page in pages]
    for slot in range(pages[0].state.shape[1] // widths[0]):
        parts = zip(pages, widths, strict=True)
        slots.append(np.concatenate([page.state[0][slot * width : (slot + 1) * width] for page, width in parts]))
    counters = {(int(page.updates[0]), int(page.last_seen[0])) for page in pages}
    return [slot.tobytes() for slot in slots], counters


def all_contents(tables):
    return {name: contents(table) for name, table in tables.items()}
