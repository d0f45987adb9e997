"""One command on several hosts: each starts its own part, and all come to the same plan."""

import os
import socket

import pytest
from launched import JOB_NAMES

from flota.errors import InvalidArgument, SystemFailure
from flota.launch.arguments import parse
from flota.launch.plan import make_plan

ELSEWHERE = "10.255.255.1"  # an address that no host here has
SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture(autouse=True)
def no_job_around(monkeypatch):
    for name in [name for name in os.environ if name.startswith(JOB_NAMES)]:
        monkeypatch.delenv(name)


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "train.py").touch()
    return lambda *flags: make_plan(parse([*flags, str(tmp_path / "train.py")], "flota launch"))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def names(plan):
    return [member.name for member in plan.members]


def texts(endpoints):
    return [str(endpoint) for endpoint in endpoints]


def test_only_the_processes_of_this_host_are_started(start):
    # The servers of a job on several hosts end by themselves, when all workers have said that they are done.
    script = """
    from flota import report
    ready()
    if is_server:
        wait_for("worker.1.done")
        sys.exit(0)
    report.finished()
    ready(name=me + ".done")
    """
    here = [free_port(), free_port()]
    launch = start(
        script,
        f"--servers={ELSEWHERE}:{here[0]},127.0.0.1:{here[0]}", f"--workers={ELSEWHERE}:{here[1]},127.0.0.1:{here[1]}",
        FLOTA_SECRET=SECRET, FLOTA_INSECURE="1",
    )  # fmt: skip
    assert launch.wait() == 0, launch.output
    assert sorted(log.name for log in (launch.folder / "log").glob("*log.*")) == ["serverlog.1", "workerlog.1"]
    assert sorted(file.name for file in launch.folder.glob("pids/*.1")) == ["server.1", "worker.1"]
    assert "ips: 10.255.255.1,127.0.0.1\n" in launch.output
    launch.nothing_is_left()


def test_two_launches_form_one_job(start, tmp_path):
    """POD_IP tells apart two hosts that are one machine."""
    script = """
    from flota import report
    workers = [f"worker.{i}.done" for i in range(3)]
    ready()
    if is_server:
        wait_for(*workers)
        sys.exit(0)
    print("host", sys.argv[1], "has worker", index, "of", os.environ["PADDLE_TRAINERS_NUM"])
    report.finished()
    ready(name=me + ".done")
    """
    port = free_port()
    servers, workers = f"127.0.0.1:{port},127.0.0.2:{port}", "127.0.0.2,127.0.0.1,127.0.0.2"
    launches = [
        start(
            script, f"--servers={servers}", f"--trainers={workers}",
            arguments=[host], POD_IP=host, FLOTA_SECRET=SECRET,
        )
        for host in ("127.0.0.1", "127.0.0.2")
    ]  # fmt: skip
    assert [launch.wait() for launch in launches] == [0, 0]
    assert [launches[0].log(f"workerlog.{i}").split()[1] for i in range(3)] == ["127.0.0.2", "127.0.0.1", "127.0.0.2"]
    assert all(launches[0].log(f"workerlog.{i}").endswith(f"has worker {i} of 3\n") for i in range(3))


def test_numbers_go_round_the_hosts_in_turn(plan, monkeypatch):
    flags = [f"--ips=127.0.0.1,{ELSEWHERE}", "--server_num=2", "--worker_num=3"]
    first = plan(*flags)
    assert texts(first.servers) == ["127.0.0.1:6170", f"{ELSEWHERE}:6171"]
    assert texts(first.workers) == ["127.0.0.1:6172", f"{ELSEWHERE}:6173", "127.0.0.1:6174"]
    assert names(first) == ["server 0", "worker 0", "worker 2"]
    monkeypatch.setenv("POD_IP", ELSEWHERE)
    second = plan(*flags)
    assert names(second) == ["server 1", "worker 1"]
    assert (second.servers, second.workers, second.rendezvous) == (first.servers, first.workers, first.rendezvous)


def test_workers_per_host_make_the_number_of_workers(plan):
    job = plan(f"--ips=127.0.0.1,{ELSEWHERE}", "--nproc_per_node=2")
    assert (len(job.servers), len(job.workers)) == (2, 4)
    assert names(job) == ["server 0", "worker 0", "worker 2"]
    assert len(plan("--nproc-per-node=3").workers) == 3


def test_ports_that_are_left_out_count_up_from_6170(plan):
    job = plan("--servers=127.0.0.1", "--workers=127.0.0.1,127.0.0.1:7000,127.0.0.1")
    assert texts(job.servers) == ["127.0.0.1:6170"]
    assert texts(job.workers) == ["127.0.0.1:6171", "127.0.0.1:7000", "127.0.0.1:6173"]


def test_one_list_is_enough_on_one_host(plan):
    port = free_port()
    job = plan(f"--servers=127.0.0.1:{port}", "--worker_num=2")
    assert texts(job.servers) == [f"127.0.0.1:{port}"]
    assert len(set(job.workers)) == 2
    job = plan(f"--workers=localhost:{port}")
    assert {endpoint.host for endpoint in job.servers} == {"localhost"}
    assert job.alone


def test_this_host_is_known_by_its_name_and_by_any_address_it_has(plan, monkeypatch):
    job = plan(f"--servers={socket.gethostname()}:{free_port()}", f"--workers={ELSEWHERE}")
    assert names(job) == ["server 0"]
    assert not job.alone
    job = plan(f"--servers=127.0.0.7:{free_port()},{ELSEWHERE}:1", f"--workers={ELSEWHERE}")
    assert names(job) == ["server 0"]


def test_ips_beside_lists_says_which_host_this_is(plan):
    lists = [f"--servers=127.0.0.1:{free_port()},{ELSEWHERE}:6170", f"--workers={ELSEWHERE}:6171"]
    assert names(plan(*lists)) == ["server 0"]
    assert names(plan(*lists, f"--ips={ELSEWHERE}")) == ["server 1", "worker 0"]
    assert names(plan(*lists, f"--ips=127.0.0.1,{ELSEWHERE}")) == ["server 0"]
    with pytest.raises(InvalidArgument, match=r"--ips=127.0.0.1,10.0.0.9, but the hosts in the lists are 10.255.255.1"):
        plan(*lists, "--ips=127.0.0.1,10.0.0.9")


def test_the_i_th_worker_of_a_host_gets_its_i_th_device(plan):
    job = plan(f"--workers={ELSEWHERE}:1,127.0.0.1,127.0.0.1", f"--servers={ELSEWHERE}:2", "--gpus=0,1,2")
    assert [member.device for member in job.members] == ["0", "1"]
    assert job.notes[0] == "2 workers here: not used of --gpus is 2"


def test_an_ipv6_address_has_brackets(plan):
    job = plan("--servers=[::1]:6170", "--workers=[::1]")
    assert texts([*job.servers, *job.workers]) == ["[::1]:6170", "[::1]:6171"]
    with pytest.raises(InvalidArgument, match=r"--servers: fe80::1 is not host:port"):
        plan("--servers=fe80::1")


def test_a_job_with_nothing_for_this_host_is_refused(plan):
    with pytest.raises(InvalidArgument) as refused:
        plan(f"--servers={ELSEWHERE}:6170", f"--workers={ELSEWHERE}:6171")
    message = str(refused.value)
    assert f"no process is for this host, {socket.gethostname()} (127.0.0.1" in message
    assert f"servers {ELSEWHERE}:6170; workers {ELSEWHERE}:6171" in message
    assert "POD_IP" in message


def test_one_list_alone_leaves_open_what_other_hosts_run(plan):
    with pytest.raises(
        InvalidArgument, match=r"--servers names other hosts .*10.255.255.1.*--workers is needed as well"
    ):
        plan(f"--servers={ELSEWHERE}:6170", "--worker_num=2")
    with pytest.raises(InvalidArgument, match=r"--workers names other hosts .*--servers is needed as well"):
        plan(f"--workers=127.0.0.1,{ELSEWHERE}:6170")


def test_several_hosts_need_a_secret(start):
    launch = start("serve()", f"--servers=127.0.0.1:{free_port()}", f"--workers={ELSEWHERE}:6170")
    assert launch.wait() == 2
    assert "needs a secret that all of them know: set FLOTA_SECRET, or FLOTA_SECRET_FILE" in launch.output


@pytest.mark.parametrize("flags", [["--servers=127.0.0.1:{}"], ["--workers=127.0.0.1:{}"], ["--http_port={}"]])
def test_a_port_in_use_is_named(plan, flags):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SystemFailure, match=rf"port {port} is in use: .* cannot listen at 127.0.0.1:{port}"):
            plan(*[flag.format(port) for flag in flags])


def test_a_port_in_use_ends_the_launch_before_anything_starts(start):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        launch = start("ready()", f"--servers=127.0.0.1:{port}")
        assert launch.wait() == 1
    assert f"flota launch: port {port} is in use: server 0 cannot listen at 127.0.0.1:{port}" in launch.output
    assert launch.all_pids() == []


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--servers=127.0.0.1:7001,127.0.0.1:7001"], "server 0 and server 1 have the same endpoint, 127.0.0.1:7001"),
        (["--servers=127.0.0.1:7001", "--workers=127.0.0.1:7001"], "server 0 and worker 0 have the same endpoint"),
        (["--servers=127.0.0.1:7001", "--server_num=2"], "--server_num=2, but --servers names 1: 127.0.0.1:7001"),
        (["--workers=127.0.0.1:7001", "--worker_num=3"], "--worker_num=3, but --workers names 1"),
        (["--server_num=0", "--worker_num=2"], "--server_num=0: a job needs at least one server and one worker"),
        (["--worker_num=0"], "--worker_num=0: a job needs at least one"),
        (["--nproc_per_node=0"], "--nproc_per_node=0: "),
        (["--nproc_per_node=2", "--worker_num=3"], "--worker_num=3, but --nproc_per_node=2 makes 2"),
        (["--nproc_per_node=2", "--workers=127.0.0.1"], "--nproc_per_node=2, but the lists give this host 1"),
        (["--ips=127.0.0.1,127.0.0.1"], "--ips=127.0.0.1,127.0.0.1 names a host twice"),
        (["--ips=127.0.0.1,10.0.0.9", "--server_num=1", "--worker_num=1"], "10.0.0.9 would run nothing"),
        (["--servers=127.0.0.1:high"], "--servers: 127.0.0.1:high: a port is a number between 1 and 65535"),
        (["--servers=127.0.0.1:70000"], "a port is a number between 1 and 65535"),
        (["--servers=:7001"], ":7001 is not host:port"),
        (["--servers=127.0.0.1:7001", "--http_port=7001"], "--http_port=7001 is a port of the job already"),
        (["--gpus=0,fast"], "fast is neither a device's number nor its UUID"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused(plan, flags, reason):
    with pytest.raises(InvalidArgument) as refused:
        plan(*flags)
    assert reason in str(refused.value)


def test_devices_that_this_process_may_not_use_are_refused(plan, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert [member.device for member in plan("--gpus=3").members] == [None, "3"]
    with pytest.raises(InvalidArgument, match=r"--gpus=0,3: 0 may not be used here, where CUDA_VISIBLE_DEVICES=2,3"):
        plan("--gpus=0,3")
