"""Names that no other variable has: fc_0, fc_1, … as scripts and checkpoints know them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Operations whose results' names begin otherwise. Layers count by the same names: the nn.Linear that is made after
# another one was called is linear_2.
_LAYER_OF = {
    "add": "elementwise_add",
    "arange": "range",
    "broadcast_to": "expand",
    "chunk": "split",
    "diag": "diag_v2",
    "divide": "elementwise_div",
    "floor_divide": "elementwise_floordiv",
    "full": "fill_constant",
    "isfinite": "isfinite_v2",
    "isinf": "isinf_v2",
    "isnan": "isnan_v2",
    "lookup_table": "embedding",
    "lookup_table_v2": "embedding",
    "matmul": "matmul_v2",
    "maximum": "elementwise_max",
    "minimum": "elementwise_min",
    "mod": "elementwise_mod",
    "multiply": "elementwise_mul",
    "neg": "scale",
    "nonzero": "where_index",
    "one_hot": "one_hot_v2",
    "ones": "fill_constant",
    "ones_like": "full_like",
    "pow": "elementwise_pow",
    "prod": "reduce_prod",
    "remainder": "elementwise_mod",
    "reshape": "reshape2",
    "sequence_first_step": "sequence_pool",
    "sequence_last_step": "sequence_pool",
    "subtract": "elementwise_sub",
    "topk": "top_k_v2",
    "unsqueeze": "unsqueeze2",
    "zeros": "fill_constant",
    "zeros_like": "full_like",
}


class _Names:
    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.counts: Counter[str] = Counter()


_current = _Names()


def generate(key: str) -> str:
    """The next name that begins with ``key``."""
    number = _current.counts[key]
    _current.counts[key] += 1
    return f"{_current.prefix}{key}_{number}"


def of_results(operation: str) -> str:
    """What the names of an operation's results begin with: scripts fetch mean_0.tmp_0."""
    return generate(_LAYER_OF.get(operation, operation))


@contextmanager
def guard(new_generator: str | bytes | None = None) -> Iterator[None]:
    """Counts anew inside; ``new_generator`` goes before every name."""
    global _current
    prefix = new_generator.decode() if isinstance(new_generator, bytes) else new_generator or ""
    before, _current = _current, _Names(prefix)
    try:
        yield
    finally:
        _current = before


def switch(new_generator: Any = None) -> Any:
    """Counts by another generator from here on, anew if none is given; returns the one before."""
    global _current
    before, _current = _current, new_generator if isinstance(new_generator, _Names) else _Names()
    return before


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Says which part of a model operations belong to, for those who read the script: no name follows from it."""
    yield
