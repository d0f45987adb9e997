"""What runs the kill matrix and the random schedules tells the truth about them."""

import json
import time

import chaos
import numpy as np
import pytest
from clusterjobs import Outcome, Run
from faults import Fault


def measured(folder, victim, steps, moment):
    """The recovery that is told of a fault at this moment, by the moments of the workers' steps."""
    run = Run(folder, [], "async", faults=[Fault(victim, "push", "kill", "worker 1")])
    (folder / "fault-0.done").write_text(json.dumps({"time": moment, "pid": 1, "step": 5}))
    for rank, times in enumerate(steps):
        np.array(times, dtype=np.float64).tofile(folder / f"steps.{rank}")
    outcome = Outcome()
    run._measure(outcome)
    assert not outcome.error
    return outcome.recovery


@pytest.mark.parametrize(
    ("victim", "steps", "seconds"),
    [
        ("server 1", [[1, 2, 7, 8], [1, 2, 3, 4]], 5),  # between two steps
        ("worker 1", [[4, 5], [6, 7]], 3),  # before any: until there is one
        ("worker 1", [[1, 2, 3, 4], [1, 2]], 7),  # it came back when the others had done its share
        ("server 1", [[1, 2, 3, 4], [1, 2]], 1),  # worker 1 was done before, and waits for nobody
        ("server 1", [[1, 2], [1, 2]], 7),  # at shutdown
    ],
)
def test_recovery_is_measured_whatever_the_moment(tmp_path, victim, steps, seconds):
    begin = time.time() - 10  # so that the job ends at 10
    moved = [[begin + step for step in times] for times in steps]
    assert measured(tmp_path / "job", victim, moved, begin + 3) == pytest.approx(seconds, abs=0.5)


@pytest.mark.parametrize(("told", "names"), [("server 1 (127.0.0.1:7) does not answer", True), ("no room", False)])
def test_a_job_that_ends_names_who_it_was_where_it_says_why(tmp_path, told, names):
    run = Run(tmp_path / "job", [], "async", faults=[Fault("server 1", "push", "stop", "worker 1")])
    (tmp_path / "job" / "output").write_text(
        "INFO launch] server 1 was killed by SIGKILL; starting it again in 1 s\n"
        "flota launch: worker 0 (pid 5) ended with exit status 1, after 9 s; log/workerlog.0 ends:\n"
        f"    flota.errors.DeadlineExceeded: {told}\n"
        "flota launch: stopping server 0, server 1\n"
        "INFO launch] what the servers have is in log/durable of server 1\n"
    )
    assert run._names_a_victim() is names


def test_a_schedule_that_breaks_off_is_told_with_its_seed_and_the_others_are_run(monkeypatch, capsys):
    def break_off(seed, folder):
        if seed == 4:
            raise RuntimeError("server 0 did not come back")
        return "tables", ""

    monkeypatch.setattr(chaos, "run_tables", break_off)
    monkeypatch.setattr("sys.argv", ["chaos.py", "--from=4", "--schedules=2"])
    assert chaos.main() == 1
    told = capsys.readouterr().out
    assert "schedule 4: RuntimeError: server 0 did not come back" in told
    assert "schedule 5: nothing lost" in told
    assert "make chaos ARGS='--seed 4'" in told


@pytest.mark.timeout(120)
def test_a_random_schedule_loses_nothing(tmp_path):
    what, error = chaos.run_tables(0, tmp_path / "job")
    assert not error, f"{what}: {error}"
