"""The notebook among the examples: run from top to bottom, and kept without what a run leaves in it."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
MODES = ["sync", "async", "geo"]

pytestmark = pytest.mark.timeout(240)  # a kernel, six trainings, four servers


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What its cells print on standard output, run in a folder of its own."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(variable, str(folder / variable))
        patch.setenv("OMP_NUM_THREADS", "1")  # small arithmetic on a busy machine
        patch.setenv("MPLBACKEND", "agg")
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=110, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error"]
    return "".join(output.text for output in outputs if output.get("name") == "stdout")


def test_the_notebook_learns_alone_and_with_a_server_in_each_mode(printed):
    best = float(re.search(r"who knows the truth has an AUC of (0\.\d{4})", printed)[1])
    tested = re.findall(r"^(\w+): loss 0\.\d{4}, test AUC (0\.\d{4})$", printed, re.MULTILINE)
    assert [mode for mode, _ in tested] == ["async", *MODES, "sync"], "alone, in each mode, and with a server that dies"
    assert all(0.9 * best < float(area) < best for _, area in tested)


def test_a_server_that_dies_in_the_notebook_changes_nothing(printed):
    assert printed.endswith("the same bits: True\n")


def test_the_notebook_has_no_outputs():
    """They would change with each run, and tell of the machine. Editors have 'Clear all outputs' in a menu."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}, "not the version of who ran it last"
    for number, cell in enumerate(notebook["cells"]):
        assert not cell.get("outputs"), f"cell {number} has outputs: clear all of them and save"
        assert cell.get("execution_count") is None, f"cell {number} was saved with a number: clear all outputs"
        assert cell["metadata"] == {}, f"cell {number} has metadata of an editor"


def test_the_notebook_is_a_valid_one():
    nbformat.validate(nbformat.read(NOTEBOOK, as_version=4))
