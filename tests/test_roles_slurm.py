"""Which task of a Slurm step is what, by the variables that srun sets."""

import os

import pytest

from flota.errors import InvalidArgument, SystemFailure
from flota.roles import LocalRoleMaker, MPISymmetricRoleMaker, Role, SlurmRoleMaker, default_role_maker
from flota.roles.environment import PaddleCloudRoleMaker

SECRET = "0123456789abcdef0123456789abcdef"
OF_JOBS = ("SLURM_", "OMPI_", "PMIX_", "PADDLE_", "FLOTA_", "TRAINING_ROLE", "POD_IP")


@pytest.fixture
def task(monkeypatch):
    """Makes this process a task of a step on the nodes."""
    for name in [name for name in os.environ if name.startswith(OF_JOBS)]:
        monkeypatch.delenv(name)

    def be(nodes="h[1-3]", tasks="2(x3)", total=6, node=0, local=0, **more):
        settings = {
            "FLOTA_SECRET": SECRET, "SLURM_PROCID": 0, "SLURM_JOB_ID": 7, "SLURM_STEP_ID": 0,
            "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_STEP_NUM_TASKS": total,
            "SLURM_NODEID": node, "SLURM_LOCALID": local, **more,
        }  # fmt: skip
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        return SlurmRoleMaker().placement()

    return be


def who(place):
    return place.role, place.index


def everyone(task, counts, **settings):
    """What each task is, node by node."""
    tasks, total = ",".join(map(str, counts)), sum(counts)
    return [
        [who(task(tasks=tasks, total=total, node=node, local=local, **settings)) for local in range(count)]
        for node, count in enumerate(counts)
    ]


def test_the_first_task_of_each_node_is_a_server(task):
    server, worker = Role.SERVER, Role.WORKER
    assert everyone(task, [2, 3, 1]) == [
        [(server, 0), (worker, 0)],
        [(server, 1), (worker, 1), (worker, 2)],
        [(server, 2)],
    ]
    place = task()
    assert place.worker_num == 3
    assert [endpoint.partition(":")[0] for endpoint in place.server_endpoints] == ["h1", "h2", "h3"]


def test_another_number_of_servers_goes_round_the_nodes(task):
    server, worker = Role.SERVER, Role.WORKER
    assert everyone(task, [3, 3], nodes="a,b", FLOTA_SERVER_NUM=3) == [
        [(server, 0), (server, 2), (worker, 0)],
        [(server, 1), (worker, 1), (worker, 2)],
    ]
    first, second, third = task("a,b", "3,3", FLOTA_SERVER_NUM=3, FLOTA_PORT=7000).server_endpoints
    assert (first, second, third) == ("a:7000", "b:7000", "a:7001")


def test_component_0_has_the_servers(task):
    het = {
        "SLURM_HET_SIZE": 2, "SLURM_JOB_NODELIST_HET_GROUP_0": "z9", "SLURM_JOB_NODELIST_HET_GROUP_1": "a[1-2]",
    }  # fmt: skip
    server, worker = Role.SERVER, Role.WORKER
    found = everyone(task, [2, 1, 2], nodes="z9,a[1-2]", **het)
    assert found == [[(server, 0), (server, 1)], [(worker, 0)], [(worker, 1), (worker, 2)]]
    assert {endpoint.partition(":")[0] for endpoint in task(tasks="2,1,3", **het).server_endpoints} == {"z9"}
    # A step within a component is one of an allocation like any other.
    assert everyone(task, [2, 2], nodes="a[1-2]", **het)[0] == [(server, 0), (worker, 0)]


def test_steps_and_jobs_that_follow_each_other_have_ports_of_their_own(task):
    def ports(job, step):
        return {int(endpoint.partition(":")[2]) // 16 for endpoint in task(
            tasks="16(x3)", total=48, SLURM_JOB_ID=job, SLURM_STEP_ID=step, FLOTA_SERVER_NUM=45
        ).server_endpoints}  # fmt: skip

    blocks = [ports(job, step) for job in range(100, 140) for step in range(4)]
    assert all(len(block) == 1 for block in blocks)
    assert len(set().union(*blocks)) == len(blocks)
    assert ports(4294967294, 3)  # the greatest number that a job may have


def test_ports_that_slurm_has_set_aside_are_taken(task):
    assert task(SLURM_STEP_RESV_PORTS="12001-12002").server_endpoints == ("h1:12001", "h2:12001", "h3:12001")
    with pytest.raises(InvalidArgument, match="srun --resv-ports=2"):
        task(tasks="3(x3)", total=9, SLURM_STEP_RESV_PORTS="12001", FLOTA_SERVER_NUM=6)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tasks": "1(x3)", "total": 3}, "3 tasks on 3 nodes are 3 servers and 0 workers.*ntasks-per-node=2"),
        ({"FLOTA_SERVER_NUM": 9}, "puts 3 servers on h1, which has 2 tasks"),
        ({"FLOTA_SERVER_NUM": "many"}, "FLOTA_SERVER_NUM=many is not a number"),
        ({"FLOTA_SERVER_NUM": 0}, "0 servers"),
        ({"FLOTA_SECRET": ""}, "export FLOTA_SECRET before srun"),
        ({"nodes": "h[1-2]"}, "contradict each other"),
        ({"nodes": "h[1-"}, "is not a list of nodes"),
        ({"FLOTA_PORT": 65535, "FLOTA_SERVER_NUM": 4}, "not all between 1 and 65535"),
        ({"FLOTA_PORT": 7000, "SLURM_STEP_RESV_PORTS": "12001"}, "give one of them"),
        (
            {"SLURM_HET_SIZE": 2, "SLURM_JOB_NODELIST_HET_GROUP_0": "a", "SLURM_JOB_NODELIST_HET_GROUP_1": "b"},
            "start one on all of them, srun --het-group=0-1",
        ),
    ],
)
def test_what_makes_no_job_is_refused(task, settings, says):
    with pytest.raises(InvalidArgument, match=says):
        task(**settings)


def test_a_port_that_is_taken_is_named(task):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(SystemFailure, match=f"port {port} of 127.0.0.1 is in use: export FLOTA_PORT"):
            task("127.0.0.1", "2", 2, FLOTA_PORT=port)
        assert who(task("127.0.0.1", "2", 2, local=1, FLOTA_PORT=port)) == (Role.WORKER, 0)


def test_a_requeued_job_knows_how_often(task):
    task(SLURM_RESTART_COUNT=2)
    assert os.environ["FLOTA_RESTARTS"] == "2"


def test_without_a_word_a_process_is_what_started_it_last(task, monkeypatch):
    task()
    assert isinstance(default_role_maker(), SlurmRoleMaker)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "1")
    assert isinstance(default_role_maker(), LocalRoleMaker), "srun --pty bash"
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "6")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert isinstance(default_role_maker(), MPISymmetricRoleMaker)
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert isinstance(default_role_maker(), LocalRoleMaker), "mpirun -n 1"
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    assert isinstance(default_role_maker(), PaddleCloudRoleMaker), "a launch within Slurm, or within mpirun"
    monkeypatch.setenv("FLOTA_RANK_PROCESS", "1")
    assert isinstance(default_role_maker(), MPISymmetricRoleMaker), "the server beside a rank"
