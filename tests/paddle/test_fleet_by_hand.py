"""Jobs whose processes a user starts one by one, 1.x's calls of fleet, and the names that scripts import them by."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flota
import flota.paddle as paddle
from flota import config
from flota.errors import InvalidArgument
from flota.paddle.distributed import fleet as current
from flota.paddle.distributed.role_maker import PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from flota.paddle.distributed.util import all_reduce_into
from flota.paddle.fluid import job
from flota.paddle.modules import LAUNCHERS
from flota.roles import Placement, share_own_secret

# A worker saves what it began with, trains, counts, and brings back what it saved.
SCRIPT = """
import sys
import numpy as np
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

fleet.init(role_maker.PaddleCloudRoleMaker())
x = fluid.data("x", [None, 2])
loss = fluid.layers.mean(fluid.layers.fc(x, 1, param_attr=fluid.ParamAttr(name="weight")))
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(0.5), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = fluid.Executor(fluid.CPUPlace())
    executor.run(fluid.default_startup_program())
    fleet.init_worker()
    weight = lambda: np.array(fluid.global_scope().find_var("weight").get_tensor()).ravel()
    begun = weight()
    fleet.save_persistables(executor, sys.argv[1])
    fleet.barrier_worker()
    executor.run(feed={"x": np.ones((4, 2), "float32")}, fetch_list=[loss])
    moved = weight() - begun
    total = np.zeros((1, 2), "int64")
    fleet.all_reduce_worker(np.array([[1, fleet.worker_index()]]), total)
    fleet.load_persistables(executor, sys.argv[1], fleet.main_program)
    print("moved", *moved.round(4), "total", *total.ravel(), "back", np.allclose(weight(), begun))
    print("files", *fleet.split_files(["a", "b", "c"]), "at", fleet.server_endpoints(to_string=True))
    fleet.stop_worker()
"""


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """No job, no secret, and a home of its own, where one is made."""
    for name in list(os.environ):
        if name.startswith(("FLOTA_SECRET", "PADDLE_", "OMPI_")) or name in ("TRAINING_ROLE", "POD_IP"):
            monkeypatch.delenv(name)
    # What a test's process sets itself is gone after it.
    monkeypatch.setenv(config.SECRET_FILE, "")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return monkeypatch


def free_ports(count):
    with contextlib.ExitStack() as held:
        found = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in found]


@contextlib.contextmanager
def started(command, variables):
    processes = []
    try:
        for each in variables:
            processes.append(
                subprocess.Popen(
                    command, env={**os.environ, **each}, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# --- a job on one host, without a launcher ---


def test_processes_of_one_user_on_one_host_need_no_secret_of_their_own(environment, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ports = free_ports(2)
    servers = f"127.0.0.1:{ports[0]},localhost:{ports[1]}"
    shared = {"PADDLE_PSERVERS_IP_PORT_LIST": servers, "PADDLE_TRAINERS_NUM": "2"}
    variables = [
        *(
            {**shared, "TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": str(port)}
            for host, port in zip(("127.0.0.1", "localhost"), ports, strict=True)
        ),
        *({**shared, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} for i in range(2)),
    ]
    command = [sys.executable, "-m", "flota.paddle", str(script), str(tmp_path / "saved")]
    with started(command, variables) as processes:
        outputs = [process.communicate(timeout=100)[0] for process in reversed(processes)][::-1]
        assert [process.returncode for process in processes] == [0] * 4, "\n".join(outputs)
    for output, files in zip(outputs[2:], ("a b", "c"), strict=True):
        assert "moved -0.5 -0.5 total 2 1 back True" in output
        assert f"files {files} at {servers}" in output
    assert (tmp_path / "home" / ".config" / "flota" / "secret").stat().st_mode & 0o077 == 0


def test_a_server_that_others_can_reach_needs_a_secret(environment):
    place = Placement(Role.SERVER, 0, 1, ("127.0.0.1:6001", "10.0.0.1:6001"))
    share_own_secret(place)
    assert not config.has_secret()
    share_own_secret(Placement(Role.WORKER, 0, 1, (), local=True))
    assert not config.has_secret()
    with pytest.raises(InvalidArgument, match="no secret"):
        config.job_secret()


def test_a_secret_that_was_set_is_the_jobs(environment, tmp_path):
    environment.setenv(config.SECRET, "a secret of this test")
    share_own_secret(Placement(Role.SERVER, 0, 1, ("127.0.0.1:6001",)))
    assert config.job_secret() == "a secret of this test"
    assert not (tmp_path / "home" / ".config").exists()


@pytest.mark.parametrize("init", [job.init, current.init], ids=["1.x", "2.x"])
def test_whoever_says_who_a_process_is_the_secret_is_shared(environment, tmp_path, init):
    init(UserDefinedRoleMaker(current_id=0, role=Role.SERVER, worker_num=1, server_endpoints=["127.0.0.1:6001"]))
    assert config.job_secret() == (tmp_path / "home" / ".config" / "flota" / "secret").read_text().strip()


# --- calls ---


def test_endpoints_are_a_list_or_one_text(environment):
    servers, workers = ["127.0.0.1:6001", "127.0.0.1:6002"], ["127.0.0.1:7001"]
    role = UserDefinedRoleMaker(
        current_id=0, role=Role.WORKER, server_endpoints=servers, worker_endpoints=workers, is_collective=False
    )
    for fleet in (job, current):
        fleet.init(role)
        assert fleet.server_endpoints() == servers
        assert fleet.server_endpoints(to_string=True) == "127.0.0.1:6001,127.0.0.1:6002"
        assert fleet.worker_endpoints(True) == "127.0.0.1:7001"
    assert {"split_files", "all_reduce_worker", "load_persistables", "init_worker"} <= set(dir(job))


@pytest.mark.parametrize("output", [[0, 0, 0, 0], np.zeros((2, 2)), np.zeros(4, "int64")], ids=["list", "2", "1"])
def test_what_is_reduced_fills_what_is_there(environment, output):
    flota.init(PaddleCloudRoleMaker())  # alone
    all_reduce_into(output, [[1, 2], [3, 4]])
    assert np.ravel(output).tolist() == [1, 2, 3, 4]


def test_what_another_program_saved_is_not_loaded_into_it():
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        loss = paddle.mean(paddle.static.nn.fc(paddle.static.data("x", [None, 2]), 1))
        current.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
    paddle.disable_static()
    with pytest.raises(InvalidArgument, match="trains another program"):
        job.load_persistables(None, "saved", paddle.static.Program())


# --- names ---


def test_every_spelling_of_an_import_gives_the_same():
    code = """
    from flota.paddle.modules import install; install()
    from paddle.fluid.incubate.fleet.base import role_maker
    from paddle.distributed.fleet.base import role_maker as second
    import paddle.distributed.fleet.base.role_maker as third
    import paddle.fluid.incubate.fleet.base.role_maker as fourth
    from paddle.distributed.fleet.base.role_maker import PaddleCloudRoleMaker
    from paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
    from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory
    import paddle, flota
    assert role_maker is second is third is fourth
    assert role_maker.PaddleCloudRoleMaker is PaddleCloudRoleMaker
    assert paddle.distributed.fleet.DistributedStrategy is DistributedStrategy
    assert StrategyFactory is flota.StrategyFactory
    assert paddle.fluid.incubate.fleet.base.role_maker is role_maker
    for wrong in ("from paddle.distributed.fleet.base import role_makers", "import paddle.fluid.incubate.flet"):
        try:
            exec(wrong)
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "role_makers" in done.stdout
    assert re.search(r"no paddle.fluid.incubate.flet: did you mean paddle.fluid.incubate.fleet\?", done.stdout)


@pytest.mark.parametrize("module", sorted(LAUNCHERS))
def test_every_launcher_starts_a_job(environment, tmp_path, module):
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "print(os.environ['TRAINING_ROLE'])\n"
        "time.sleep(60 * (os.environ['TRAINING_ROLE'] == 'PSERVER'))\n"
    )
    command = [sys.executable, "-m", "flota.paddle", "-m", module, "--server_num=1", "--worker_num=1", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "log" / "workerlog.0").read_text() == "TRAINER\n"
