"""No code travels: nothing in the package unpickles, or executes, what came over the wire or from a disk."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python" / "flota"

# Modules that turn bytes into objects of any class.
BANNED_MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
# Functions that run text, and those that may unpickle unless they are told not to.
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
UNPICKLERS = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}
PICKLERS = {
    "torch.save", "torch.jit.load", "torch.package.PackageImporter", "torch.export.load", "torch.hub.load",
    "torch.distributed.all_gather_object", "torch.distributed.broadcast_object_list", "pd.read_pickle",
    "yaml.load", "yaml.load_all", "yaml.full_load",
    "yaml.unsafe_load", "yaml.unsafe_load_all", "yaml.full_load_all",
}  # fmt: skip
# mpi4py's functions with small letters pickle what they carry.
MPI_OBJECTS = {"allgather", "bcast", "alltoall"}

# File and what it may do, with the reason.
ALLOWED = {
    # The front end writes a function out of operations by name and its own templates, and compiles that text: it is
    # this process's own, and no name or number in it comes from anywhere but the program that the script built.
    ("paddle/graph/compiled.py", "exec"),
    ("paddle/graph/compiled.py", "compile"),
    # Who asks `flota checkpoint convert` for a .pt file wants torch's own format: tensors by name, and nothing else in
    # it, which torch.load(weights_only=True) reads. flota never reads one in any other way.
    ("checkpoint/commands/export.py", "torch.save"),
}


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def findings(text):
    """(line, what) of each thing that may run foreign code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] in BANNED_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in BANNED_MODULES | {"yaml"}:
            yield node.lineno, node.module  # yaml only as a whole, so that its functions have their full names
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            keyword, wanted = UNPICKLERS.get(name, (None, None))
            said = [k.value for k in node.keywords if k.arg == keyword]
            safe = bool(said) and isinstance(said[0], ast.Constant) and said[0].value is wanted
            by_method = isinstance(node.func, ast.Attribute) and node.func.attr in MPI_OBJECTS
            if name in BANNED_CALLS | PICKLERS or (keyword and not safe) or by_method:
                yield node.lineno, name or node.func.attr
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield node.value.lineno, "allow_pickle"


def test_nothing_in_the_package_runs_foreign_code():
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = str(file.relative_to(PACKAGE))
        for line, what in findings(file.read_text()):
            if (name, what) not in ALLOWED:
                found[f"{name}:{line}"] = what
    assert found == {}


def test_every_exception_is_needed():
    used = {
        (str(file.relative_to(PACKAGE)), what)
        for file in PACKAGE.rglob("*.py")
        for _, what in findings(file.read_text())
    }
    assert used >= ALLOWED, ALLOWED - used


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "from yaml import load", "def f():\n    import marshal",
        "torch.load(file)", "torch.load(file, weights_only=False)", "torch.load(file, weights_only=trust)",
        "yaml.load(text)", "yaml.unsafe_load(text)",
        "np.load(file)", "np.load(file, allow_pickle=True)", "np.save(file, array, allow_pickle=True)",
        "eval(text)", "exec(text)", "torch.save(model, file)", "comm.COMM_WORLD.allgather(mine)",
    ],
)  # fmt: skip
def test_it_is_caught(text):
    assert list(findings(text))


@pytest.mark.parametrize(
    "text",
    [
        "torch.load(file, weights_only=True)", "np.load(file, allow_pickle=False)", "model.eval()",
        "safetensors.torch.load(data)", "world.Allgather(mine, told)", "re.compile(text)", "json.loads(text)",
        "import yaml", "yaml.safe_load(text)",
    ],
)  # fmt: skip
def test_what_is_safe_passes(text):
    assert not list(findings(text))
