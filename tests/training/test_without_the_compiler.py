"""torch's optimizers, in a process that compiles nothing and in one that does."""

import json
import subprocess
import sys

SCRIPT = """
import json, sys
import torch
if sys.argv[1] == "flota":
    import flota.fleet
torch.set_num_threads(1)
KINDS = [torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.Adam, torch.optim.AdamW,
         torch.optim.Adamax, torch.optim.Rprop, torch.optim.ASGD, torch.optim.NAdam, torch.optim.RAdam,
         torch.optim.Adadelta, torch.optim.SparseAdam]


def steps(kind, compiled, **options):
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3))
    sparse = kind is torch.optim.SparseAdam
    optimizer = kind([weight], lr=0.1, **options)
    seen = []
    optimizer.register_step_post_hook(lambda *_: seen.append(torch.is_grad_enabled()))

    def step():
        optimizer.step()
        optimizer.zero_grad()

    step = torch.compile(step, backend="eager") if compiled else step
    for turn in range(3):
        rows = torch.nn.functional.embedding(torch.tensor([turn, 1]), weight, sparse=sparse)
        (rows ** 3).sum().backward()
        step()
    other = kind([weight], lr=0.3)
    other.load_state_dict(optimizer.state_dict())
    return weight.tolist(), seen, other.param_groups[0]["lr"], torch.is_grad_enabled()


def differentiated():
    start = torch.tensor([1.0, 2.0], requires_grad=True)
    weight = start.clone()
    optimizer = torch.optim.SGD([weight], lr=0.1, differentiable=True)
    weight.grad = start ** 2
    optimizer.step()
    return torch.autograd.grad(weight.sum(), start)[0].tolist()


told = {"plain": [steps(kind, False) for kind in KINDS], "differentiated": differentiated()}
told["loaded"] = "torch._dynamo" in sys.modules
if sys.argv[2] == "compile":
    from torch._dynamo.utils import counters
    told["compiled"] = [steps(kind, True) for kind in KINDS]
    told["breaks"] = sum(counters["graph_break"].values())
    told["graphs"] = counters["stats"]["unique_graphs"]
    told["again"] = [steps(kind, False) for kind in KINDS]
print(json.dumps(told))
"""


def run(*arguments):
    done = subprocess.run([sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_optimizers_compute_the_same_without_the_compiler_and_when_it_comes_later():
    alone, with_flota = run("torch", "compile"), run("flota", "compile")
    assert alone.pop("loaded")
    assert not with_flota.pop("loaded"), "torch has other ways to its compiler: see flota.optim.eager"
    assert with_flota == alone
    assert alone["graphs"] > 0
    assert alone["again"] == alone["plain"]


def test_a_process_that_had_the_compiler_before_keeps_it():
    script = """
import torch, torch._dynamo
before = torch.optim.Adam.step
import flota.fleet
assert torch.optim.Adam.step is before
torch.optim.Adam([torch.nn.Parameter(torch.zeros(2))]).step()
"""
    subprocess.run([sys.executable, "-c", script], timeout=60, check=True)
