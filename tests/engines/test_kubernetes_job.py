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
def launch(tmp_path, api):
    """Gives `flota` a command, in the background; its output is in a file."""
    started = []

    def start(*words):
        output = tmp_path / f"launch-{len(started)}"
        environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig), "HOME": str(tmp_path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "flota.cli", "launch", "--on=kubernetes", *words], cwd=tmp_path, env=environment,
            stdin=subprocess.DEVNULL, stdout=output.open("wb"), stderr=subprocess.STDOUT,
        )  # fmt: skip
        started.append(process)
        return process, output

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.timeout(170)
def test_a_job_trains_over_tls_while_a_server_moves_and_a_worker_dies(kubelet, api, launch, auc_alone):
    process, output = launch(
        "--image=none", "--name=ads", "--send_script", f"--server_num={SERVERS}", f"--worker_num={WORKERS}",
        EXAMPLE, "--mode=sync", *OF_EACH_WORKER,
    )  # fmt: skip
    wait_until(lambda: "step 100" in output.read_text() or process.poll() is not None, timeout=90)
    assert process.poll() is None, output.read_text()

    # The same name and volume, another address; who was connected hears nothing.
    kubelet.node_dies("ads-server-1")
    # As for a lack of memory. The Job makes another pod of the same index.
    host = kubelet.pods["ads-worker-2-0"].host
    for script in host.processes("-u /run/flota/script/script.py"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(script, signal.SIGKILL)

    assert process.wait(120) == 0, output.read_text()
    text = output.read_text()
    assert re.search(r"worker 2: flota: worker 2 was started again \(2 times in all\)", text)
    assert abs(example_auc(text.replace("worker 0: ", "")) - auc_alone) < 0.005
    assert text.count("test AUC") == 1  # no line is shown twice
    assert api.objects == {}  # nothing is left
