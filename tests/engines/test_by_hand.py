"""Jobs whose processes are started on each host by hand: pservers and trainers of 0.10, and launches with lists."""

import os
import re
import signal
import sys

import pytest
from hosts import Hosts, missing

from flota.certificates import make_set
from waiting import wait_until

LACKS = missing()
pytestmark = pytest.mark.skipif(bool(LACKS), reason=LACKS or "all is there")

FLOTA = [sys.executable, "-m", "flota.cli"]

TRAIN = """
import sys
import numpy as np
import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

paddle.init(trainer_id=int(sys.argv[1]), pservers="h1,h2")
fleet.init()
x = fluid.layers.data(name="x", shape=[4], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
cost = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=x, size=1), label=y))
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(learning_rate=0.1), strategy).minimize(cost)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fleet.startup_program)
fleet.init_worker()
rng = np.random.default_rng(fleet.worker_index())
for step in range(60):
    values = rng.random((32, 4), dtype="float32")
    feed = {"x": values, "y": values.sum(axis=1, keepdims=True)}
    (loss,) = exe.run(fleet.main_program, feed=feed, fetch_list=[cost])
print("trainer", fleet.worker_index(), "of", fleet.worker_num(), "servers", fleet.server_num(), "cost", float(loss))
fleet.stop_worker()
"""

# Says who it is, without torch. Servers end when all workers have.
WHO = """
import os, time
from pathlib import Path
from flota import config, report
from flota.roles import Role, default_role_maker
place = default_role_maker().placement()
traffic = "TLS" if config.has_certificates() else "no TLS"
print(place.role.name, place.index, "of", place.worker_num, traffic, flush=True)
if place.role is Role.WORKER:
    report.finished()
    Path(f"done-{place.index}").touch()
while not all(Path(f"done-{i}").exists() for i in range(place.worker_num)):
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    with Hosts(tmp_path_factory.mktemp("by-hand"), 3) as hosts:
        yield hosts


@pytest.fixture
def env(hosts, tmp_path):
    """What each host is told: the files of a secret and of certificates, and the settings of 0.10."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    secret.chmod(0o600)
    certs = make_set(tmp_path / "certs", [host.name for host in hosts], days=1, client=True)
    job = {"FLOTA_SECRET_FILE": str(secret), "FLOTA_CERTS": str(certs), "OMP_NUM_THREADS": "1"}
    settings = {"TRAINER_COUNT": 2, "NUM_GRADIENT_SERVERS": 2, "PORT": 7164, "TRAINER_ID": 9, "PSERVERS": "h9"}
    return {**os.environ, **job, **{f"PADDLE_INIT_{name}": str(value) for name, value in settings.items()}}


def test_pservers_and_trainers_of_0_10_on_three_hosts_with_tls(hosts, tmp_path, env):
    (tmp_path / "train.py").write_text(TRAIN)
    serve = ["pserver", "--port=7164", "--ports_num=1", "--ports_num_for_sparse=1", "--num_gradient_servers=2"]
    foreground = hosts[0].start([*FLOTA, *serve], cwd=tmp_path, env=env)
    # As the document starts it in the background: the shell that did so is gone.
    nohup = f"nohup {' '.join([*FLOTA, *serve])} > pserver.log 2>&1 &"
    hosts[1].run(["sh", "-c", nohup], cwd=tmp_path, env=env)
    train = [sys.executable, "-m", "flota.paddle", "train.py"]
    trainers = [host.start([*train, str(i)], cwd=tmp_path, env=env) for i, host in enumerate((hosts[0], hosts[2]))]
    assert [trainer.wait(90) for trainer in trainers] == [0, 0], trainers[0].output + trainers[1].output
    costs = re.findall(r"trainer (\d) of 2 servers 2 cost (\S+)", trainers[0].output + trainers[1].output)
    assert sorted(trainer for trainer, _ in costs) == ["0", "1"]
    assert all(float(cost) < 0.1 for _, cost in costs)
    ended = "the trainers have ended; the next job begins with empty tables"
    wait_until(lambda: ended in foreground.output and ended in (tmp_path / "pserver.log").read_text())
    assert "flota pserver 0 of 2 listening on 0.0.0.0:7164" in foreground.output
    foreground.signal(signal.SIGINT)
    assert foreground.wait(20) == 0
    os.kill(max(hosts[1].processes("flota.cli pserver")), signal.SIGTERM)


def test_a_trainer_without_the_secret_is_told_what_to_do(hosts, tmp_path, env):
    (tmp_path / "train.py").write_text(TRAIN)
    del env["FLOTA_SECRET_FILE"]
    words = [sys.executable, "-m", "flota.paddle", "train.py", "0"]
    said = hosts[2].run(words, cwd=tmp_path, env=env, check=False)
    assert "pserver h1:7164 is on another host: set FLOTA_SECRET" in said


def test_one_command_with_lists_on_each_host_is_one_job(hosts, tmp_path, env):
    (tmp_path / "who.py").write_text(WHO)
    env = {name: value for name, value in env.items() if not name.startswith("PADDLE_INIT_")}
    servers, workers = "--servers=h1:6170,h2:6170", "--workers=h1:6171,h2:6171,h3:6171"
    words = [*FLOTA, "launch", servers, workers, "--no_durable", "who.py"]
    launches = [host.start(words, cwd=tmp_path, env=env) for host in hosts]
    assert [launch.wait(60) for launch in launches] == [0, 0, 0], launches[2].output
    logs = {log.name: log.read_text() for log in (tmp_path / "log").iterdir()}
    assert logs == {
        **{f"serverlog.{i}": f"SERVER {i} of 3 TLS\n" for i in range(2)},
        **{f"workerlog.{i}": f"WORKER {i} of 3 TLS\n" for i in range(3)},
    }
