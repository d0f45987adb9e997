"""Async training as whole jobs: bounds on staleness, merging, receiving, precision."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import flota
from flota.communicator.remote import refuse_what_does_not_act
from flota.communicator.staleness import Staleness
from flota.errors import InvalidArgument
from flota.nn.naming import reset_names
from flota.strategy import Async, as_strategy

HERE = Path(__file__).parent
BATCH = 32


def run(folder, servers, workers, mode=None, optimizer="Adagrad", steps=30, **settings):
    """Runs the script as a job; returns what worker 0 had at the end, and each worker's times."""
    settings = {
        "mode": mode or {},
        "optimizer": optimizer,
        "steps": steps,
        "batch": BATCH,
        "out": str(folder),
    } | settings
    command = [sys.executable, "-m", "flota.launch", f"--server_num={servers}", f"--worker_num={workers}"]
    command += ["--log_dir", str(folder), str(HERE / "async_job.py"), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with np.load(folder / "result.npz") as result:
        trained = {name: result[name] for name in result.files}
    return trained, [json.loads((folder / f"times.{rank}").read_text()) for rank in range(workers)]


@pytest.fixture(scope="module")
def alone():
    """Plain torch in one process, by optimizer and number of steps."""
    sys.path.insert(0, str(HERE))
    import train

    reset_names()
    return lambda optimizer, steps: train.plain_torch(optimizer, steps, BATCH)


def learns(trained):
    return trained["loss"][-10:].mean() < 0.8 * trained["loss"][:5].mean()


@pytest.mark.parametrize("bound", [0, 2])
def test_no_worker_runs_further_ahead_of_a_slow_one_than_allowed(tmp_path, bound):
    _, (fast, slow) = run(tmp_path, 2, 2, {"max_staleness": bound}, steps=25, slow=[1, 0.02])
    leads = []
    for step, time in enumerate(fast["returned"]):
        # How many steps the slow worker had come to the end of when the fast one went on from this one.
        there = sum(finished < time for finished in slow["finished"])
        leads.append(step + 1 - there)
    assert max(leads) == bound, "it runs ahead, and no further than that"


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
def test_one_worker_without_staleness_trains_as_plain_torch_does(tmp_path, alone, optimizer):
    """Every step sees all of the steps before it, in rows and in dense parameters."""
    trained, _ = run(tmp_path, 2, 1, {"max_staleness": 0}, optimizer)
    for name, values in alone(optimizer, 30).items():
        np.testing.assert_allclose(trained[name], values, rtol=1e-5, atol=1e-6, err_msg=name)
    assert trained["staleness"].tolist()[:2] == [0.0, 0.0]


def test_gradients_are_as_stale_as_the_bound_allows_and_no_staler(tmp_path):
    bound = 1
    trained, _ = run(tmp_path, 1, 2, {"max_staleness": bound}, steps=60)
    mean, most, count = trained["staleness/items"]
    assert count == 2 * 60
    # A step that begins after step t sees at least step t - bound of its own, and step t - 2 * bound of the other
    # worker (as far behind as allowed, with as many under way). When its gradient is applied, the other worker has at
    # most begun step t + 2 + 2 * bound (as far ahead as allowed of a worker that is as far ahead of its own pushes).
    assert 0 < mean <= most <= bound + (2 + 4 * bound)
    assert trained["staleness/dense/0.2"][2] == 2 * 60, "dense parameters count, too"


def test_workers_with_less_data_hold_nobody_up(tmp_path):
    trained, times = run(tmp_path, 1, 3, {"max_staleness": 1}, steps=10, uneven=7)
    assert [len(worker["returned"]) for worker in times] == [10, 17, 24]
    assert np.isfinite(trained["loss"]).all()


MODES = {
    "merged": {"max_merge_var_num": 4},
    "merged by threads": {"max_merge_var_num": 2, "thread_pool_size": 3},
    "received now and then": {"min_send_grad_num_before_recv": 3},
    "received by a thread": {"independent_recv_thread": True},
    "bounded and received by a thread": {"max_staleness": 3, "independent_recv_thread": True},
    "bounded and merged": {"max_staleness": 3, "max_merge_var_num": 3, "min_send_grad_num_before_recv": 2},
    "a short queue": {"send_queue_size": 1},
    "everything": {
        "max_merge_var_num": 20,
        "send_queue_size": 20,
        "independent_recv_thread": True,
        "min_send_grad_num_before_recv": 20,
        "thread_pool_size": 20,
        "send_wait_times": 5,
        "launch_barrier": False,
    },
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_every_setting_trains(tmp_path, mode):
    trained, _ = run(tmp_path, 2, 2, mode, steps=200)
    assert learns(trained)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dense_parameters_may_travel_in_fewer_bits(tmp_path, alone, dtype):
    trained, _ = run(tmp_path, 2, 1, {"max_staleness": 0}, "SGD", dense_dtype=dtype)
    plain = alone("SGD", 30)
    # bfloat16 has eight bits of precision: gradients are rounded by a part in 256, and so is what each step sees.
    for name, values in plain.items():
        np.testing.assert_allclose(trained[name], values, atol=0.05, err_msg=name)
    assert any(not np.allclose(trained[name], values, rtol=1e-5, atol=1e-6) for name, values in plain.items())
    # What the servers keep, and a worker has in the end, is not rounded.
    weight = trained["0.weight"]
    assert (weight.view(np.uint32) & 0xFFFF).any()


REFUSED = {
    "wait for nothing": (Async(send_wait_times=3), "send_wait_times=3 has no effect with max_merge_var_num=1"),
    "more than wait": (Async(max_merge_var_num=20), "max_merge_var_num=20 has no effect with send_queue_size=16"),
    "more than are made": (Async(2, max_merge_var_num=4), "max_merge_var_num=4 has no effect with max_staleness=2"),
    "threads": (Async(1, thread_pool_size=3), "thread_pool_size=3 has no effect with max_staleness=1"),
    "queue": (Async(1, send_queue_size=4), "send_queue_size=4 has no effect with max_staleness=1"),
    "too rarely": (Async(1, min_send_grad_num_before_recv=3), "dense parameters would be staler"),
    "thread": (Async(0, independent_recv_thread=True), "every step waits for the newest dense parameters"),
}


@pytest.mark.parametrize(("mode", "says"), REFUSED.values(), ids=REFUSED)
def test_settings_without_effect_are_refused(mode, says):
    with pytest.raises(InvalidArgument, match=says):
        refuse_what_does_not_act(as_strategy(mode))


def test_settings_that_act_are_not():
    for mode in [Async(), Async(0), Async(3, 2, 2, True, 4, 4), *(Async(**mode) for mode in MODES.values())]:
        refuse_what_does_not_act(as_strategy(mode))


def test_nothing_is_stale_where_tables_are_in_the_process():
    flota.init(flota.LocalRoleMaker())
    assert flota.staleness() == Staleness(mean=0.0, max=0, count=0, tables={})
