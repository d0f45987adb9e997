"""What leaves this host is under TLS, or somebody has allowed that it is not."""

import os
import socket
import subprocess
import sys

import pytest

from flota import Client, config
from flota.client import Tls
from flota.errors import AuthenticationFailed, InvalidArgument, ServerError
from flota.launch.certs import make_set
from flota.testing import LocalCluster
from flota.tls import client_set, server_set

SECRET = "0123456789abcdef0123456789abcdef"
ELSEWHERE = "192.0.2.99:7164"  # an address that is nobody's


def address_of_this_host():
    """One that others reach it by; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        return probe.getsockname()[0]


@pytest.fixture(scope="module")
def here():
    return address_of_this_host()


@pytest.fixture(scope="module")
def certs_here(here, tmp_path_factory):
    return make_set(tmp_path_factory.mktemp("tls") / "certs", [here], days=1, client=True)


def run(module, *arguments, **settings):
    environment = {**os.environ, config.SECRET: SECRET, **settings}
    command = [sys.executable, "-m", *module.split(), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


# --- servers ---


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_server_off_loopback_needs_a_certificate(host):
    ended = run("flota.server", "--host", host)
    assert ended.returncode == 1
    assert ended.stdout == ""
    for said in (host, "flota certs", "FLOTA_CERTS", "--insecure", "FLOTA_INSECURE=1"):
        assert said in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("pservers", [1, 2])
def test_a_pserver_off_loopback_needs_a_certificate(pservers):
    ended = run("flota.cli pserver", f"--num_gradient_servers={pservers}")
    assert ended.returncode == 2
    assert "flota certs" in ended.stderr
    assert ended.stdout == "", "it waits for nobody"


def test_a_server_of_a_script_needs_a_certificate(monkeypatch, tmp_path):
    script = "import flota\nflota.init()\nflota.init_server()\n"
    job = {
        "TRAINING_ROLE": "PSERVER", "PADDLE_PSERVERS_IP_PORT_LIST": "0.0.0.0:7164", "PADDLE_TRAINERS_NUM": "1",
        "POD_IP": "0.0.0.0", "PADDLE_PORT": "7164",
    }  # fmt: skip
    environment = {**os.environ, config.SECRET: SECRET, **job}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    assert "InvalidArgument: other hosts can reach 0.0.0.0:7164" in ended.stderr


@pytest.mark.parametrize("arguments", [["--insecure"], []])
def test_insecure_allows_it(arguments, monkeypatch, here):
    if not arguments:
        monkeypatch.setenv(config.INSECURE, "1")
    with LocalCluster(arguments=["--host", here, *arguments]) as cluster:
        assert cluster.client(transport="tcp", insecure=True).servers == 1
        if arguments:
            with pytest.raises(InvalidArgument, match=rf"server 0 \({here}:\d+\): .*FLOTA_CERTS.*insecure=True"):
                cluster.client(transport="tcp")
        else:
            assert cluster.client(transport="tcp").servers == 1


def test_loopback_needs_nothing():
    for host in ("127.0.0.1", "127.0.0.7", "localhost"):
        with LocalCluster(arguments=["--host", host]) as cluster:
            assert cluster.client(transport="tcp").servers == 1


def test_a_pserver_serves_other_hosts_under_tls(here, certs_here):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "flota.cli", "pserver", f"--port={port}", "--certs", str(certs_here)]
    environment = {**os.environ, config.SECRET: SECRET}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"flota pserver 0 of 1 listening on 0.0.0.0:{port}\n"
        with Client([f"{here}:{port}"], secret=SECRET, transport="tcp", tls=client_set(certs_here)) as client:
            assert client.servers == 1
    finally:
        process.kill()
        process.communicate()


# --- clients ---


def test_a_client_does_not_go_over_a_network_without_tls():
    with pytest.raises(InvalidArgument, match=r"server 0 \(192.0.2.99:7164\): .*FLOTA_CERTS.*FLOTA_INSECURE=1"):
        Client([ELSEWHERE], secret=SECRET, timeout=20)


def test_a_client_without_tls_sends_nothing_where_it_may_not(here):
    with socket.create_server((here, 0)) as listener:
        with pytest.raises(InvalidArgument, match="insecure=True"):
            Client([f"{here}:{listener.getsockname()[1]}"], secret=SECRET, transport="tcp", timeout=20)
        listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            listener.accept()


def test_local_sockets_never_leave_the_host(here, certs_here):
    with LocalCluster(arguments=["--host", here, "--certs", str(certs_here)]) as cluster:
        for transport in ("auto", "unix", "shared_memory"):
            assert cluster.client(transport=transport).servers == 1


# --- where certificates come from ---


def test_a_set_is_all_that_a_job_needs(monkeypatch, here, certs_here):
    monkeypatch.setenv(config.CERTS, str(certs_here))
    with LocalCluster(arguments=["--host", here]) as cluster:
        assert cluster.client(transport="tcp").servers == 1
        # The set has a certificate for clients, so servers demand one.
        with pytest.raises(AuthenticationFailed, match="certificate"):
            cluster.client(transport="tcp", tls=Tls(f"{certs_here}/authority.pem"), timeout=5)
        with pytest.raises(ServerError):
            cluster.client(transport="tcp", insecure=True, timeout=1)


def test_single_files_do_as_well(monkeypatch, here, certs_here):
    monkeypatch.setenv(config.TLS_CERTIFICATE, f"{certs_here}/server.pem")
    monkeypatch.setenv(config.TLS_KEY, f"{certs_here}/server.key")
    monkeypatch.setenv(config.TLS_AUTHORITY, f"{certs_here}/authority.pem")
    with LocalCluster(arguments=["--host", here]) as cluster:
        assert cluster.client(transport="tcp").servers == 1
        monkeypatch.delenv(config.TLS_AUTHORITY)
        with pytest.raises(InvalidArgument, match="FLOTA_TLS_AUTHORITY is not: it checks the servers"):
            cluster.client(transport="tcp")


def test_servers_demand_certificates_by_the_environment(monkeypatch, here, certs_here):
    for name, file in ((config.TLS_CERTIFICATE, "server.pem"), (config.TLS_KEY, "server.key")):
        monkeypatch.setenv(name, f"{certs_here}/{file}")
    monkeypatch.setenv(config.TLS_CLIENT_AUTHORITY, f"{certs_here}/client_authority.pem")
    with LocalCluster(arguments=["--host", here]) as cluster:
        with pytest.raises(AuthenticationFailed, match="certificate"):
            cluster.client(transport="tcp", tls=Tls(f"{certs_here}/authority.pem"), timeout=5)
        assert cluster.client(transport="tcp", tls=client_set(certs_here)).servers == 1


def test_what_is_passed_wins_over_the_environment(monkeypatch, here, certs_here):
    monkeypatch.setenv(config.INSECURE, "1")
    with LocalCluster(arguments=["--host", here, "--certs", str(certs_here)]) as cluster:
        assert cluster.client(transport="tcp", tls=client_set(certs_here)).servers == 1
    monkeypatch.setenv(config.INSECURE, "")
    monkeypatch.setenv(config.CERTS, str(certs_here))
    with LocalCluster(arguments=["--host", here, "--insecure"]) as cluster:
        assert cluster.client(transport="tcp", insecure=True).servers == 1


CONTRADICTIONS = {
    "both kinds": ({config.CERTS: "certs", config.TLS_KEY: "a.key"}, "names a set of certificates, and FLOTA_TLS_KEY"),
    "insecure with a set": ({config.CERTS: "certs", config.INSECURE: "1"}, "FLOTA_CERTS|has no authority.pem"),
    "insecure with files": ({config.TLS_AUTHORITY: "a.pem", config.INSECURE: "1"}, "contradicts"),
    "neither yes nor no": ({config.INSECURE: "yes"}, "FLOTA_INSECURE=yes: it must be 1"),
    "a set that is not there": ({config.CERTS: "nowhere"}, r"nowhere has no authority.pem.*flota certs"),
}


@pytest.mark.parametrize(("settings", "says"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_an_environment_that_contradicts_itself_is_refused(monkeypatch, settings, says):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidArgument, match=says):
        Client(["127.0.0.1:7164"], secret=SECRET)


def test_arguments_that_contradict_are_refused(certs):
    with pytest.raises(InvalidArgument, match="insecure=True and tls=… contradict"):
        Client(["127.0.0.1:7164"], secret=SECRET, tls=client_set(certs), insecure=True)
    with pytest.raises(InvalidArgument, match="insecure must be True or False"):
        Client(["127.0.0.1:7164"], secret=SECRET, insecure="no")
    assert "give the one or the other" in run("flota.server", "--certs", str(certs), "--insecure").stderr
    assert "give one of them" in run("flota.server", "--certs", str(certs), "--tls-key", "a.key").stderr


def test_a_server_has_only_what_it_needs(certs, tmp_path):
    """Hosts of servers need no client's key, and those of workers no server's."""
    for name in ("server.pem", "server.key"):
        (tmp_path / name).write_bytes((certs / name).read_bytes())
    assert server_set(tmp_path).client_authority == ""
    with pytest.raises(InvalidArgument, match=r"has no authority.pem, which a client needs"):
        client_set(tmp_path)
