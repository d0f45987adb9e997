"""Certificates for the tests, and an environment that says nothing of any job."""

import os

import pytest

from flota import config
from flota.launch.certs import make_set


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in (config.SECRET, config.SECRET_FILE, *config.PROTECTION):
        monkeypatch.delenv(name, raising=False)
    assert not [name for name in os.environ if name.startswith("FLOTA_TLS")]


@pytest.fixture(scope="session")
def certs(tmp_path_factory):
    """A set for this host, with a certificate for clients."""
    folder = tmp_path_factory.mktemp("tls") / "certs"
    return make_set(folder, ["127.0.0.1", "localhost", "::1"], days=1, client=True)
