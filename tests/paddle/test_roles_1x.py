"""Role makers and strategies as Paddle scripts write them; the job that MPI starts."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import flota
from flota.errors import InvalidArgument
from flota.paddle.distributed import role_maker
from flota.paddle.distributed.role_maker import (
    GeneralRoleMaker,
    MPISymetricRoleMaker,
    PaddleCloudRoleMaker,
    Role,
    UserDefinedRoleMaker,
)
from flota.paddle.fluid import job, transpiler
from flota.strategy import Async, DistributeTranspilerConfig, Geo, StrategyFactory, Sync

CLUSTER = Path(__file__).parent / "documents" / "cluster"
SERVERS = ["127.0.0.1:6001", "127.0.0.1:6002"]
WORKERS = ["127.0.0.1:7001", "127.0.0.2:7001", "127.0.0.2:7002"]


@pytest.fixture
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PADDLE_", "OMPI_")) or name in ("TRAINING_ROLE", "POD_IP"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("FLOTA_SECRET", "the secret of these tests, long enough")
    return monkeypatch


# --- role makers ---


@pytest.mark.parametrize(
    "role",
    [
        UserDefinedRoleMaker(1, Role.SERVER, 3, SERVERS),
        UserDefinedRoleMaker(current_id=1, role=Role.SERVER, worker_num=3, server_endpoints=SERVERS),
        UserDefinedRoleMaker(
            is_collective=False, init_gloo=True, path="/tmp/gloo", current_id=1, role=2, server_endpoints=SERVERS,
            worker_endpoints=WORKERS,
        ),
        UserDefinedRoleMaker(
            False, False, current_id=1, role=Role.SERVER, server_endpoints=SERVERS, worker_endpoints=WORKERS
        ),
    ],
    ids=["1.x", "1.x by name", "2.x by name", "2.x"],
)  # fmt: skip
def test_both_forms_of_a_user_defined_role(role):
    role.generate_role()
    assert (role.is_server(), role.is_worker(), role.is_first_worker()) == (True, False, False)
    assert (role.server_index(), role.worker_index(), role.role_id()) == (1, -1, 1)
    assert (role.server_num(), role.worker_num()) == (2, 3)
    assert role.get_pserver_endpoints() == SERVERS
    assert role._server_index() == 1
    assert role._get_pserver_endpoints() == SERVERS


def test_a_role_says_who_it_is():
    role = UserDefinedRoleMaker(current_id=0, role=Role.WORKER, server_endpoints=SERVERS, worker_endpoints=WORKERS)
    assert role.to_string() == (f"role: 1, current_id: 0, worker_endpoints: {WORKERS}, server_endpoints: {SERVERS}")
    assert role._is_first_worker()
    assert role._node_num() == 2


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: UserDefinedRoleMaker(0, Role.HETER_WORKER, 1, SERVERS), "no heterogeneous workers"),
        (lambda: UserDefinedRoleMaker(0, Role.WORKER, 1, SERVERS, curent_id=0), "did you mean 'current_id'"),
        (lambda: UserDefinedRoleMaker(0, Role.WORKER, 1, SERVERS, current_id=5), "given current_id twice"),
        (lambda: UserDefinedRoleMaker(True, False), "parameter servers only"),
        (lambda: PaddleCloudRoleMaker(is_collective=True), "parameter servers only"),
        (lambda: PaddleCloudRoleMaker(init_glo=True), "did you mean 'init_gloo'"),
        (lambda: GeneralRoleMaker(run_timeout_seconds=3), "set FLOTA_TIMEOUT"),
        (lambda: GeneralRoleMaker(use_ps_gpu=True), "tables live in the servers' memory"),
    ],
)
def test_a_role_maker_refuses_what_it_does_not_know(make, says):
    with pytest.raises(InvalidArgument, match=says):
        make()


def test_the_general_role_maker_counts_endpoints_and_takes_a_servers_number(environment):
    environment.setenv("PADDLE_PSERVERS_IP_PORT_LIST", ",".join(SERVERS))
    environment.setenv("PADDLE_TRAINER_ENDPOINTS", ",".join(WORKERS))
    environment.setenv("TRAINING_ROLE", "PSERVER")
    environment.setenv("PADDLE_PSERVER_ID", "1")
    role = GeneralRoleMaker(path="/tmp/gloo")
    assert (role.server_index(), role.worker_num()) == (1, 3)


def test_servers_wait_for_nobody():
    role = PaddleCloudRoleMaker()
    with pytest.raises(InvalidArgument, match="use barrier_worker"):
        role.barrier_all()
    with pytest.raises(InvalidArgument, match="use 'worker'"):
        role._barrier("all")


def test_workers_of_a_role_hear_from_each_other(environment):
    flota.init(PaddleCloudRoleMaker())  # alone
    role, output = PaddleCloudRoleMaker(), [0, 0]
    role.all_reduce_worker([3, 4], output)
    assert output == [3, 4]
    assert role.all_gather(5) == [5]
    assert role._all_reduce([1.0]).tolist() == [1.0]
    role.barrier_worker()


# --- 1.x without a role maker is MPI ---


def test_without_mpi_the_default_of_1_x_says_what_to_do(environment):
    assert role_maker.MPISymmetricRoleMaker is MPISymetricRoleMaker
    with pytest.raises(InvalidArgument, match=r"mpirun -n N, or pass a UserDefinedRoleMaker"):
        job.init()


def test_under_a_launcher_the_default_of_1_x_is_what_that_says(environment):
    environment.setenv("TRAINING_ROLE", "TRAINER")
    environment.setenv("PADDLE_PSERVERS_IP_PORT_LIST", ",".join(SERVERS))
    environment.setenv("PADDLE_TRAINERS_NUM", "2")
    environment.setenv("PADDLE_TRAINER_ID", "1")
    job.init()
    assert (job.worker_index(), job.worker_num()) == (1, 2)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun: apt-get install openmpi-bin")
def test_under_mpi_each_rank_is_a_worker_with_a_server_beside_it(environment):
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"):
        environment.setenv(name, "1")
    done = subprocess.run(
        ["mpirun", "--oversubscribe", "-n", "2", sys.executable, "-m", "flota.paddle", "mpi_train.py"],
        cwd=CLUSTER, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"server (\d) of 2\n", done.stdout)) == ["0", "1"]
    costs = dict(re.findall(r"worker (\d) of 2: cost (\S+)", done.stdout))
    assert sorted(costs) == ["0", "1"]
    assert all(float(cost) < 0.1 for cost in costs.values())


# --- the launchers' names ---


@pytest.mark.parametrize("module", ["paddle.distributed.launch", "paddle.distributed.launch_ps"])
def test_the_launchers_of_the_documents_run_where_there_is_no_gpu(environment, tmp_path, module):
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "print(*(os.environ.get(name) for name in ('TRAINING_ROLE', 'CUDA_VISIBLE_DEVICES', 'FLAGS_selected_gpus')))\n"
        "time.sleep(60 * (os.environ['TRAINING_ROLE'] == 'PSERVER'))\n"
    )
    environment.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    flags = ["--server_num=1", "--worker_num=2", "--gpus=0,1"]
    command = [sys.executable, "-m", "flota.paddle", "-m", module, *flags, "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(tmp_path / "log" / f"workerlog.{i}").read_text() for i in range(2)]
    assert logs == ["TRAINER 0 0\n", "TRAINER 1 0\n"]
    assert ("shows no NVIDIA GPU" in done.stdout) is not Path("/proc/driver/nvidia/gpus").exists()


# --- strategies ---

MODES = {
    "as it is": ({}, Sync()),
    "async": ({"sync_mode": False, "runtime_split_send_recv": True}, Async()),
    "half": ({"sync_mode": False, "half_async": True}, Async(max_staleness=0)),
    "not at all async": ({"sync_mode": False, "half_async": True, "completely_not_async": True}, Sync()),
    "geo": ({"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 5}, Geo(5)),
}


@pytest.mark.parametrize(("settings", "mode"), MODES.values(), ids=MODES)
def test_a_transpilers_flags_are_one_mode(settings, mode):
    config = DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    assert config.as_strategy().mode == mode


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"geo_sgd_mode": True}, "geo_sgd_mode=True contradicts sync_mode=True"),
        ({"runtime_split_send_recv": True}, "contradicts sync_mode=True: set sync_mode = False"),
        ({"sync_mode": False, "geo_sgd_mode": True, "half_async": True}, "set one of them"),
        ({"geo_sgd_need_push_nums": 5}, "has no effect without geo_sgd_mode"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(settings, says):
    config = DistributeTranspilerConfig()
    for name, value in settings.items():
        setattr(config, name, value)
    with pytest.raises(InvalidArgument, match=says):
        config.as_strategy()


def test_a_factorys_strategy_hands_out_its_settings_and_takes_them_back():
    strategy = StrategyFactory.create_async_strategy()
    config = strategy.get_trainer_runtime_config()
    config.runtime_configs["communicator_send_queue_size"] = "4"
    config.runtime_configs["communicator_max_merge_var_num"] = 2
    strategy.set_trainer_runtime_config(config)
    strategy.set_program_config({"split_method": transpiler.HashName})
    assert strategy.mode == Async(send_queue_size=4, max_merge_var_num=2)
    assert strategy.get_program_config().split_method == strategy.split_method == "HashName"
    geo = StrategyFactory.create_geo_strategy(7)
    assert geo.get_program_config().geo_sgd_need_push_nums == 7


@pytest.mark.parametrize(
    ("make", "settings", "says"),
    [
        (StrategyFactory.create_sync_strategy, {"communicator_send_queue_size": 4}, "no effect in sync mode"),
        (StrategyFactory.create_async_strategy, {"communicator_send_que_size": 4}, "did you mean"),
        (StrategyFactory.create_async_strategy, {"rpc_deadline": 5}, "set FLOTA_TIMEOUT"),
    ],
)
def test_a_factorys_strategy_refuses_what_does_not_act(make, settings, says):
    with pytest.raises(InvalidArgument, match=says):
        make().set_trainer_runtime_config(settings)


def test_a_strategy_stays_in_its_mode():
    with pytest.raises(InvalidArgument, match="trains in async mode, the configuration says sync"):
        StrategyFactory.create_async_strategy().set_program_config(DistributeTranspilerConfig())


def test_a_program_is_not_transpiled():
    with pytest.raises(InvalidArgument, match=r"use fleet of .*distribute_transpiler"):
        transpiler.DistributeTranspiler()
