"""A cut through the kill matrix: every victim, moment, mode and fault at least once. `make failures` runs all of it."""

import pytest
from clusterjobs import no_core_files
from failures import Without, run_cell
from matrix import CELLS, Cell

CUT = [
    Cell("worker", "start-up", "async", "kill"),
    Cell("worker", "pull", "sync", "cut"),
    Cell("worker", "save", "geo", "kill"),
    Cell("server", "push", "async", "stop"),
    Cell("server", "restore", "async", "disk"),
    Cell("server 0", "barrier", "sync", "kill"),
    Cell("server 0", "shutdown", "async", "kill"),
    Cell("launcher", "push", "sync", "kill"),
]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    no_core_files()
    return Without(tmp_path_factory.mktemp("without"))


@pytest.mark.parametrize("cell", CUT, ids=lambda cell: cell.name)
@pytest.mark.timeout(150)
def test_a_job_that_a_fault_befalls_ends_with_the_right_parameters(cell, without, tmp_path):
    assert cell in CELLS
    outcome = run_cell(cell, tmp_path / "job", without)
    assert not outcome.error, outcome


def test_the_cut_goes_through_everything():
    for name in ("victim", "moment", "mode", "kind"):
        assert {getattr(cell, name) for cell in CUT} == {getattr(cell, name) for cell in CELLS}
