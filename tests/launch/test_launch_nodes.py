"""What an engine that runs a launch on each host is given to run there."""

import os

import pytest
from launched import JOB_NAMES

from flota.errors import InvalidArgument
from flota.launch.arguments import parse
from flota.launch.mpi import _slots
from flota.launch.nodes import flags, job_settings, node_command


@pytest.fixture(autouse=True)
def no_job_around(monkeypatch):
    for name in [name for name in os.environ if name.startswith((*JOB_NAMES, "SLURM_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def given(tmp_path):
    (tmp_path / "train.py").touch()
    return lambda *words: parse(["--on=mpi", *words, str(tmp_path / "train.py"), "--epochs=3"], "flota launch")


def hosts_of(flag, command):
    found = next(word for word in command if word.startswith(f"--{flag}="))
    return [endpoint.rpartition(":")[0] for endpoint in found.partition("=")[2].split(",")]


def test_servers_and_workers_go_round_the_hosts(given):
    command = node_command(given("--hosts=a,b", "--server_num=3", "--worker_num=3"), {"a": 1, "b": 1})
    assert hosts_of("servers", command) == ["a", "b", "a"]
    assert hosts_of("workers", command) == ["a", "b", "a"]
    ports = {int(word.rpartition(":")[2]) for words in command if words.startswith(("--servers", "--workers"))
             for word in words.split(",")}  # fmt: skip
    assert len(ports) == 6
    assert all(10_000 <= port < 32_768 for port in ports)
    assert command[-1] == "--epochs=3"


def test_slots_of_a_hostfile_are_workers(given, tmp_path):
    (tmp_path / "machines").write_text("# mine\na slots=2\n\nb   # one\nc slots = 1\n")
    arguments = given(f"--hostfile={tmp_path}/machines")
    assert _slots(arguments) == {"a": 2, "b": 1, "c": 1}
    assert hosts_of("workers", node_command(arguments, _slots(arguments))) == ["a", "b", "c", "a"]
    two_each = node_command(given("--hosts=a,b", "--nproc_per_node=2"), {"a": 1, "b": 1})
    assert hosts_of("workers", two_each) == ["a", "b", "a", "b"]


def test_what_was_asked_for_is_asked_for_on_each_host(given):
    asked = given(
        "--hosts=a,b", "--max_restarts=0", "--timeout=0", "--durable=/d", "--no_view", "--gpus=0,1", "--paddle"
    )
    assert flags(asked, lists=True) == [
        "--durable=/d", "--gpus=0,1", "--max_restarts=0", "--paddle", "--timeout=0", "--view=none"
    ]  # fmt: skip
    assert flags(given("--hosts=a,b", "--worker_num=4"), lists=False) == ["--worker_num=4"]


def test_a_job_gets_what_nobody_has_set(given, monkeypatch):
    settings = job_settings(given("--hosts=a,b"), ["a", "b"])
    assert set(settings) == {"FLOTA_SECRET", "FLOTA_CERTS_TEXT"}
    assert set(job_settings(given("--hosts=a"), ["a"])) == {"FLOTA_SECRET", "FLOTA_CERTS_TEXT"}
    assert set(job_settings(given("--hosts=a,b", "--insecure"), ["a", "b"])) == {"FLOTA_SECRET"}
    monkeypatch.setenv("FLOTA_SECRET", "0123456789abcdef0123456789abcdef")
    monkeypatch.setenv("FLOTA_CERTS", "/certs")
    assert job_settings(given("--hosts=a,b"), ["a", "b"]) == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say where the job runs: --hosts h1,h2 or --hostfile FILE"),
        (["--hosts=a", "--hostfile=b"], "one of them"),
        (["--hosts=hosts.yaml"], "give the names, h1,h2, or mpirun's own file with --hostfile"),
        (["--hosts=a,b,a"], "names a twice"),
        (["--hosts=a;reboot"], "'a;reboot' is not the name of a host"),
        (["--hostfile=/nowhere"], "--hostfile=/nowhere: No such file"),
        (["--hosts=a,b,c", "--server_num=1", "--worker_num=2"], "c would run nothing"),
        (["--hosts=a,b", "--worker_num=0"], "at least one server and one worker"),
        (["--hosts=a,b", "--worker_num=3", "--nproc_per_node=2"], "makes 4 on 2 hosts"),
        (["--hosts=a,b", "--servers=a:1"], "--servers=a:1 does nothing under --on mpi"),
    ],
)
def test_what_cannot_be_started_is_refused(given, words, says):
    def command(arguments):
        return node_command(arguments, _slots(arguments))

    with pytest.raises(InvalidArgument, match=says):
        command(given(*words))


@pytest.mark.parametrize("line", ["a slots=two", "a slots=0", "a max_slots=3", "a b", "user@a"])
def test_a_line_that_is_no_host_is_named(given, tmp_path, line):
    (tmp_path / "machines").write_text(f"b\n{line}\n")
    with pytest.raises(InvalidArgument, match="machines, line 2: "):
        _slots(given(f"--hostfile={tmp_path}/machines"))
