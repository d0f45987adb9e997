"""Which hosts a job has, as somebody writes it down, and what runs where."""

import socket
import subprocess
import sys

import pytest

from flota.errors import InvalidArgument
from flota.launch.arguments import parse
from flota.launch.ssh.inventory import read_hosts
from flota.launch.ssh.placing import endpoints, shares


def test_hosts_are_named_as_for_ssh():
    hosts = read_hosts("node1, me@node2:2222,[fe80::1]:22,fe80::2")
    assert [(host.name, host.user, host.port) for host in hosts] == [
        ("node1", "", None), ("node2", "me", 2222), ("fe80::1", "", 22), ("fe80::2", "", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node1,node1", "names node1 twice"),
        (",", "names no host"),
        ("@node1", "@node1 is not a host as user@name:port"),
        ("node1:", "no port after its colon"),
        ("node1:0", "a port is a number between 1 and 65535, not 0"),
        ("node1:ssh", "ssh is no port"),
        ("-oProxyCommand=evil", "is not a host"),
        ("no de", "is not a host"),
        ("missing.yaml", "No such file"),
    ],
)
def test_what_is_no_host_is_refused(text, message):
    with pytest.raises(InvalidArgument, match=message):
        read_hosts(text)


@pytest.fixture
def written(tmp_path):
    def written(text):
        file = tmp_path / "hosts.yaml"
        file.write_text(text)
        return read_hosts(str(file))

    return written


def test_a_file_says_more_of_each_host(written):
    first, second, third = written(
        """
        defaults: {user: trainer, env: {LEVEL: 1, PLACE: here}}
        hosts:
          - node1
          - me@node2:2222
          - {name: node3, address: 10.0.0.3, servers: 0, workers: 2, gpus: 0, env: {PLACE: there}}
        """
    )
    assert (first.name, first.user) == ("node1", "trainer")
    assert (second.user, second.port) == ("me", 2222)
    assert (third.address, third.servers, third.workers, third.gpus) == ("10.0.0.3", 0, 2, "0")
    assert third.env == {"LEVEL": "1", "PLACE": "there"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts: [{name: a, worker: 2}]", r"host 1: there is no entry worker: did you mean workers\?"),
        ("hosts: [{name: a}]\ndefault: {user: x}", r"there is no entry default: did you mean defaults\?"),
        ("hosts: [{user: me}]", "host 1: it has no name"),
        ("hosts: [{name: a, port: '22'}]", "a port is a number"),
        ("hosts: [{name: a, servers: -1}]", "a number from 0 on"),
        ("hosts: [{name: a, servers: true}]", "a number from 0 on"),
        ("hosts: [{name: 'me@a'}]", "is no name of a host"),
        ("hosts: [{name: ../a}]", "is no name of a host"),
        ("hosts: [{name: a, env: {A B: 1}}]", "is no name of a variable"),
        ("hosts: [{name: a, env: {TOKEN: [secret]}}]", "TOKEN must be a text"),
        ("hosts: []", "at least one host"),
        ("hosts: [a, [b]]", "host 2: it must be a name, or a mapping"),
        ("defaults: {name: a}\nhosts: [b]", "one host's alone"),
        ("hosts: [a", "it is no YAML"),
        ("!!python/object/apply:os.system ['true']", "it is no YAML"),
        ("42", "must be a list of hosts"),
    ],
)
def test_a_file_that_says_nonsense_is_refused(written, text, message):
    with pytest.raises(InvalidArgument, match=message) as refused:
        written(text)
    assert "secret" not in str(refused.value)


def placed(hosts, *flags):
    return shares(hosts, parse(["--hosts=a", *flags, "train.py"], "flota launch"))


def test_servers_and_workers_are_given_out_in_turn():
    found = placed(read_hosts("a,b,c"), "--server_num=2", "--worker_num=4")
    assert [(share.servers, share.workers) for share in found] == [([0], [0, 3]), ([1], [1]), ([], [2])]
    servers, workers = endpoints(["a", "b", "fe80::3"], found, 7000)
    assert list(map(str, servers)) == ["a:7000", "b:7001"]
    assert list(map(str, workers)) == ["a:7002", "b:7003", "[fe80::3]:7004", "a:7005"]


def test_a_host_may_say_how_many_it_has(written):
    hosts = written("hosts: [{name: a, servers: 2, workers: 0}, {name: b, workers: 1}, {name: c, workers: 3}]")
    found = placed(hosts)
    assert [(share.servers, share.workers) for share in found] == [([0, 1], []), ([], [0]), ([], [1, 2, 3])]
    with pytest.raises(InvalidArgument, match="--worker_num=5, but the hosts say 4: a 0, b 1, c 3"):
        placed(hosts, "--worker_num=5")


def test_every_gpu_has_a_worker_where_nobody_says_otherwise(written):
    hosts = written('hosts: [{name: a, gpus: "0,1"}, {name: b, gpus: "0"}]')
    assert [share.workers for share in placed(hosts)] == [[0, 1], [2]]
    assert [share.workers for share in placed(read_hosts("a,b"), "--nproc_per_node=2")] == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--server_num=1", "--worker_num=1"], "b would run nothing"),
        (["--worker_num=0"], "at least one server and one worker"),
        (["--nproc_per_node=2", "--worker_num=3"], "makes 4"),
    ],
)
def test_placings_that_cannot_be_are_refused(flags, message):
    with pytest.raises(InvalidArgument, match=message):
        placed(read_hosts("a,b"), *flags)


def test_ports_end_where_the_numbers_do():
    found = placed(read_hosts("a,b"))
    with pytest.raises(InvalidArgument, match="last port would be 65536"):
        endpoints(["a", "b"], found, 65533)


def test_hosts_say_that_it_is_by_ssh_and_flags_that_would_not_act_are_refused():
    assert parse(["--hosts=a", "train.py"], "flota launch").on == "ssh"
    with pytest.raises(InvalidArgument, match=r"--hosts=a: it is for --on ssh"):
        parse(["--on=local", "--hosts=a", "train.py"], "flota launch")
    with pytest.raises(InvalidArgument, match=r"--servers=a:1 does nothing under --on ssh"):
        parse(["--hosts=a", "--servers=a:1", "train.py"], "flota launch")


def test_a_host_where_no_sshd_answers_is_told_with_what_to_try(tmp_path):
    pytest.importorskip("fabric")
    (tmp_path / "train.py").touch()
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "flota.launch", f"--hosts=127.0.0.1:{port}", "train.py"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    says = f"127.0.0.1: SSH does not get there (Connection refused): check that ssh -p {port} 127.0.0.1 works from here"
    assert says in done.stderr
