"""Lookups of a program's tables: those of one table are made together, and where their rows are only put beside each
other, they are looked up in that order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from flota.nn.batches import Unshared
from flota.nn.lookup import Looked, look_up
from flota.nn.store import KeyRules
from flota.nn.table import TableParameter
from flota.paddle.graph.program import Operator
from flota.paddle.graph.variable import ParameterVariable, Variable
from flota.paddle.jagged import Jagged

LOOKUPS = ("lookup_table", "lookup_table_v2")


@dataclass
class Lookups:
    """Lookups of one table that are made together."""

    table: str
    operators: list[Operator]
    # Their rows beside each other, where that is all that becomes of them, and what is done to each before.
    joined: Variable | None = None
    steps: list[list[Operator]] = field(default_factory=list)

    def chains(self) -> list[list[Callable[[Any], Any]]]:
        """For each lookup, what is done to its rows before they are joined."""
        return [[_call(step) for step in steps] for steps in self.steps]

    def inputs(self) -> Iterator[Variable]:
        for operator in self.operators:
            yield operator.arguments["ids"]

    def outputs(self) -> Iterator[Variable]:
        for operator in self.operators:
            yield operator.results


def table_of(operator: Operator) -> ParameterVariable | None:
    """The table that an operation looks rows up in, if it does."""
    if operator.type not in LOOKUPS:
        return None
    weight = operator.arguments["weight"]
    return weight if isinstance(weight, ParameterVariable) and weight.attributes.table else None


def lookups_together(operators: list[Operator]) -> list[Operator | Lookups]:
    """Lookups of one table and one padding become one, where the first of them stands; what their ids need is moved
    before it. A lookup whose ids depend on another's rows stays where it is."""
    groups: dict[tuple[str, Any], list[Operator]] = defaultdict(list)
    made_by = {output.name: operator for operator in operators for output in operator.outputs()}
    for operator in operators:
        table = table_of(operator)
        if table is not None and not _needs_a_lookup(operator.arguments["ids"], made_by):
            groups[table.name, operator.arguments.get("padding_idx")].append(operator)
    first = {id(group[0]): Lookups(key[0], group) for key, group in groups.items()}
    together = {id(operator) for group in groups.values() for operator in group}
    result: list[Operator | Lookups] = []
    placed: set[int] = set()

    def place(operator: Operator) -> None:
        """The operation, after all that it needs."""
        if id(operator) in placed:
            return
        placed.add(id(operator))
        for variable in operator.inputs():
            if variable.name in made_by and made_by[variable.name] is not operator:
                place(made_by[variable.name])
        result.append(operator)

    for operator in operators:
        lookups = first.get(id(operator))
        if lookups is not None:
            for ids in lookups.inputs():
                if ids.name in made_by:
                    place(made_by[ids.name])
            result.append(lookups)
        elif id(operator) in together:
            continue
        elif table_of(operator) is not None and id(operator) not in placed:
            placed.add(id(operator))
            result.append(Lookups(operator.arguments["weight"].name, [operator]))
        elif id(operator) not in placed:
            placed.add(id(operator))
            result.append(operator)
    return result


def _needs_a_lookup(variable: Variable, made_by: Mapping[str, Operator]) -> bool:
    seen: set[str] = set()
    stack = [variable.name]
    while stack:
        name = stack.pop()
        if name in seen or name not in made_by:
            continue
        seen.add(name)
        operator = made_by[name]
        if table_of(operator) is not None:
            return True
        stack += [each.name for each in operator.inputs()]
    return False


def _looked_up(
    table: TableParameter,
    parts: Sequence[torch.Tensor],
    rules: KeyRules,
    train: bool,
    samples: int,
    owners: Callable[[], torch.Tensor],
) -> Looked:
    if table.device.type == "cpu":
        return look_up(table, parts, rules, train, samples, owners)
    with torch.device("cpu"):  # a program's values are made on its GPU; what stores make lies on the host
        return look_up(table, parts, rules, train, samples, owners)


def _owners(ids: Sequence[torch.Tensor | Jagged]) -> torch.Tensor:
    """Of all ids, one after another: the samples that they are of."""

    def owners(each: torch.Tensor | Jagged) -> torch.Tensor:
        if isinstance(each, Jagged):
            width = each.values.numel() // max(each.values.shape[0], 1)
            return each.members().cpu().repeat_interleave(width)
        return torch.arange(each.shape[0], device="cpu").repeat_interleave(each.numel() // max(each.shape[0], 1))

    return torch.cat([owners(each) for each in ids])


def look_up_together(
    table: TableParameter, ids: Sequence[torch.Tensor | Jagged], squeezes: Sequence[bool], rules: KeyRules, train: bool
) -> list[torch.Tensor | Jagged]:
    """The rows of each of ``ids``. ``squeezes``: a last side of one is the row's."""
    flat = [each.values if isinstance(each, Jagged) else each for each in ids]
    first = ids[0]
    samples = first.count if isinstance(first, Jagged) else first.shape[0]
    looked = _looked_up(table, flat, rules, train, samples, lambda: _owners(ids))
    rows = torch.split(looked.gathered(), [part.numel() for part in flat])
    found: list[torch.Tensor | Jagged] = []
    for each, part, squeeze, own in zip(ids, flat, squeezes, rows, strict=True):
        shape = part.shape[:-1] if squeeze and part.dim() > 1 and part.shape[-1] == 1 else part.shape
        shaped = own.reshape(*shape, own.shape[-1])
        found.append(each.with_values(shaped) if isinstance(each, Jagged) else shaped)
    return found


# --- rows beside each other ---

# The usual beginning of a click-through model: concat([reshape(sequence_pool(embedding(ids), "sum"), [-1, dim]), …], 1)


def lookups_joined(operators: list[Operator | Lookups], wanted: Sequence[str]) -> list[Operator | Lookups]:
    """Lookups of which every row is only put beside the others' become one value."""
    users: dict[str, list[Operator]] = defaultdict(list)
    for each in operators:
        for variable in each.inputs():
            if isinstance(each, Operator):
                users[variable.name].append(each)
    gone: set[int] = set()
    replaced: dict[int, Operator] = {}
    for each in operators:
        if isinstance(each, Lookups) and len(each.operators) > 1:
            steps, concat = _joined_in(each, users, set(wanted))
            if concat is None or id(concat) in replaced:
                continue
            each.steps = steps
            each.joined, replaced[id(concat)] = _with_joined(each, concat)
            gone.update(id(step) for chain in steps for step in chain)
    return [
        replaced.get(id(each), each) if isinstance(each, Operator) else each
        for each in operators
        if id(each) not in gone
    ]


def _joined_in(
    lookups: Lookups, users: Mapping[str, list[Operator]], wanted: set[str]
) -> tuple[list[list[Operator]], Operator | None]:
    """What is done to each lookup's rows, and the concat that then takes them, one after another."""
    chains: list[list[Operator]] = []
    ends: list[Operator] = []
    last: list[str] = []
    for operator in lookups.operators:
        value: Variable = operator.results
        chain: list[Operator] = []
        while True:
            used = users.get(value.name, [])
            if value.name in wanted or len(used) != 1 or value.stop_gradient:
                return [], None
            if used[0].type == "concat":
                break
            if not _is_step(used[0], value):
                return [], None
            chain.append(used[0])
            value = used[0].results
        if len(value.shape) != 2 or used[0].arguments.get("axis") not in (1, -1):
            return [], None
        chains.append(chain)
        ends.append(used[0])
        last.append(value.name)
    parts = [part.name for part in ends[0].arguments["x"]]
    begin = parts.index(last[0])
    consecutive = parts[begin : begin + len(last)] == last and len(set(last)) == len(last)
    if any(end is not ends[0] for end in ends) or not consecutive:
        return [], None
    return chains, ends[0]


def _is_step(operator: Operator, value: Variable) -> bool:
    """Whether it leaves a row of one id as it is."""
    if operator.type == "sequence_pool":
        return not set(operator.arguments) - {"input", "pool_type", "is_test"}
    if operator.type == "reshape":
        return list(operator.arguments["shape"]) == [-1, value.shape[-1]] and not value.lod_level
    return False


def _with_joined(lookups: Lookups, concat: Operator) -> tuple[Variable, Operator]:
    """The value that stands for all their rows, and the concat that takes it in their place."""
    parts = list(concat.arguments["x"])
    ends = [
        chain[-1].results if chain else own.results for chain, own in zip(lookups.steps, lookups.operators, strict=True)
    ]
    begin = next(place for place, part in enumerate(parts) if part is ends[0])
    joined = Variable(concat.results.program, f"{concat.results.name}.joined", ends[0].sketches)
    parts[begin : begin + len(ends)] = [joined]
    return joined, Operator(concat.operation, {**concat.arguments, "x": parts}, concat.results)


def _call(step: Operator) -> Callable[[Any], Any]:
    (name,) = (name for name, value in step.arguments.items() if isinstance(value, Variable))
    kernel, others = step.kernel(), {key: value for key, value in step.arguments.items() if key != name}
    return lambda value: kernel(**{name: value}, **others)


def look_up_joined(
    table: TableParameter,
    ids: Sequence[torch.Tensor | Jagged],
    squeezes: Sequence[bool],
    rules: KeyRules,
    train: bool,
    chains: Sequence[Sequence[Callable[[Any], Any]]],
    known: torch.Tensor | None,
) -> torch.Tensor:
    """The rows of all ids beside each other. Where each sample has one id of each, they are gathered in that order;
    else each lookup's rows go through its chain. ``known``: the ids as one tensor, a row each, where it is known that
    each sample has one of each."""
    first = ids[0]
    samples = first.count if isinstance(first, Jagged) else first.shape[0]
    if known is not None:
        flat = [known.reshape(-1)]
    elif all(_one_id_each(each, samples) for each in ids):
        flat = [each.values if isinstance(each, Jagged) else each for each in ids]
    else:
        parts = look_up_together(table, ids, squeezes, rules, train)
        for place, chain in enumerate(chains):
            for step in chain:
                parts[place] = step(parts[place])
        return torch.cat(parts, 1)  # type: ignore[arg-type]
    looked = _looked_up(
        table, flat, rules, train, samples, lambda: torch.arange(samples, device="cpu").repeat(len(ids))
    )
    looked.places = looked.places.reshape(len(ids), samples).t().reshape(-1)
    rows = looked.gathered()
    return rows.reshape(samples, len(ids) * rows.shape[-1])


def ids_together(feed: Mapping[str, Any], names: tuple[str, ...]) -> torch.Tensor | None:
    """These of the fed ids as one tensor, if whoever read them has laid them so."""
    return feed.rows(names) if isinstance(feed, Unshared) else None


def _one_id_each(ids: torch.Tensor | Jagged, samples: int) -> bool:
    if isinstance(ids, Jagged):
        return ids.one_each() and ids.values.numel() == samples
    return ids.shape[0] == samples and ids.numel() == samples
