"""`flota certs`: a set of certificates that other programs understand, and that nobody else can read."""

import contextlib
import re
import socket
import ssl
import stat
import subprocess
import sys

import pytest

from flota import certificates, config
from flota.errors import InvalidArgument


def flota_certs(*arguments, folder):
    command = [sys.executable, "-m", "flota.cli", "certs", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=30)


def names(file):
    """The hosts that a certificate names."""
    found = ssl._ssl._test_decode_cert(str(file))
    return [value for _, value in found["subjectAltName"]]


def test_a_set_is_made_and_explained(tmp_path):
    done = flota_certs("made", "--host", "node1.example", "--host", "10.0.0.7", "--host", "[fd00::7]", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    files = {file.name for file in (tmp_path / "made").iterdir()}
    assert files == {"authority.pem", "authority.key", "server.pem", "server.key"}
    assert names(tmp_path / "made" / "server.pem") == ["node1.example", "10.0.0.7", "FD00:0:0:0:0:0:0:7"]
    assert f"export {config.CERTS}={tmp_path / 'made'}" in done.stdout
    assert "flota launch --certs made" in done.stdout
    assert "valid for 365 days" in done.stdout


def test_client_certificates_are_made_when_asked_for(tmp_path):
    done = flota_certs("made", "--client", "--days", "3", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"client.pem", "client.key", "client_authority.pem"} <= {file.name for file in (tmp_path / "made").iterdir()}
    assert "client.key" in done.stdout


def test_without_hosts_it_is_for_this_one(tmp_path):
    assert flota_certs("made", folder=tmp_path).returncode == 0
    named = set(names(tmp_path / "made" / "server.pem"))
    assert named == {"localhost", "127.0.0.1", "0:0:0:0:0:0:0:1", socket.gethostname()}


def test_keys_were_never_readable_by_others(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates.os, "umask", lambda *_: pytest.fail("modes do not depend on it"))
    folder = certificates.make_set(tmp_path / "made", ["node1"], days=1, client=True)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}
    assert {mode for name, mode in modes.items() if name.endswith(".key")} == {0o600}
    assert list(tmp_path.iterdir()) == [folder], "no draft is left"


@pytest.mark.parametrize("what", ["a set", "a file", "another folder"])
def test_nothing_is_overwritten(tmp_path, what):
    there = tmp_path / "made"
    if what == "a set":
        flota_certs("made", folder=tmp_path)
    elif what == "a file":
        there.write_text("mine")
    else:
        there.mkdir()
        (there / "mine").write_text("mine")
    before = there.read_text() if what == "a file" else {file.name: file.read_bytes() for file in there.iterdir()}
    done = flota_certs("made", folder=tmp_path)
    assert done.returncode == 2
    assert "made is there already, and certificates are never overwritten" in done.stderr
    after = there.read_text() if what == "a file" else {file.name: file.read_bytes() for file in there.iterdir()}
    assert after == before
    assert [file.name for file in tmp_path.iterdir()] == ["made"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["made", "--host", "a,DNS:b"], 2, "'a,DNS:b' is neither a host's name nor its address"),
        (["made", "--days", "0"], 2, "valid for 1 to 3650 days, not 0"),
        (["made", "--days", "soon"], 2, "invalid int value: 'soon'"),
        ([], 2, "name the folder to make, or say --text"),
        (["made", "--text"], 2, "--text makes no folder: leave made out"),
        (["made", "--cilent"], 2, "unrecognized arguments: --cilent"),
        (["/proc/made"], 1, "cannot write certificates to /proc/made"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, arguments, status, says):
    done = flota_certs(*arguments, folder=tmp_path)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_set_travels_as_text(tmp_path):
    """One line, which any launcher passes on; what comes out is what the processes of a job need."""
    done = flota_certs("--text", "--host", "node1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[A-Za-z0-9_=-]+\n", done.stdout)
    assert list(tmp_path.iterdir()) == []
    made = certificates.unpack(done.stdout.strip(), tmp_path / "set")
    assert names(made / "server.pem") == ["node1"]
    assert {file.name for file in made.iterdir()} == {
        "authority.pem", "server.pem", "server.key", "client.pem", "client.key", "client_authority.pem"
    }  # fmt: skip
    assert stat.S_IMODE((made / "server.key").stat().st_mode) == 0o600


def test_text_that_is_no_set_is_refused_and_not_shown(tmp_path):
    text = certificates.job_set_as_text(["node1"])
    bomb = certificates.base64.urlsafe_b64encode(certificates.zlib.compress(b" " * (64 << 20))).decode()
    for damaged in ("", "§", text[:-40], text[:100] + "A" * 20 + text[120:], bomb):
        with pytest.raises(InvalidArgument, match="FLOTA_CERTS_TEXT is not a set") as caught:
            certificates.unpack(damaged, tmp_path / "set")
        assert damaged == "" or damaged not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_tls_library_agrees(certs):
    """Python's own, through a connection: the chain, the hosts, and each certificate's use."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=f"{certs}/client_authority.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(f"{certs}/server.pem", f"{certs}/server.key")
    client = ssl.create_default_context(cafile=f"{certs}/authority.pem")
    client.load_cert_chain(f"{certs}/client.pem", f"{certs}/client.key")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (one, other, one, other):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert other.getpeercert()["subject"] == ((("commonName", "flota worker"),),)
    assert one.version() == "TLSv1.3"
