"""`flota launch --on kubernetes`, `flota status`, `logs` and `stop` with the real kubectl and an API server of ours.

The server takes and keeps what kubectl sends; what controllers would do, each test does.
"""

import base64
import signal
import threading

import pytest
import yaml
from kubernetes_cluster import JOB, NEEDS, Cluster, wait_for

from kubernetes_api import KubernetesApi
from waiting import wait_until

pytestmark = NEEDS


# --- rendered and given to kubectl ---


@pytest.mark.parametrize("form", ["statefulset", "jobset"])
def test_kubectl_takes_what_a_dry_run_prints(cluster, form):
    printed = cluster.run(*JOB, "--dry-run", "--with_secret", f"--form={form}", "ads.py").stdout
    done = cluster.kubectl("apply", "--dry-run=client", "--filename=-", given=printed)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(list(yaml.safe_load_all(printed)))


@pytest.mark.parametrize("form", ["statefulset", "jobset"])
def test_a_detached_job_is_on_the_cluster(cluster, form):
    # What one parser of YAML takes for text, and another for a number, a date, a truth or nothing.
    words = ["--lr", "1e-3", "1_000", "0o17", "0x1F", "2026-01-01", "1:30", "on", "~", "", "=", ".5", "- a: b", "\tß\n"]
    done = cluster.run(*JOB, "--detach", f"--form={form}", "ads.py", *words)
    assert done.returncode == 0, done.stderr
    jobs = cluster.api.of("jobs") or [cluster.api.of("jobsets")[0]["spec"]["replicatedJobs"][-1]["template"]]
    assert jobs[0]["spec"]["template"]["spec"]["containers"][0]["args"] == ["ads.py", *words]
    assert "started; flota status ads, flota logs ads worker-0, and in the end flota stop ads" in done.stdout
    controllers = ["jobs", "statefulsets"] if form == "statefulset" else ["jobsets"]
    assert set(controllers) < set(cluster.kinds())
    secret = cluster.api.of("secrets")[0]["data"]["secret"]
    text = done.stdout + done.stderr
    assert base64.b64decode(secret).decode() not in text
    assert secret not in text


def test_an_object_that_the_cluster_refuses_leaves_nothing_behind(cluster):
    # An account of this name that is somebody else's.
    cluster.api.add({"apiVersion": "v1", "kind": "NetworkPolicy", "metadata": {"name": "ads-worker"}, "spec": {}})
    done = cluster.run(*JOB, "--detach", "ads.py")
    assert done.returncode == 1
    assert "the cluster did not take the job, and what it had taken is removed again" in done.stderr
    assert 'networkpolicies "ads-worker" already exists' in done.stderr
    wait_until(lambda: cluster.kinds() == ["networkpolicies"])


def test_without_kubectl_it_says_what_to_do(cluster):
    cluster.environment["PATH"] = ""
    done = cluster.run(*JOB, "ads.py")
    assert done.returncode == 2
    assert "kubectl is not on PATH" in done.stderr
    assert "--dry-run" in done.stderr


def test_a_cluster_that_does_not_answer_is_named(cluster):
    cluster.environment["KUBECONFIG"] = str(cluster.folder / "nowhere")
    done = cluster.run("status", "ads")
    assert done.returncode == 1
    said = "The connection to the server localhost:8080 was refused - did you specify the right host or port?"
    assert done.stderr == f"flota status: kubectl api-resources: {said}\n"


def test_a_cluster_without_job_sets_says_so(tmp_path):
    with KubernetesApi(tmp_path, jobsets=False) as api:
        cluster = Cluster(tmp_path, api)
        done = cluster.run(*JOB, "--form=jobset", "ads.py")
        assert done.returncode == 2
        assert "the cluster knows no JobSets" in done.stderr
        assert cluster.run(*JOB, "--detach", "ads.py").returncode == 0


# --- a launch that stays ---


def test_a_job_that_finishes_leaves_nothing(cluster):
    cluster.api.log_of = lambda name, query: [f"2026-01-01T00:00:00Z a line of {name}\n".encode()]
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    cluster.pod("worker", 0, "Succeeded", suffix="-x")
    cluster.pod("worker", 1, "Succeeded", suffix="-x")
    cluster.end("Complete")
    status, output = wait_for(launch)
    assert status == 0, output
    assert "server 0 ready" in output
    assert "worker 1: a line of ads-worker-1-x" in output
    assert "the job ads has finished" in output
    assert cluster.kinds() == []


def test_what_servers_kept_is_left_where_it_is_asked_for(cluster):
    launch = cluster.start(*JOB, "--keep_durable", "ads.py")
    cluster.begin()
    cluster.end("Complete")
    status, output = wait_for(launch)
    assert (status, cluster.kinds()) == (0, ["persistentvolumeclaims"]), output


def test_a_job_that_fails_shows_why_and_can_be_resumed(cluster):
    cluster.api.log_of = lambda name, query: [f"ValueError in {name}\n".encode()]
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    cluster.pod("worker", 1, "Failed", suffix="-x", exit_status=70)
    cluster.end("Failed", "Container worker for pod ml/ads-worker-1-x failed with exit code 70")
    status, output = wait_for(launch)
    assert status == 70
    assert "the end of worker 1's log:\nValueError in ads-worker-1-x" in output
    assert "the job ads has failed: Container worker for pod ml/ads-worker-1-x failed with exit code 70" in output
    assert cluster.api.of("statefulsets") == []
    assert len(cluster.api.of("persistentvolumeclaims")) == 2
    # A new job of this name would take its rows for its own.
    refused = cluster.run(*JOB, "--detach", "ads.py")
    assert refused.returncode == 2
    assert "what servers of a job ads kept is there still: go on with it (--resume)" in refused.stderr
    other = cluster.run(*JOB, "--detach", "--resume", "ads.py", "--epochs", "3")
    assert other.returncode == 2
    assert "the job ads was started with args=[], and this command has ['--epochs', '3']" in other.stderr
    resumed = cluster.run(*JOB, "--detach", "--resume", "ads.py")
    assert resumed.returncode == 0, resumed.stderr
    assert "going on with the job ads" in resumed.stdout
    assert "conditions" not in cluster.api.of("jobs")[0].get("status", {})  # a new one


def test_a_server_that_cannot_start_ends_the_job(cluster):
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    cluster.pod("server", 1, restarts=2, exit_status=70)
    status, output = wait_for(launch)
    assert status == 70
    assert "server 1 (ads-server-1) ends with exit status 70 whenever it is started" in output


def test_what_a_pod_waits_for_is_told(cluster):
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = cluster.pod("worker", 1, "Pending", suffix="-x", conditions=[condition])
    pod["status"]["containerStatuses"] = []
    for line in launch.stdout:
        if f"worker 1 waits: Unschedulable: {message}" in line:
            break
    else:
        raise AssertionError("it was not told")
    cluster.end("Complete")
    assert wait_for(launch)[0] == 0


def test_ctrl_c_stops_the_job_and_keeps_what_servers_kept(cluster):
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    for line in launch.stdout:
        if "worker 1 runs" in line:
            break
    launch.send_signal(signal.SIGINT)
    ended, output = wait_for(launch)
    assert ended == 130
    assert "go on with the same command and --resume" in output
    assert cluster.kinds() == ["persistentvolumeclaims"]


def test_a_cluster_that_is_away_for_a_while_is_waited_for(cluster):
    launch = cluster.start(*JOB, "ads.py")
    cluster.begin()
    away = threading.Event()
    away.set()
    before = cluster.api.of

    def of(plural):
        if away.is_set():
            raise LookupError
        return before(plural)

    cluster.api.of = of
    for line in launch.stdout:
        if "cluster does not answer" in line:
            break
    away.clear()
    for line in launch.stdout:
        if "the cluster answers again" in line:
            break
    cluster.end("Complete")
    assert wait_for(launch)[0] == 0


def test_a_second_job_of_the_same_name_is_refused(cluster):
    assert cluster.run(*JOB, "--detach", "ads.py").returncode == 0
    second = cluster.run(*JOB, "--detach", "ads.py")
    assert second.returncode == 2
    assert "a job ads runs there already: flota status ads" in second.stderr


# --- status, logs, stop ---


@pytest.fixture
def running(cluster):
    assert cluster.run(*JOB, "--detach", "ads.py").returncode == 0
    cluster.begin()
    return cluster


def test_status_tells_of_every_pod(running):
    running.pod("worker", 0, "Succeeded", suffix="-x")
    running.pod("server", 1, ready=False, restarts=3)
    done = running.run("status", "ads")
    assert done.stdout == (
        "ads: running; 1 of 2 servers ready, 1 of 2 workers finished\n"
        "  server 0  ready                  node-0\n"
        "  server 1  not ready, 3 restarts  node-1\n"
        "  worker 0  finished               node-0\n"
        "  worker 1  runs                   node-1\n"
        "  volume durable-ads-server-0: bound\n"
        "  volume durable-ads-server-1: bound\n"
    )
    assert running.run("status").stdout == "ads: running; 1 of 2 servers ready, 1 of 2 workers finished\n"


def test_logs_are_those_of_the_pod_that_is_it_now(running):
    running.api.log_of = lambda name, query: [f"{name} {sorted(query)}\n".encode()]
    running.pod("worker", 1, "Failed", suffix="-a", exit_status=1)
    running.pod("worker", 1, suffix="-b")
    assert running.run("logs", "ads").stdout.startswith("ads-worker-0-x ")
    assert running.run("logs", "ads", "worker-1").stdout.startswith("ads-worker-1-b ")
    assert running.run("logs", "ads", "worker-1", "--previous").stdout.startswith("ads-worker-1-a ")
    assert "'tailLines'" in running.run("logs", "ads", "server-1", "--tail=5").stdout
    refused = running.run("logs", "ads", "worker-7")
    assert refused.returncode == 2
    assert "the job ads has no pod of worker-7: there is server-0, server-1, worker-0, worker-1" in refused.stderr
    assert "NAME=a=b: at most 40 small letters" in running.run("stop", "a=b").stderr
    assert "master is neither server-N nor worker-N" in running.run("logs", "ads", "master").stderr


def test_stop_ends_a_job_and_keeps_what_servers_kept(running):
    done = running.run("stop", "ads")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "stopped the job ads\n"
        "what its servers kept is left in durable-ads-server-0, durable-ads-server-1: flota stop ads --volumes removes "
        "it\n"
    )
    assert running.kinds() == ["persistentvolumeclaims"]
    assert running.run("status", "ads").stdout.startswith("ads: not running; what its servers kept is left\n")
    assert running.run("stop", "ads", "--volumes").returncode == 0
    assert running.kinds() == []
    gone = running.run("stop", "ads")
    assert (gone.returncode, gone.stderr) == (2, "flota stop: there is no job ads: there are none\n")


def test_stop_touches_nothing_else(running):
    for kind in ("ConfigMap", "PersistentVolumeClaim"):
        running.api.add({"kind": kind, "metadata": {"name": "data", "labels": {"app.kubernetes.io/instance": "ads"}}})
    assert running.run("stop", "ads", "--volumes").returncode == 0
    assert running.kinds() == ["configmaps", "persistentvolumeclaims"]
