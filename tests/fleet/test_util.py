"""What workers do together: alone here, and in a job of three through the launcher."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import flota
from flota.errors import InvalidArgument
from flota.fleet import Fleet


@pytest.fixture
def alone(monkeypatch):
    fleet = Fleet()
    fleet.init(flota.LocalRoleMaker())
    monkeypatch.setattr("flota.util.fleet", fleet)


@pytest.fixture
def as_server(monkeypatch):
    fleet = Fleet()
    fleet.init(flota.UserDefinedRoleMaker(0, flota.Role.SERVER, 1, ["127.0.0.1:6001"]))
    monkeypatch.setattr("flota.util.fleet", fleet)


def test_a_process_alone_is_the_one_worker_of_its_job(alone, capsys):
    flota.util.barrier()
    assert flota.util.get_file_shard(["a", "b"]) == ["a", "b"]
    assert flota.util.all_gather(3) == [3]
    assert flota.util.all_gather(torch.tensor(2.5)) == [2.5]
    (array,) = flota.util.all_gather([[1.0, 2.0]])
    assert array.tolist() == [[1.0, 2.0]]
    assert flota.util.all_reduce([1, 2], "max").tolist() == [1, 2]
    flota.util.print_on_rank("hello", 0)
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: flota.util.all_gather("text"), "all_gather takes numbers and arrays of numbers, not 'text'"),
        (lambda: flota.util.all_gather(np.array([object()])), "all_gather takes numbers"),
        (lambda: flota.util.all_gather(1, "server"), "comm_world must be 'worker', not 'server'"),
        (lambda: flota.util.barrier("all"), "comm_world must be 'worker', not 'all'"),
        (lambda: flota.util.all_reduce(1, "mean"), "mode must be one of sum, min, max, not 'mean'"),
        (lambda: flota.util.print_on_rank("x", 1), "rank must be a whole number from 0 to 0, not 1"),
    ],
)
def test_what_makes_no_sense_is_refused(alone, call, says):
    with pytest.raises(InvalidArgument, match=says):
        call()


def test_servers_have_no_share(as_server):
    for call in (lambda: flota.util.get_file_shard(["a"]), flota.util.barrier, lambda: flota.util.print_on_rank("", 0)):
        with pytest.raises(InvalidArgument, match="is for workers; this process is a server"):
            call()


SCRIPT = """
import json, sys, flota, numpy as np, torch
flota.init()
weight = torch.nn.Parameter(torch.zeros(2))
flota.distributed_optimizer(torch.optim.SGD([weight], lr=0.1), flota.Sync())
if flota.is_server():
    flota.init_server()
    flota.run_server()
    sys.exit()
flota.init_worker()
me = flota.worker_index()
flota.util.barrier()
found = {
    "files": flota.util.get_file_shard(["a", "b", "c", "d"]),
    "numbers": flota.util.all_gather(10 * me),
    "arrays": [part.tolist() for part in flota.util.all_gather(np.full((me, 2), me, dtype=np.int32))],
    "types": [str(part.dtype) for part in flota.util.all_gather(torch.ones(1, dtype=torch.float16))],
    "sum": flota.util.all_reduce([1.0, me]).tolist(),
}
with open(f"found.{me}", "w") as file:
    json.dump(found, file)
flota.util.print_on_rank(f"only {me}", 1)
flota.stop_worker()
"""


def test_three_workers_share_files_and_see_the_same(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "flota.launch", "--server_num=2", "--worker_num=3", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [json.loads((tmp_path / f"found.{me}").read_text()) for me in range(3)]
    assert [each.pop("files") for each in found] == [["a", "b"], ["c"], ["d"]]
    assert found[0] == found[1] == found[2]
    assert found[0] == {
        "numbers": [0, 10, 20],
        "arrays": [[], [[1, 1]], [[2, 2], [2, 2]]],
        "types": ["float16"] * 3,
        "sum": [3.0, 3.0],
    }
    logs = [(tmp_path / "log" / f"workerlog.{me}").read_text() for me in range(3)]
    assert ["only 1" in log for log in logs] == [False, True, False]
