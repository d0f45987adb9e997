"""How a client finds its servers and proves itself: secrets, deadlines, transports, TLS, shutdown."""

import math

import pytest
import torch

from flota import Client, _core
from flota.client import Tls
from flota.errors import AuthenticationFailed, FlotaError, InvalidArgument, ServerUnavailable
from flota.rules import SGD
from flota.testing import LocalCluster

TRANSPORTS = ["auto", "tcp", "unix", "shared_memory"]


# --- secret and deadline from the environment ---


@pytest.fixture
def environment(monkeypatch):
    for variable in ("FLOTA_SECRET", "FLOTA_SECRET_FILE", "FLOTA_TIMEOUT"):
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


def test_the_secret_comes_from_the_environment(cluster, environment):
    environment.setenv("FLOTA_SECRET", cluster.secret)
    with Client(cluster.endpoints) as client:
        assert client.servers == 2


def test_the_secret_comes_from_a_file(cluster, environment, tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{cluster.secret}\n")
    environment.setenv("FLOTA_SECRET_FILE", str(file))
    with Client(cluster.endpoints) as client:
        assert client.servers == 2


def test_a_secret_that_is_passed_counts_more_than_the_environment(cluster, environment):
    environment.setenv("FLOTA_SECRET", "another job's secret")
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        assert client.servers == 2
    with pytest.raises(AuthenticationFailed):
        Client(cluster.endpoints)


def test_a_missing_secret_says_where_to_put_it(cluster, environment, tmp_path):
    with pytest.raises(InvalidArgument, match=r"pass secret=…, or set FLOTA_SECRET or FLOTA_SECRET_FILE"):
        Client(cluster.endpoints)
    environment.setenv("FLOTA_SECRET_FILE", str(tmp_path / "nothing"))
    with pytest.raises(InvalidArgument, match=r"cannot read the secret from FLOTA_SECRET_FILE=.*No such file"):
        Client(cluster.endpoints)


def test_the_deadline_comes_from_the_environment_unless_given(cluster, environment):
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        assert client.timeout == 30
    environment.setenv("FLOTA_TIMEOUT", "2.5")
    with Client(cluster.endpoints, secret=cluster.secret) as client:
        assert client.timeout == 2.5
    with Client(cluster.endpoints, secret=cluster.secret, timeout=7) as client:
        assert client.timeout == 7


@pytest.mark.parametrize("timeout", ["soon", "0", "-1", "nan", ""])
def test_a_deadline_that_is_none_is_refused(cluster, environment, timeout):
    environment.setenv("FLOTA_TIMEOUT", timeout)
    with pytest.raises(InvalidArgument, match=rf"FLOTA_TIMEOUT={timeout} is not a number of seconds above 0"):
        Client(cluster.endpoints, secret=cluster.secret)


def test_a_client_may_wait_for_ever(cluster, name):
    with Client(cluster.endpoints, secret=cluster.secret, timeout=math.inf) as client:
        table = client.create_sparse_table(name, dim=1, rule=SGD())
        assert table.pull_async([1], timeout=math.inf).result(timeout=math.inf).tolist() == [[0.0]]


# --- options of a client ---


REFUSED = {
    "one string": ({"endpoints": "127.0.0.1:7164"}, "must be a list such as"),
    "no endpoints": ({"endpoints": []}, "between 1 and 1,024 server endpoints"),
    "worker 0": ({"worker": 0}, r"worker must be a whole number from 1 to 2\*\*64 - 1, not 0"),
    "worker of 65 bits": ({"worker": 2**64}, "worker must be a whole number"),
    "negative epoch": ({"epoch": -1}, "epoch"),
    "epoch of 33 bits": ({"epoch": 2**32}, "epoch"),
    "unknown transport": ({"transport": "udp"}, "transport must be one of auto, tcp, unix, shared_memory, not 'udp'"),
    "timeout 0": ({"timeout": 0}, "above 0, not 0"),
    "no payload": ({"max_payload_mb": 0}, "max_payload"),
    "TLS over a local socket": ({"transport": "unix", "tls": Tls("authority.pem")}, "tls"),
    "TLS over shared memory": ({"transport": "shared_memory", "tls": Tls("authority.pem")}, "tls"),
}


@pytest.mark.parametrize(("change", "says"), REFUSED.values(), ids=REFUSED)
def test_options_that_make_no_sense_are_refused(cluster, change, says):
    with pytest.raises(InvalidArgument, match=says):
        Client(**{"endpoints": cluster.endpoints, "secret": cluster.secret, **change})


def test_a_worker_has_the_name_it_was_given_or_a_random_one(cluster):
    options = {"endpoints": cluster.endpoints, "secret": cluster.secret}
    with Client(**options, worker=2**64 - 1, epoch=2**32 - 1) as client:
        assert (client.worker, client.epoch) == (2**64 - 1, 2**32 - 1)
    with Client(**options) as one, Client(**options) as another:
        assert one.worker != another.worker
        assert one.epoch == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_works(cluster, name, transport):
    with Client(cluster.endpoints, secret=cluster.secret, transport=transport) as client:
        table = client.create_sparse_table(name, dim=2, rule=SGD(lr=1.0))
        table.push(range(100), torch.ones(100, 2))
        assert torch.all(table.pull(range(100)) == -1)


def test_a_client_sends_messages_no_larger_than_asked(cluster, name):
    with Client(cluster.endpoints, secret=cluster.secret, max_payload_mb=1) as client:
        table = client.create_sparse_table(name, dim=256, rule=SGD(lr=1.0))
        table.push(range(5000), torch.ones(5000, 256))  # 5 MB
        assert torch.all(table.pull(range(5000)) == -1)
        assert sum(server.tables[name]["pushes"] for server in client.statistics()) >= 5


def test_a_server_without_local_sockets_is_reached_by_tcp_only():
    with LocalCluster(arguments=["--no-local-sockets"]) as cluster:
        for transport in ("auto", "tcp"):
            assert cluster.client(transport=transport).servers == 1
        for transport in ("unix", "shared_memory"):
            with pytest.raises(ServerUnavailable, match="server 0"):
                cluster.client(transport=transport, timeout=0.2)


# --- shutdown ---


def wait_for_end(process, timeout=5):
    process._process.wait(timeout)
    return process._process.returncode


def test_a_client_can_end_one_server_or_all():
    with LocalCluster(servers=3) as cluster:
        client = cluster.client()
        client.shutdown(1)
        assert wait_for_end(cluster.servers[1]) == 0
        assert [server.running for server in cluster.servers] == [True, False, True]
        with pytest.raises(ServerUnavailable, match="server 1"):
            client.statistics(timeout=0.2)
        cluster.restart(1)
        client.shutdown()
        assert [wait_for_end(server) for server in cluster.servers] == [0, 0, 0]


# --- TLS ---


def make_certificate(folder, name, hosts, authority, use="server"):
    """A key and a certificate for these hosts, signed by the authority."""
    write(folder, name, _core.issue_certificate(authority, name, hosts, _core.CertificateUse[use], 1))


def write(folder, name, made):
    (folder / f"{name}.pem").write_text(made.certificate)
    (folder / f"{name}.key").write_text(made.key)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    authority, stranger = _core.make_authority("authority", 1), _core.make_authority("stranger", 1)
    write(folder, "authority", authority)
    write(folder, "stranger", stranger)
    make_certificate(folder, "here", ["127.0.0.1"], authority)
    make_certificate(folder, "elsewhere", ["10.1.2.3", "elsewhere.example"], authority)
    make_certificate(folder, "worker", ["worker"], authority, use="client")
    make_certificate(folder, "intruder", ["worker"], stranger, use="client")
    return folder


def tls_arguments(folder, name, *more):
    return ["--tls-certificate", f"{folder}/{name}.pem", "--tls-key", f"{folder}/{name}.key", *more]


@pytest.fixture(scope="module")
def tls_cluster(start_cluster, certificates):
    return start_cluster(servers=2, arguments=tls_arguments(certificates, "here"))


def test_tls_carries_everything(tls_cluster, certificates, name, rng):
    client = tls_cluster.client(transport="tcp", tls=Tls(authority=f"{certificates}/authority.pem"))
    table = client.create_sparse_table(name, dim=64, rule=SGD(lr=1.0))
    keys = torch.arange(20_000)
    table.push(keys, torch.ones(20_000, 64))
    assert torch.all(table.pull(keys) == -1)


def test_a_server_of_a_strange_authority_is_refused(tls_cluster, certificates):
    with pytest.raises(AuthenticationFailed, match=r"server 0 .*certificate"):
        tls_cluster.client(transport="tcp", tls=Tls(authority=f"{certificates}/stranger.pem"), timeout=5)


def test_a_certificate_for_another_host_is_refused_unless_hosts_do_not_matter(start_cluster, certificates):
    cluster = start_cluster(servers=1, arguments=tls_arguments(certificates, "elsewhere"))
    authority = f"{certificates}/authority.pem"
    with pytest.raises(AuthenticationFailed, match=r"(?i)IP address mismatch"):
        cluster.client(transport="tcp", tls=Tls(authority=authority), timeout=5)
    assert cluster.client(transport="tcp", tls=Tls(authority=authority, check_host=False)).servers == 1


def test_without_tls_nobody_gets_in(tls_cluster):
    with pytest.raises(FlotaError, match="TLS"):
        tls_cluster.client(transport="tcp", timeout=0.5)


def test_tls_to_a_server_without_it_says_so(cluster, certificates):
    with pytest.raises(FlotaError, match="TLS"):
        cluster.client(transport="tcp", tls=Tls(authority=f"{certificates}/authority.pem"), timeout=0.5)


def test_the_secret_is_needed_with_tls_also(tls_cluster, certificates):
    with pytest.raises(AuthenticationFailed, match="secret"):
        tls_cluster.client(transport="tcp", tls=Tls(authority=f"{certificates}/authority.pem"), secret="x" * 32)


def test_a_server_can_demand_a_certificate(start_cluster, certificates):
    authority = f"{certificates}/authority.pem"
    cluster = start_cluster(servers=1, arguments=tls_arguments(certificates, "here", "--tls-authority", authority))
    mine = Tls(authority, certificate=f"{certificates}/worker.pem", key=f"{certificates}/worker.key")
    assert cluster.client(transport="tcp", tls=mine).servers == 1
    stolen = Tls(authority, certificate=f"{certificates}/intruder.pem", key=f"{certificates}/intruder.key")
    for tls in (Tls(authority), stolen):
        with pytest.raises(AuthenticationFailed, match="certificate"):
            cluster.client(transport="tcp", tls=tls, timeout=0.5)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"authority": ""}, "needs an authority"),
        ({"authority": "nowhere.pem"}, "cannot read the authority nowhere.pem"),
        ({"certificate": "nowhere.pem", "key": "nowhere.key"}, "cannot read the certificate nowhere.pem"),
        ({"certificate": "{}/worker.pem"}, "a certificate and its key together"),
        ({"certificate": "{}/worker.pem", "key": "{}/here.key"}, "cannot read the key|does not belong"),
    ],
    ids=["no authority", "missing authority", "missing certificate", "no key", "another key"],
)
def test_tls_files_that_do_not_fit_are_refused(tls_cluster, certificates, change, says):
    files = {"authority": "{}/authority.pem", **change}
    tls = Tls(**{name: file.format(certificates) for name, file in files.items()})
    with pytest.raises(InvalidArgument, match=says):
        tls_cluster.client(transport="tcp", tls=tls, timeout=1)
