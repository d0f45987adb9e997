"""Document 002: `paddle version`, `paddle pserver`, `paddle.init`, and a job that is started by hand with them."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from flota import Client, roles
from flota.errors import InvalidArgument
from flota.paddle import legacy
from flota.roles.pservers import settings_given
from flota.rules import SGD

CLUSTER = Path(__file__).parent / "documents" / "cluster"
FLOTA = [sys.executable, "-m", "flota.cli"]


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """No job, no secret, and a home of its own, where one is made."""
    for name in list(os.environ):
        if name.startswith(("FLOTA_SECRET", "PADDLE_", "OMPI_")) or name == "TRAINING_ROLE":
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield monkeypatch
    roles.tell_role_maker(None)


def free_ports(count):
    with contextlib.ExitStack() as held:
        found = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in found]


@contextlib.contextmanager
def started(*commands, folder):
    processes = []
    try:
        for command in commands:
            processes.append(
                subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            )
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


# --- the commands ---


def test_version_has_the_form_of_paddle_version():
    done = subprocess.run([*FLOTA, "version"], capture_output=True, text=True, timeout=30)
    first, *rest = done.stdout.splitlines()
    assert re.fullmatch(r"flota \S+, compiled with", first)
    facts = dict(re.fullmatch(r"    (with_\w+): (ON|OFF)", line).groups() for line in rest)
    assert list(facts) == ["with_avx", "with_gpu", "with_double", "with_python", "with_rdma", "with_timer"]
    assert facts["with_python"] == "ON"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_pserver_in_the_foreground_serves_until_it_is_stopped(environment, tmp_path, number):
    (port,) = free_ports(1)
    command = [*FLOTA, "pserver", f"--port={port}", "--ports_num=1", "--ports_num_for_sparse=1"]
    with started([*command, "--num_gradient_servers=1"], folder=tmp_path) as (pserver,):
        assert pserver.stdout.readline() == f"flota pserver 0 of 1 listening on 127.0.0.1:{port}\n"
        file = tmp_path / "home" / ".config" / "flota" / "secret"
        assert file.stat().st_mode & 0o077 == 0
        for _ in range(2):  # the second job finds no table of the first
            with Client([f"127.0.0.1:{port}"], secret=file.read_text().strip(), timeout=20) as client:
                table = client.create_sparse_table("words", dim=1, rule=SGD(lr=1.0))
                assert table.pull([3]).tolist() == [[0.0]]
                table.push([3], [[1.0]])
                client.shutdown()
            assert "the trainers have ended" in pserver.stdout.readline()
            assert "listening" in pserver.stdout.readline()
        pserver.send_signal(number)
        assert pserver.wait(20) == 0


def test_a_pserver_runs_under_nohup_with_a_log(environment, tmp_path):
    (port,) = free_ports(1)
    pserver = f"{shlex.join(FLOTA)} pserver --port={port} --ports_num=2 --ports_num_for_sparse=1"
    line = f"exec stdbuf -oL nohup {pserver} --num_gradient_servers=1 &> pserver.log"
    with started(["bash", "-c", line], folder=tmp_path) as (process,):
        roles.pservers.use_own_secret()
        endpoints = [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]
        with Client(endpoints, timeout=20) as client:  # both ports serve
            client.create_sparse_table("words", dim=1, rule=SGD(lr=1.0)).push([1, 2, 3], [[1.0]] * 3)
        process.terminate()
        assert process.wait(20) == 0
    assert f"listening on {', '.join(endpoints)}" in (tmp_path / "pserver.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--ports_num=0"], "ports_num must be a whole number from 1"),
        (["--port=65535", "--ports_num=2"], "there is none above 65535"),
        (["--num_gradient_servers=0"], "a job has at least one"),
        (["--host=0.0.0.0"], "set FLOTA_SECRET"),
        (["--ports=1"], "unrecognized arguments"),
    ],
)
def test_a_pserver_refuses_what_makes_no_sense(environment, arguments, says):
    done = subprocess.run([*FLOTA, "pserver", *arguments], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert says in done.stderr


# --- paddle.init ---


def test_arguments_win_over_the_environment(environment):
    environment.setenv("PADDLE_INIT_PORT", "9000")
    environment.setenv("PADDLE_INIT_TRAINER_COUNT", "3")
    environment.setenv("PADDLE_INIT_USE_GPU", "False")
    environment.setenv("PADDLE_INIT_PSERVERS", "127.0.0.1")
    environment.setenv("PADDLE_INIT_PORTS_NUM", "2")
    legacy.init(trainer_id=2, port=7164, trainer_count=4)
    place = roles.default_role_maker().placement()
    assert place == roles.Placement(roles.Role.WORKER, 2, 4, ("127.0.0.1:7164", "127.0.0.1:7165"))


def test_the_documents_arguments_are_its_defaults():
    settings, job = settings_given({})
    assert not job
    listing = {
        "use_gpu": False, "trainer_count": 1, "port": 7164, "ports_num": 1, "ports_num_for_sparse": 1,
        "num_gradient_servers": 1, "trainer_id": 0, "pservers": "127.0.0.1",
    }  # fmt: skip
    assert settings_given(listing) == (settings, True)
    assert settings.servers == ("127.0.0.1:7164",)


def test_without_the_jobs_settings_a_process_trains_alone(environment):
    legacy.init(use_gpu=False, trainer_count=1)
    assert roles.default_role_maker().placement().local


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"trainer_cout": 1}, "paddle.init has no 'trainer_cout'; did you mean 'trainer_count'"),
        ({"trainer_id": 1}, "trainer_id, with trainer_count=1 .* from 0 to 0, not 1"),
        ({"pservers": "a,b"}, "num_gradient_servers=1, but pservers=a,b names 2: it is the number of pservers"),
        ({"pservers": ""}, "pservers is empty"),
        ({"pservers": "10.9.8.7"}, "pserver 10.9.8.7:7164 is on another host: set FLOTA_SECRET"),
        ({"port": 0}, "port must be a whole number from 1"),
        ({"use_gpu": "no"}, "use_gpu must be True or False"),
        pytest.param({"use_gpu": True}, "gpu", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="has one")),
    ],
)
def test_what_makes_no_sense_is_refused(environment, arguments, says):
    def place():
        legacy.init(**arguments)
        return roles.default_role_maker().placement()

    with pytest.raises(InvalidArgument, match=says):
        place()


def test_a_launcher_beside_it_is_refused(environment):
    legacy.init(trainer_id=0)
    environment.setenv("TRAINING_ROLE", "TRAINER")
    with pytest.raises(InvalidArgument, match="so does the environment"):
        roles.default_role_maker()


# --- the job ---


def test_a_job_that_is_started_by_hand_learns(environment, tmp_path):
    folder = tmp_path / "cluster"
    shutil.copytree(CLUSTER, folder)
    subprocess.run([sys.executable, "prepare.py"], cwd=folder, check=True, timeout=30)
    ports = free_ports(2)
    for name, value in {
        "USE_GPU": "False", "TRAINER_COUNT": "2", "PORT": str(ports[0]), "PORTS_NUM": "1", "PORTS_NUM_FOR_SPARSE": "1",
        "NUM_GRADIENT_SERVERS": "2", "TRAINER_ID": "0", "PSERVERS": f"127.0.0.1,127.0.0.1:{ports[1]}",
    }.items():  # fmt: skip
        environment.setenv(f"PADDLE_INIT_{name}", value)
    pserver = [*FLOTA, "pserver", "--ports_num=1", "--ports_num_for_sparse=1", "--num_gradient_servers=2"]
    trainer = [sys.executable, "-m", "flota.paddle", "train.py"]
    with started(
        *([*pserver, f"--port={port}"] for port in ports),
        *(["env", f"OMPI_COMM_WORLD_RANK={rank}", *trainer] for rank in range(2)),
        folder=folder,
    ) as (*pservers, first, second):
        outputs = [process.communicate(timeout=100)[0] for process in (first, second)]
        for process in pservers:
            process.terminate()
        assert [process.wait(20) for process in pservers] == [0, 0]
    for rank, output in enumerate(outputs):
        assert f"trainer {rank} of 2 reads ./train_data_dir/train.txt-0000{rank}," in output, output
        # A guess costs ln 60 = 4.1; who knows how the text is made, 1.6.
        assert float(re.search(r"Test cost (\S+)", output)[1]) < 2.2
