"""How one server is kept: by flags, else by the environment, else as it is where nothing is said."""

import os

import pytest
from launched import JOB_NAMES

from flota import server
from flota.errors import InvalidArgument


@pytest.fixture
def kept(monkeypatch):
    """What ``python -m flota.server FLAGS`` would keep, and how."""
    for name in [name for name in os.environ if name.startswith(JOB_NAMES)]:
        monkeypatch.delenv(name)

    def kept(*flags, **settings):
        with monkeypatch.context() as here:
            for name, value in {"SECRET": "x" * 32, **settings}.items():
                here.setenv(f"FLOTA_{name}", value)
            options = server._options(server._parser().parse_args([*flags, "--index=1", "--servers=2"])).durable
        return (
            options.folder, options.sync, options.snapshot_ms / 1000, options.snapshot_bytes / 2**20,
            options.before_damage,
        )  # fmt: skip

    return kept


HOW = {"DURABLE_SYNC": "1", "SNAPSHOT_SECONDS": "20", "SNAPSHOT_MB": "0.5", "RECOVER_BEFORE_DAMAGE": "1"}


def test_the_environment_says_how_the_folder_of_a_flag_is_kept(kept):
    assert kept("--durable=here") == ("here", False, 300, 256, False)
    assert kept("--durable=here", **HOW) == ("here", True, 20, 0.5, True)


def test_flags_win_over_the_environment(kept):
    flags = ["--snapshot_seconds=7", "--snapshot_mb=3"]
    assert kept("--durable=here", *flags, **HOW, DURABLE_DIR="there") == ("here", True, 7, 3, True)
    assert kept(*flags, "--durable_sync", DURABLE_DIR="there") == ("there/server-1", True, 7, 3, False)
    with pytest.raises(InvalidArgument, match="snapshot_mb must be above 0"):
        kept("--durable=here", "--snapshot_mb=0", **HOW)


def test_without_a_folder_there_is_nothing_to_say_about_it(kept):
    assert kept()[0] == ""
    with pytest.raises(InvalidArgument, match=r"FLOTA_SNAPSHOT_MB.*: how a server keeps what it holds; say where"):
        kept(**HOW)
    with pytest.raises(InvalidArgument, match="name the folder by --durable"):
        kept("--recover_before_damage")
