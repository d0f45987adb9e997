"""Names of tables: every process must give the same ones, so they follow from the order in which modules are made."""

from __future__ import annotations

import weakref

from flota import checks
from flota.admission import Admission
from flota.errors import InvalidArgument
from flota.initializer import Initializer
from flota.nn.table import TableOptions, TableParameter
from flota.rules import Rule

# Tables of living modules: those that give the same name share one.
_tables: weakref.WeakValueDictionary[str, TableParameter] = weakref.WeakValueDictionary()
_made = 0


def reset_names() -> None:
    """Begins anew, as a new process does: for tests, and for scripts that build their model again."""
    global _made
    _made = 0
    _tables.clear()


def table_parameter(
    name: str | None,
    dim: int,
    init: Initializer,
    rule: Rule | None,
    seed: int | None,
    admission: Admission | None = None,
) -> TableParameter:
    """The handle of a table: a new one, or that of the module which has given it this name."""
    global _made
    dim = checks.whole("embedding_dim", dim, 1, 65536)
    if not isinstance(init, Initializer):
        raise InvalidArgument(f"init must be one of flota.initializer, such as Uniform(-0.01, 0.01), not {init!r}")
    if rule is not None and not isinstance(rule, Rule):
        raise InvalidArgument(f"optimizer must be one of flota.rules, such as Adagrad(lr=0.05), not {rule!r}")
    if name is None:
        name = f"embedding_{_made}"
        _made += 1
    options = TableOptions(name, dim, init, seed, rule, admission)
    handle = _tables.get(name)
    # Of a job that is over something may be left, in a notebook above all: it does not keep the next one from the name.
    if handle is None or (handle.job_over and handle.options != options):
        handle = _tables[name] = TableParameter.make(options)
    elif handle.options != options:
        raise InvalidArgument(
            f"another module has the table {name!r} with other settings: {handle.options} there, {options} here"
        )
    return handle
