"""A launch keeps others out of its job: a secret and certificates, without anybody having to ask."""

import json
import socket
from pathlib import Path

import pytest

from flota.launch.certs import make_set

SECRET = "0123456789abcdef0123456789abcdef"
ELSEWHERE = "10.255.255.1"  # an address that no host here has

# Who is told what, and what the certificates are.
TELL = """
certs = os.environ.get("FLOTA_CERTS", "")
told = {name: value for name, value in os.environ.items() if name.startswith("FLOTA_")}
modes = [oct(Path(certs).stat().st_mode)[-3:], sorted(os.listdir(certs))] if certs else []
Path(f"{me}.json").write_text(json.dumps([told, modes]))
if is_server:
    serve()
ready()
"""

TRAIN = """
import flota, torch
flota.init()
model = flota.nn.Embedding(None, 2)
optimizer = flota.distributed_optimizer(torch.optim.SGD(model.parameters(), lr=0.1), flota.Async())
ready()
if flota.is_server():
    flota.init_server()
    flota.run_server()
else:
    flota.init_worker()
    client = flota.Client(flota.server_endpoints(), transport="tcp")
    print("servers by TCP:", client.servers)
    client.close()
    flota.stop_worker()
"""


@pytest.fixture
def here():
    """An address of this host that others reach it by; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("this host has no address but loopback")
        return probe.getsockname()[0]


def told(launch, name="worker.0"):
    return json.loads((launch.folder / f"{name}.json").read_text())


def test_a_job_on_loopback_needs_no_certificates(start):
    launch = start(TELL)
    assert launch.wait() == 0, launch.output
    assert "TLS" not in launch.output
    assert set(told(launch)[0]) == {"FLOTA_SECRET", "FLOTA_REPORT", "FLOTA_RESTARTS"}


def test_a_job_on_another_address_of_this_host_gets_certificates(start, here):
    launch = start(TELL, f"--ips={here}")
    assert launch.wait() == 0, launch.output
    settings, (mode, files) = told(launch)
    assert mode == "700"
    assert "authority.key" not in files
    assert {"server.key", "client.key", "client_authority.pem"} <= set(files)
    assert not Path(settings["FLOTA_CERTS"]).exists(), "they end with the launch"
    assert next(line for line in launch.output.splitlines() if "TLS" in line).endswith("(--insecure: none)")


def test_it_trains_over_tls_without_anybody_asking(start, here):
    launch = start(TRAIN, f"--ips={here}")
    assert launch.wait(60) == 0, launch.output
    assert "servers by TCP: 1" in launch.log("workerlog.0")


@pytest.mark.parametrize("given", ["--certs", "FLOTA_CERTS", "--insecure", "FLOTA_INSECURE"])
def test_what_is_given_is_used(start, here, tmp_path, given):
    make_set(tmp_path / "mine", [here], days=1, client=False)
    flags = {"--certs": ["--certs=mine"], "--insecure": ["--insecure"]}.get(given, [])
    settings = {"FLOTA_CERTS": str(tmp_path / "mine"), "FLOTA_INSECURE": "1"}
    launch = start(TRAIN, f"--ips={here}", *flags, **{name: settings[name] for name in [given] if name in settings})
    assert launch.wait(60) == 0, launch.output
    assert "servers by TCP: 1" in launch.log("workerlog.0")
    assert "this launch has made" not in launch.output
    if flags:
        assert f"\n{given[2:]}: " in launch.output


def test_flags_win_over_the_environment(start, here, tmp_path):
    make_set(tmp_path / "mine", [here], days=1, client=False)
    launch = start(TELL, f"--ips={here}", "--insecure", FLOTA_CERTS=str(tmp_path / "mine"))
    assert launch.wait() == 0, launch.output
    assert (told(launch)[0]["FLOTA_INSECURE"], told(launch)[0]["FLOTA_CERTS"]) == ("1", "")


REFUSED = {
    "several hosts without certificates": (
        [f"--servers={ELSEWHERE}:6170", "--workers=127.0.0.1:6171"],
        f"{ELSEWHERE}:6170 is reached over a network, and the job has no certificates: make some with `flota certs`",
    ),
    "both": (["--certs=mine", "--insecure"], "--certs and --insecure contradict each other"),
    "a folder without them": (["--certs=."], "has no server.pem, which a server needs: make a set with flota certs"),
}


@pytest.mark.parametrize(("flags", "says"), REFUSED.values(), ids=REFUSED)
def test_a_job_that_would_be_unprotected_is_refused_before_anything_starts(start, flags, says):
    launch = start("ready()", *flags, FLOTA_SECRET=SECRET)
    assert launch.wait() == 2
    assert says in launch.output
    assert launch.all_pids() == []


def test_a_secret_is_in_no_output_log_or_command_line(start):
    script = """
    print("I am", me)
    if is_server:
        serve()
    ready()
    wait_for("server.0")
    pids = [os.getpid(), os.getppid(), Path("pids/server.0").read_text()]
    Path("lines").write_bytes(b"".join(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids))
    Path("secret").write_text(os.environ["FLOTA_SECRET"])
    """
    launch = start(script)
    assert launch.wait() == 0, launch.output
    secret = (launch.folder / "secret").read_text()
    assert len(secret) == 64
    assert secret not in launch.output + launch.log("serverlog.0") + launch.log("workerlog.0")
    lines = (launch.folder / "lines").read_bytes()
    assert lines.count(b"train.py") == 3
    assert secret.encode() not in lines
