"""What pages have readers do on several hosts, done on hosts that are namespaces of this machine."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from blocks import blocks_of
from checked import ON_HOSTS
from hosts import Hosts, missing
from patching import patched
from running import AROUND, compare
from sshd import Cluster

LACKS = missing("sshd")
pytestmark = pytest.mark.skipif(bool(LACKS), reason=LACKS or "all is there")
COPY = "# copy both to each host"  # what stands before it is done on one host, what stands after it on each


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("hosts"), 3) as hosts:
        yield hosts


@pytest.fixture
def environment(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FLOTA_", "PADDLE_"))}
    return {**kept, "PATH": path, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}


@pytest.mark.parametrize(("page", "count"), [("docs/clusters/by_hand.md", 3), ("docs/security.md", 2)])
def test_the_same_commands_on_each_host_are_one_job(hosts, tmp_path, environment, page, count):
    text = "\n".join(block.text for block in blocks_of(page) if (page, block.first_line) in ON_HOSTS)
    once, _, on_each = text.partition(COPY)
    assert "flota certs" in once
    assert "flota launch" in on_each
    folder = tmp_path / "job"
    shutil.copytree(AROUND / "few_steps", folder)
    hosts[0].run(["bash", "-euc", once], cwd=folder, env=environment)
    # Its comment ends with the line. The hosts see one folder: nothing is left to copy.
    commands = on_each.partition("\n")[2]
    launches = [hosts[i].start(["bash", "-euc", commands], cwd=folder, env=environment) for i in range(count)]
    assert [launch.wait(90) for launch in launches] == [0] * count, launches[0].output + launches[1].output
    for i in range(count):
        assert f"worker {i} of {count} on h{i + 1}\n" in (folder / f"log/workerlog.{i}").read_text()


def script_of(page, name):
    """The file as a reader has it who has made all changes of the page."""
    text = ""
    for block in blocks_of(page):
        if block.marks.get("file") == name:
            text = patched(text, block.text, block.where) if block.language == "diff" else block.text + "\n"
    return text


def test_the_tutorial_ends_on_three_hosts(tmp_path, environment):
    page = "docs/tutorial.md"
    blocks = blocks_of(page)
    (place,) = [i for i, block in enumerate(blocks) if (page, block.first_line) in ON_HOSTS]
    private = ("/root/.ssh", "/root/flota-jobs")
    with Hosts(tmp_path / "hosts", 3, private=private) as hosts:
        cluster = Cluster(hosts, tmp_path / "work")
        (cluster.folder / "train.py").write_text(script_of(page, "train.py"))
        said = cluster.head.run(
            ["bash", "-euo", "pipefail", "-c", blocks[place].text],
            cwd=cluster.folder, env={**environment, "HOME": "/root"}, timeout=110,
        )  # fmt: skip
    compare(blocks[place + 1], said)
