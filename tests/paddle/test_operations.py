"""Operations give the reference's numbers and gradients, at once and in programs.

`operation_cases` says what they are tried on, `golden/operations.npz` what the reference makes of it
(`make_operation_goldens.py` writes it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from golden_cases import ROWS, Case, Sequences, load_goldens
from operation_cases import CASES

from flota.paddle import mode
from flota.paddle import ops as ops  # makes the operations known
from flota.paddle.graph.building import data
from flota.paddle.graph.executor import Executor
from flota.paddle.graph.program import Program, program_guard
from flota.paddle.graph.variable import Variable, sketches_of
from flota.paddle.jagged import Jagged
from flota.paddle.ops.registry import FUNCTIONS
from flota.paddle.tensor import Tensor

GOLDENS = load_goldens()
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture
def static_mode() -> Iterator[None]:
    mode.enable_static()
    yield
    mode.disable_static()


def applied(case: Case, inputs: dict[str, Any]) -> list[Any]:
    """The results in one list."""
    arguments = {**inputs, **case.options}
    more = arguments.pop("operands", arguments.pop("args", []))
    first = [arguments.pop("equation")] if "equation" in arguments else []
    return flattened(FUNCTIONS[case.operation](*first, *more, **arguments))[: case.results]


def flattened(value: Any) -> list[Any]:
    return [part for each in value for part in flattened(each)] if isinstance(value, (list, tuple)) else [value]


def as_tensor(value: np.ndarray | Sequences, trained: bool) -> Tensor:
    if isinstance(value, Sequences):
        return Tensor(Jagged(torch.tensor(value.values, requires_grad=trained), torch.tensor(value.offsets())))
    return Tensor(torch.tensor(value, requires_grad=trained))


def numbers(value: Any) -> torch.Tensor:
    return value.values if isinstance(value, Jagged) else value


def expected(case: Case, kind: str) -> dict[str, np.ndarray]:
    start = f"{case.name}/{kind}/"
    return {key.removeprefix(start): value for key, value in GOLDENS.items() if key.startswith(start)}


def assert_same(found: np.ndarray, wanted: np.ndarray, what: str) -> None:
    assert found.shape == wanted.shape, what
    assert found.dtype == wanted.dtype, what
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, **CLOSE, err_msg=what)
    else:
        np.testing.assert_array_equal(found, wanted, err_msg=what)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_operation_gives_the_references_numbers_and_gradients(case: Case) -> None:
    gradients = expected(case, "gradient")

    def made(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [made(f"{key}.{i}", each) for i, each in enumerate(value)]
        leaves[key] = as_tensor(value, key in gradients)
        return leaves[key]

    leaves: dict[str, Tensor] = {}
    inputs = {key: made(key, value) for key, value in case.arguments().items()}
    results = [numbers(each.value) for each in applied(case, inputs)]
    wanted = expected(case, "result")
    assert len(results) == len(wanted)
    for i, each in enumerate(results):
        assert_same(each.detach().numpy(), wanted[str(i)], f"result {i}")
    if gradients:
        parts = [
            (each * torch.tensor(case.weights(i, tuple(each.shape)))).sum().float()
            for i, each in enumerate(results)
            if each.requires_grad
        ]
        torch.stack(parts).sum().backward()
    for key, gradient in gradients.items():
        assert_same(numbers(leaves[key].value).grad.numpy(), gradient, f"gradient of {key}")


@pytest.mark.usefixtures("static_mode")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_gives_the_same_and_knew_its_shape(case: Case) -> None:
    program, feed = Program(), {}

    def made(key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [made(f"{key}.{i}", each) for i, each in enumerate(value)]
        feed[key] = (value.values, value.offsets()) if isinstance(value, Sequences) else value
        return given(program, key, value)

    with program_guard(program, Program()):
        variables = applied(case, {key: made(key, value) for key, value in case.arguments().items()})
        found = Executor().run(program, feed, variables, return_numpy=False)
    wanted = expected(case, "result")
    for i, (variable, each) in enumerate(zip(variables, found, strict=True)):
        value = numbers(each.value)
        assert_same(value.numpy(), wanted[str(i)], f"result {i}")
        assert variable.dtype == value.dtype
        assert len(variable.shape) == value.dim()
        assert all(side in (-1, own) for side, own in zip(variable.shape, value.shape, strict=True)), variable


def given(program: Program, name: str, value: np.ndarray | Sequences) -> Variable:
    """An input of the program: sides of ``ROWS`` are the batch's."""
    if isinstance(value, Sequences):
        return data(name, [-1, *value.values.shape[1:]], value.values.dtype, lod_level=1)
    sides = [-1 if side and side % ROWS == 0 else side for side in value.shape]
    if -1 in sides:
        return data(name, sides, value.dtype)
    made = Variable(program, name, sketches_of(sides, torch.from_numpy(value).dtype), stop_gradient=True, is_data=True)
    program.add(made)
    return made


def test_every_case_has_golden_values_and_every_golden_value_a_case() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {key.split("/")[0] for key in GOLDENS} == set(names)


def counts_of(thresholds: int, rows: int = 1) -> dict[str, Tensor]:
    return {key: Tensor(torch.zeros(rows, thresholds + 1, dtype=torch.int64)) for key in ("stat_pos", "stat_neg")}


def clicks(probabilities: list[float], labels: list[int]) -> dict[str, Tensor]:
    return {"input": Tensor(torch.tensor(probabilities).unsqueeze(1)), "label": Tensor(torch.tensor(labels))}


def test_auc_adds_up_batches() -> None:
    auc = FUNCTIONS["auc"]
    first, positive, negative = auc(**clicks([0.9, 0.2], [1, 0]), **counts_of(10), num_thresholds=10)
    assert float(first) == 1.0
    both, positive, negative = auc(
        **clicks([0.1, 0.8], [1, 0]), stat_pos=positive, stat_neg=negative, num_thresholds=10
    )
    assert float(both) == 0.5  # of four pairs two are in order
    assert int(positive.value.sum()) == int(negative.value.sum()) == 2


def test_auc_forgets_batches_that_have_slid_out() -> None:
    auc = FUNCTIONS["auc"]
    counts = counts_of(10, rows=2)
    for probabilities in ([0.1, 0.9], [0.9, 0.1], [0.8, 0.2]):
        found, *new = auc(**clicks(probabilities, [1, 0]), **counts, num_thresholds=10, slide_steps=2)
        counts = dict(zip(counts, new, strict=True))
    assert float(found) == 1.0


def test_auc_of_precision_and_recall_is_not_that_of_roc() -> None:
    # From the highest: hit, miss, hit. Precision 1 up to half of the hits, then from 1/2 to 2/3.
    found, *_ = FUNCTIONS["auc"](**clicks([0.9, 0.7, 0.5], [1, 0, 1]), **counts_of(10), curve="PR", num_thresholds=10)
    assert float(found) == pytest.approx(0.5 * 1 + 0.5 * (1 / 2 + 2 / 3) / 2)


def test_auc_without_one_of_the_kinds_is_zero() -> None:
    found, *_ = FUNCTIONS["auc"](**clicks([0.9, 0.2], [1, 1]), **counts_of(10), num_thresholds=10)
    assert float(found) == 0.0


@pytest.mark.parametrize("axis", [None, [0], [1]])
@pytest.mark.parametrize(("how", "kept"), [("upscale_in_train", 4.0), ("downscale_in_infer", 1.0)])
def test_dropout_drops_along_its_axes_and_scales_the_rest(axis: list[int] | None, how: str, kept: float) -> None:
    torch.manual_seed(0)
    x = Tensor(torch.ones(200, 300))
    dropped = FUNCTIONS["dropout"](x, p=0.75, axis=axis, mode=how).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(kept)}
    assert np.mean(dropped != 0) == pytest.approx(0.25, abs=0.1)
    if axis is not None:
        along = dropped if axis == [0] else dropped.T
        assert (along == along[:, :1]).all()


def test_a_seed_gives_the_same_numbers_again() -> None:
    for name in ("uniform", "gaussian"):
        first, second = (FUNCTIONS[name]([5], seed=7).numpy() for _ in range(2))
        assert (first == second).all()
        assert (FUNCTIONS[name]([5]).numpy() != FUNCTIONS[name]([5]).numpy()).any()


@pytest.mark.usefixtures("static_mode")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("uniform", {"shape": [2, 3], "seed": 1}),
        ("gaussian", {"shape": [2, 3], "seed": 1}),
        ("normal", {"shape": [2, 3]}),
        ("rand", {"shape": [2, 3]}),
        ("randn", {"shape": [2, 3]}),
        ("randint", {"low": 5, "shape": [2, 3]}),
        ("randperm", {"n": 5}),
    ],
)
def test_random_numbers_are_made_in_each_run_of_a_program(name: str, arguments: dict[str, Any]) -> None:
    program = Program()
    with program_guard(program, Program()):
        made = FUNCTIONS[name](**arguments)
        (found,) = Executor().run(program, {}, [made])
    assert found.shape == made.shape


def test_print_shows_the_value_and_its_gradient(capsys: pytest.CaptureFixture[str]) -> None:
    x = Tensor(torch.tensor([1.0, 2.0, 3.0], requires_grad=True))
    FUNCTIONS["print"](x, message="loss", summarize=2).sum().backward()
    assert capsys.readouterr().out.splitlines() == [
        "loss",
        "  - shape: [3]",
        "  - dtype: float32",
        "  - data: [1.0, 2.0]",
        "loss (gradient)",
        "  - shape: [3]",
        "  - dtype: float32",
        "  - data: [1.0, 1.0]",
    ]


def test_a_probability_of_zero_gives_a_finite_loss() -> None:
    p = Tensor(torch.tensor([[0.0, 1.0]], requires_grad=True))
    loss = FUNCTIONS["cross_entropy_of_probabilities"](p, Tensor(torch.tensor([[0]])))
    loss.sum().backward()
    assert np.isfinite(loss.numpy()).all()
    assert np.isfinite(p.gradient()).all()
