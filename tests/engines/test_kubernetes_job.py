"""What is rendered for Kubernetes is enough for a job: `flota launch`, kubectl, and pods on hosts of their own."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from example import EXAMPLE, OF_EACH_WORKER, WORKERS, example_auc
from hosts import Hosts, missing
from kubelet import Kubelet
from pods import PRIVATE

from kubernetes_api import KubernetesApi
from waiting import wait_until

_LACKS = missing("setpriv", "kubectl")
pytestmark = pytest.mark.skipif(bool(_LACKS), reason=_LACKS or "all is there")

SERVERS = 2


@pytest.fixture
def hosts(tmp_path):
    pytest.importorskip("kubernetes_validate")
    with Hosts(tmp_path, SERVERS + WORKERS + 1, private=PRIVATE) as hosts:
        yield hosts
    for place in PRIVATE:
        with contextlib.suppress(OSError):
            Path(place).rmdir()


@pytest.fixture
def api(tmp_path):
    with KubernetesApi(tmp_path) as api:
        yield api


@pytest.fixture
def kubelet(api, hosts):
    with Kubelet(api, hosts) as kubelet:
        yield kubelet


@pytest.fixture
def flota(tmp_path, api):
    """Gives `flota` a command, in the background; its output is in a file."""
    started = []

    def start(*words):
        output = tmp_path / f"output-{len(started)}"
        environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "flota.cli", *words], cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL, stdout=output.open("wb"), stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
        return process, output

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def launch(flota):
    return lambda *words: flota("launch", "--on=kubernetes", "--image=none", "--name=ads", "--send_script", *words)


@pytest.fixture
def scale(flota):
    """`flota scale ads`, to its end: what it said."""

    def run(workers):
        process, output = flota("scale", "ads", f"--workers={workers}")
        assert process.wait(150) == 0, output.read_text()
        return output.read_text().splitlines()

    return run


def kill_script(host):
    for script in host.processes("-u /run/flota/script/script.py"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(script, signal.SIGKILL)


@pytest.mark.timeout(170)
def test_a_job_trains_over_tls_while_a_server_moves_and_a_worker_dies(kubelet, api, launch, auc_alone):
    process, output = launch(
        f"--server_num={SERVERS}", f"--worker_num={WORKERS}", EXAMPLE, "--mode=sync", *OF_EACH_WORKER
    )
    wait_until(lambda: "step 100" in output.read_text() or process.poll() is not None, timeout=90)
    assert process.poll() is None, output.read_text()

    # The same name and volume, another address; who was connected hears nothing.
    kubelet.node_dies("ads-server-1")
    # As for a lack of memory. The Job makes another pod of the same index.
    kill_script(kubelet.worker(2).host)

    assert process.wait(120) == 0, output.read_text()
    text = output.read_text()
    assert re.search(r"worker 2: flota: worker 2 was started again \(restart 1\)", text)
    assert abs(example_auc(text.replace("worker 0: ", "")) - auc_alone) < 0.005
    assert text.count("test AUC") == 1  # no line is shown twice
    assert api.objects == {}  # nothing is left


@pytest.mark.timeout(300)
def test_workers_come_to_a_job_and_leave_it(kubelet, api, launch, scale):
    """Each sample is a key of its own, and its row counts how often the servers have learnt from it."""
    process, output = launch("--server_num=1", "--worker_num=1", str(Path(__file__).with_name("scaled_pods.py")))
    wait_until(lambda: "worker 0: workers 1" in output.read_text() or process.poll() is not None, timeout=120)
    assert process.poll() is None, output.read_text()
    lines = scale(3)
    assert lines[-1] == "3 workers (1 before)"
    # It comes again, to the job that it has joined.
    kill_script(kubelet.worker(1).host)
    wait_until(lambda: "worker 1: flota: worker 1 was started again" in output.read_text(), timeout=120)
    lines = scale(2)
    assert "worker 2 has left" in lines
    assert lines[-1] == "2 workers (3 before)"

    assert process.wait(120) == 0, output.read_text()
    text = output.read_text()
    assert "the job has 3 workers from now on (1 before)" in text
    assert "worker 2 left" in text
    # What one death may cost, at most, was trained twice: what was read and not told by then.
    (least, twice) = re.findall(r"worker 0: least (\d+) twice (\d+)", text)[0]
    assert int(least) == 1
    assert int(twice) <= 500
    assert api.objects == {}
