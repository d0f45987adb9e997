"""What the workers of a job do together: metrics of all, and fleet.util."""

import json
import subprocess
import sys

import numpy as np
import pytest

import flota.paddle as paddle
from flota.errors import InvalidArgument
from flota.metrics import roc_auc
from flota.paddle.distributed import metrics
from flota.paddle.graph.scope import Scope, scope_guard

SCRIPT = """
import json
import numpy as np
import paddle
import paddle.distributed.fleet as fleet

paddle.enable_static()
fleet.init()
x = paddle.static.data("x", [None, 1], "float32")
label = paddle.static.data("label", [None, 1], "int64")
chance = paddle.nn.functional.sigmoid(paddle.static.nn.fc(x, 1))
loss = paddle.mean(paddle.nn.functional.log_loss(chance, paddle.cast(label, "float32")))
both = paddle.concat([1 - x, x], 1)
auc, batch_auc, [_, _, stat_pos, stat_neg] = paddle.static.auc(both, label)
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    me = fleet.worker_index()
    rng = np.random.default_rng(me)
    scores = rng.random((200, 1)).astype("float32")
    labels = (rng.random((200, 1)) < scores).astype("int64")
    executor.run(feed={"x": scores, "label": labels})
    found = {
        "auc": fleet.metrics.auc(stat_pos, stat_neg.name),
        "sum": fleet.metrics.sum(np.array([1, me])).tolist(),
        "max": fleet.metrics.max(np.array([me])).tolist(),
        "min": fleet.metrics.min(np.array([me])).tolist(),
        "acc": fleet.metrics.acc(np.array([3 * me]), np.array([4])),
        "rmse": fleet.metrics.rmse(np.array([8.0 * me]), np.array([1.0]), util=fleet.util),
        "gathered": fleet.util.all_gather(input=me),
        "reduced": fleet.util.all_reduce(input=np.array([me, 1]), mode="max").tolist(),
        "files": fleet.util.get_file_shard(["a", "b", "c"]),
    }
    fleet.util.barrier()
    fleet.util.print_on_rank("said by one", rank_id=1)
    print("FOUND", json.dumps(found))
    fleet.stop_worker()
"""


def test_metrics_and_util_are_of_all_workers(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [
        sys.executable, "-m", "flota.paddle", "-m", "paddle.distributed.launch", "--server_num=1", "--worker_num=2",
        "--view=none", "train.py",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    logs = [(tmp_path / "log" / f"workerlog.{i}").read_text() for i in range(2)]
    found = [json.loads(log.split("FOUND ")[1].splitlines()[0]) for log in logs]
    assert [each.pop("files") for each in found] == [["a", "b"], ["c"]]
    assert found[0] == found[1]
    scores, labels = [], []
    for me in range(2):
        rng = np.random.default_rng(me)
        scores.append(rng.random(200).astype("float32"))
        labels.append(rng.random(200) < scores[-1])
    assert found[0].pop("auc") == pytest.approx(roc_auc(np.concatenate(scores), np.concatenate(labels)), abs=1e-3)
    assert found[0] == {
        "sum": [2, 1],
        "max": [1],
        "min": [0],
        "acc": 0.375,
        "rmse": 2.0,
        "gathered": [0, 1],
        "reduced": [1, 1],
    }
    assert [log.count("said by one") for log in logs] == [0, 1]


def test_metrics_take_variables_names_and_arrays():
    scope = Scope()
    scope.var("errors").get_tensor().set(np.array([3.0], "float32"))
    assert metrics.mae("errors", np.array([4]), scope=scope) == 0.75
    assert metrics.sum("errors", scope=scope).tolist() == [3.0]
    with scope_guard(scope):
        assert metrics.mse("errors", 2) == 1.5
    assert metrics.auc(np.array([[0, 1, 2, 3]]), np.array([[3, 2, 1, 0]])) == pytest.approx(0.9166666666666666)
    assert metrics.auc(np.zeros((1, 4)), np.array([[3, 2, 1, 0]])) == 0.5
    with pytest.raises(InvalidArgument, match="no variable 'nothing'"):
        metrics.sum("nothing")
    with pytest.raises(InvalidArgument, match="leave it out"):
        metrics.sum(1, util=object())


@pytest.fixture
def hadoop(tmp_path):
    """A command that has a folder for a file system."""
    program = tmp_path / "hadoop" / "bin" / "hadoop"
    program.parent.mkdir(parents=True)
    program.write_text(
        """#!/bin/bash
shift; shift  # fs -Dfs.default.name=…
case $1 in
  -test) test $2 $3 ;;
  -ls) ls -l --time-style=long-iso -d $2/* | sed 's/  */ /g' ;;
  -mkdir) mkdir -p $3 ;;
  -touchz) touch $2 ;;
  -rm) rm -r $3 ;;
  -mv) mv $2 $3 ;;
  -cat) cat $2 ;;
  -put | -get) cp -r $2 $3 ;;
  *) echo "unknown command" >&2; exit 1 ;;
esac
"""
    )
    program.chmod(0o755)
    return tmp_path / "hadoop"


def test_files_here_and_in_hdfs(tmp_path, hadoop):
    utils = paddle.distributed.fleet.utils
    home = tmp_path / "files"
    for files in (utils.LocalFS(), utils.HDFSClient(str(hadoop), {"fs.default.name": "hdfs://host:9000"}, 5000, 10)):
        at = {name: str(home / name) for name in ("", "part-0", "part-1", "inner", "copy")}
        files.mkdirs(at["inner"])
        files.touch(at["part-0"])
        assert files.ls_dir(at[""]) == (["inner"], ["part-0"])
        assert (files.is_file(at["part-0"]), files.is_dir(at["inner"]), files.is_exist(at["copy"])) == (
            True,
            True,
            False,
        )
        files.mv(at["part-0"], at["part-1"])
        with pytest.raises(FileNotFoundError):
            files.mv(at["part-0"], at["part-1"])
        with pytest.raises(FileExistsError):
            files.touch(at["part-1"], exist_ok=False)
        (home / "part-1").write_text("one\n")
        assert files.cat(at["part-1"]) == "one"
        files.upload(at["part-1"], at["copy"])
        files.download(at["copy"], str(tmp_path / "back"))
        assert (tmp_path / "back").read_text() == "one\n"
        files.delete(at[""])
        assert files.ls_dir(at[""]) == ([], [])
