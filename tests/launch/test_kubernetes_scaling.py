"""`flota scale NAME --workers N` with the real kubectl, a real server 0 asked by `kubectl exec`, and a Job whose
controller is the tests'.
"""

import signal

import pytest
from kubernetes_cluster import JOB, NEEDS, wait_for
from kubernetes_workers import MODE, SECRET, Workers

from flota.launch.arguments import parse
from flota.launch.kubernetes.objects import objects_of
from flota.launch.kubernetes.settings import settings_of
from waiting import wait_until

pytestmark = [*NEEDS, pytest.mark.timeout(170)]


@pytest.fixture
def workers(cluster):
    with Workers(cluster) as workers:
        yield workers


@pytest.fixture
def running(cluster, workers):
    begin(cluster, workers)
    return cluster


def begin(cluster, workers):
    settings = settings_of(parse([*JOB[1:], "ads.py"], "flota launch"))
    for thing in objects_of(settings, {"secret": SECRET}):
        cluster.api.create(thing)
    cluster.volumes()
    wait_until(lambda: len(workers.started) == 2 and workers.team() == (2, 2), timeout=60)


def scale(cluster, workers, *flags):
    return cluster.run("scale", "ads", f"--workers={workers}", *flags, timeout=120)


def scaled(cluster, workers):
    done = scale(cluster, workers)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def kept(cluster):
    volume = cluster.api.objects["persistentvolumeclaims", "durable-ads-server-0"]
    return volume["metadata"]["annotations"].get("flota/workers")


def test_a_job_grows_and_shrinks_and_grows_again(running, workers):
    lines = scaled(running, 4)
    assert [line for line in lines if "joined" in line] == ["worker 2 has joined", "worker 3 has joined"]
    assert lines[-1] == "4 workers (2 before)"
    assert (workers.numbers, workers.team(), kept(running)) == (4, (4, 4), "4")
    lines = scaled(running, 1)
    assert lines[0] == "workers 1, 2, 3 will leave after the batch at hand"
    assert lines[-1] == "1 worker (4 before)"
    assert (workers.numbers, workers.team(), kept(running)) == (1, (1, 1), "1")
    assert running.run("status").stdout == "ads: running; 0 of 0 servers ready, 0 of 1 workers finished\n"
    # Those that have left were not started again, and begin anew when they are wanted.
    assert workers.started == [0, 1, 2, 3]
    assert scaled(running, 2)[-2:] == ["worker 1 has joined", "2 workers (1 before)"]
    assert workers.started == [0, 1, 2, 3, 1]
    assert scaled(running, 2) == ["2 workers (2 before)"]
    assert workers.broken == []


def test_who_has_something_to_do_after_its_goodbye_may_do_it(running, workers):
    workers.after_goodbye.clear()
    late = scale(running, 1, "--timeout=6")
    assert late.returncode == 1
    assert "waited for worker 1 to end, after having left; it goes on without this command" in late.stderr
    assert workers.numbers == 2
    workers.after_goodbye.set()
    wait_until(lambda: 1 in workers.completed)
    assert scaled(running, 1) == ["1 worker (1 before)"]
    assert (workers.numbers, workers.broken) == (1, [])


def test_a_worker_for_which_there_is_no_room_does_no_harm(running, workers):
    workers.no_room = {2}
    late = scale(running, 3, "--timeout=6")
    assert late.returncode == 1
    assert "worker 2 waits: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu." in late.stdout
    assert "nothing new for 6 s: waited for worker 2 (waits: Unschedulable" in late.stderr
    assert scaled(running, 2) == ["2 workers (2 before)"]
    assert (workers.numbers, workers.started) == (2, [0, 1])


def test_a_worker_that_could_not_join_is_taken_back(running, workers):
    workers.fail = {3}
    failed = scale(running, 5)
    assert failed.returncode == 1
    assert failed.stderr == (
        "flota scale: worker 3 could not join: it ended with exit status 1; the job goes on with 3 workers\n"
    )
    wait_until(lambda: workers.team() == (3, 3))
    assert (workers.numbers, kept(running)) == (3, "3")
    workers.fail.clear()
    assert scaled(running, 4)[-1] == "4 workers (3 before)"


def test_a_worker_whose_pods_are_killed_is_taken_back_before_they_end_the_job(running, workers):
    workers.killed = {2}
    failed = scale(running, 3)
    assert failed.returncode == 1
    assert "worker 2 could not join: its pods failed 3 times; the job goes on with 2 workers" in failed.stderr
    assert workers.numbers == 2
    assert "conditions" not in workers.job["status"]


def test_a_command_that_was_killed_is_mended_by_the_next(running, workers):
    scaled(running, 3)
    workers.after_goodbye.clear()
    command = running.start("scale", "ads", "--workers=1")
    for line in command.stdout:
        if "worker 1 has left" in line:
            break
    command.send_signal(signal.SIGKILL)
    workers.after_goodbye.set()
    command.communicate(timeout=60)
    wait_until(lambda: workers.completed == {1, 2})
    # As it was left: done for the Job, and gone for server 0.
    assert (workers.numbers, workers.team()) == (3, (1, 1))
    lines = scaled(running, 4)
    assert "worker 1 had left, and begins anew: first the job goes down to 1 worker" in lines
    assert lines[-1] == "4 workers (1 before)"
    assert (workers.numbers, workers.team()) == (4, (4, 4))
    assert workers.started == [0, 1, 2, 1, 2, 3]


def test_of_two_commands_the_later_holds(running, workers):
    workers.no_room = {2}
    first = running.start("scale", "ads", "--workers=3")
    for line in first.stdout:
        if "Unschedulable" in line:
            break
    assert scaled(running, 1)[-1] == "1 worker (2 before)"
    status, output = wait_for(first)
    assert status == 1
    assert "another command asks for 1 worker: that holds" in output
    assert workers.numbers == 1


def test_a_job_whose_controller_is_slow_is_waited_for(running, workers):
    scaled(running, 3)
    # The Job's status still says that worker 2 is done when its numbers are lower again.
    command = running.start("scale", "ads", "--workers=2", "--timeout=6")
    wait_until(lambda: 2 in workers.completed, timeout=60)
    workers.counts = False
    wait_until(lambda: workers.numbers == 2, timeout=60)
    status, output = wait_for(command)
    assert status == 1
    assert "waited for the cluster to forget the workers that have left" in output
    workers.counts = True
    assert scaled(running, 3)[-1] == "3 workers (2 before)"
    assert workers.started == [0, 1, 2, 2]


def test_a_change_by_somebody_else_is_seen(running, workers):
    patch, tried = running.api.patch, []

    def another_first(plural, name, changes):
        if plural == "jobs" and not tried:
            tried.append(changes)
            patch("jobs", name, {"metadata": {"labels": {"seen": "yes"}}})
        return patch(plural, name, changes)

    running.api.patch = another_first
    assert scaled(running, 3)[-1] == "3 workers (2 before)"
    assert tried[0]["spec"] == {"completions": 3, "parallelism": 3}


def test_a_job_that_is_resumed_has_the_number_that_it_was_left_with(running, workers):
    scaled(running, 3)
    assert running.run("stop", "ads").returncode == 0
    workers.counts = False
    done = running.run(*JOB, "--detach", "--resume", "ads.py")
    assert done.returncode == 0, done.stderr
    assert "3 workers in place of 2: so many there were to be (flota scale)" in done.stdout
    assert workers.numbers == 3
    container = workers.job["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "PADDLE_TRAINERS_NUM", "value": "3"} in container["env"]


def test_a_launch_tells_of_another_number_and_ends_without_those_who_never_came(cluster, workers):
    launch = cluster.start(*JOB, "ads.py")
    wait_until(lambda: cluster.api.of("statefulsets"), timeout=60)
    cluster.volumes()
    wait_until(lambda: len(workers.started) == 2 and workers.team() == (2, 2), timeout=60)
    workers.no_room = {3}
    late = scale(cluster, 4, "--timeout=6")
    assert "worker 2 has joined" in late.stdout
    for index in range(3):
        workers.finish(index)
    status, output = wait_for(launch)
    assert status == 0, output
    assert "the job has 4 workers from now on (2 before)" in output
    assert "worker 3 never came: the job ends without" in output
    assert "the job ads has finished" in output


def test_what_cannot_be_met_says_why(running, workers):
    for words, why in {
        ("scale", "ads", "--workers=20000"): "a job on Kubernetes has at most 10000",
        ("scale", "ada", "--workers=2"): "there is no job ada: there is ads",
        ("scale", "ads", "--workers=2", "--log_dir=log"): "--log_dir and the name ads contradict each other",
        ("scale", "--workers=2", "--namespace=ml"): "--namespace is of a job on Kubernetes: say its name",
        ("scale", "ads", "--workers=2", "--contxt=a"): "did you mean --context?",
    }.items():
        done = running.run(*words)
        assert done.returncode == 2, words
        assert why in done.stderr


def test_who_may_not_run_commands_in_pods_is_told_so(running, workers):
    why = workers.api.no_exec = 'pods "ads" is forbidden: User "eve" cannot create resource "pods/exec"'
    done = scale(running, 3)
    assert done.returncode == 1
    assert done.stderr.startswith("flota scale: server 0 could not be asked from worker 0 (kubectl exec ads-worker-0-")
    assert why in done.stderr
    assert (workers.numbers, workers.team()) == (2, (2, 2))


def test_a_job_set_is_not_scaled(cluster):
    assert cluster.run(*JOB, "--detach", "--form=jobset", "ads.py").returncode == 0
    done = scale(cluster, 3)
    assert done.returncode == 2
    assert "ads is a JobSet, whose jobs keep the numbers that it was made with" in done.stderr


def test_a_job_in_sync_mode_says_why_its_number_is_fixed(cluster):
    with Workers(cluster, mode=MODE.synchronous) as workers:
        begin(cluster, workers)
        done = scale(cluster, 3)
        assert done.returncode == 1
        assert "this job trains in sync mode, where the number of workers is fixed" in done.stderr
        assert workers.numbers == 2
