"""Writes golden/operations.npz: what the reference computes for each case. Runs where the reference is installed:

GLOG_minloglevel=3 python tests/paddle/make_operation_goldens.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from golden_cases import GOLDEN, Case, Sequences, save_goldens
from operation_cases import CASES

import paddle


def named(reference: str) -> Any:
    found = paddle
    for part in reference.split("."):
        found = getattr(found, part)
    return found


def computed(case: Case, arguments: dict[str, Any]) -> list[Any]:
    if callable(case.reference):
        result = case.reference(paddle, **arguments)
    else:
        more = arguments.pop("operands", arguments.pop("args", []))
        first = [arguments.pop("equation")] if case.operation == "einsum" else []
        result = named(case.reference or case.operation)(*first, *more, **arguments)
    results = list(result) if isinstance(result, (list, tuple)) else [result]
    results = [part for each in results for part in (each if isinstance(each, (list, tuple)) else [each])]
    return results[: case.results]


def flat(inputs: dict[str, Any]) -> dict[str, Any]:
    """Each input by its name; those of a list by their number too."""
    made = {}
    for key, value in inputs.items():
        if isinstance(value, list):
            made.update({f"{key}.{i}": each for i, each in enumerate(value)})
        else:
            made[key] = value
    return made


def nested(case: Case, values: dict[str, Any]) -> dict[str, Any]:
    """The opposite."""
    made = {}
    for key, spec in case.inputs.items():
        made[key] = [values[f"{key}.{i}"] for i in range(len(spec))] if isinstance(spec, list) else values[key]
    return made


def trained(case: Case, key: str, value: Any) -> bool:
    numbers = value.values if isinstance(value, Sequences) else value
    return numbers.dtype == np.float32 and key.split(".")[0] not in case.fixed


def at_once(case: Case) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    paddle.disable_static()
    given = flat(case.arguments())
    tensors = {
        key: paddle.to_tensor(value, stop_gradient=not trained(case, key, value)) for key, value in given.items()
    }
    results = computed(case, {**nested(case, tensors), **case.options})
    parts = [
        (each * paddle.to_tensor(case.weights(i, tuple(each.shape))).astype(each.dtype)).sum().astype("float32")
        for i, each in enumerate(results)
        if not each.stop_gradient and "float" in str(each.dtype)
    ]
    if parts:
        paddle.add_n(parts).backward()
    found = {key: tensor.grad.numpy() for key, tensor in tensors.items() if tensor.grad is not None}
    return [each.numpy() for each in results], found


def in_a_program(case: Case) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    paddle.enable_static()
    given = flat(case.arguments())
    main, startup, feed, variables = paddle.static.Program(), paddle.static.Program(), {}, {}
    with paddle.static.program_guard(main, startup):
        for key, value in given.items():
            numbers = value.values if isinstance(value, Sequences) else value
            lod = int(isinstance(value, Sequences))
            variables[key] = paddle.static.data(
                key, [-1, *numbers.shape[1:]] if lod else numbers.shape, numbers.dtype.name, lod_level=lod
            )
            variables[key].stop_gradient = not trained(case, key, value)
            fed = paddle.base.create_lod_tensor(numbers, [list(value.lengths)], paddle.CPUPlace()) if lod else numbers
            feed[key] = fed
        results = computed(case, {**nested(case, variables), **case.options})
        places = paddle.static.Executor()
        places.run(startup)
        first = [np.array(each) for each in places.run(main, feed, results, return_numpy=False)]
        wanted = [key for key, value in given.items() if trained(case, key, value)]
        parts = [
            (each * paddle.assign(case.weights(i, array.shape))).sum()
            for i, (each, array) in enumerate(zip(results, first, strict=True))
            if array.dtype == np.float32
        ]
        if not wanted or not parts:
            return first, {}
        gradients = paddle.static.gradients([paddle.add_n(parts)], [variables[key] for key in wanted])
        values = places.run(main, feed, gradients, return_numpy=False)
    return first, {key: np.array(value) for key, value in zip(wanted, values, strict=True)}


def main() -> None:
    goldens: dict[str, np.ndarray] = {}
    failed = 0
    for case in CASES:
        try:
            results, gradients = (in_a_program if case.programs else at_once)(case)
        except Exception as error:
            failed += 1
            print(f"{case.name}: {type(error).__name__}: {str(error)[-400:]}", file=sys.stderr)
            continue
        goldens.update({f"{case.name}/result/{i}": each for i, each in enumerate(results)})
        goldens.update({f"{case.name}/gradient/{key}": each for key, each in gradients.items()})
    save_goldens(goldens)
    print(f"{len(CASES) - failed} cases, {len(goldens)} arrays: {GOLDEN} {GOLDEN.stat().st_size} bytes")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
