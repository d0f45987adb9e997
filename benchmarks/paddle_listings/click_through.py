"""The click-through listing with its numbers as arguments: trained over files by train_from_dataset, then tested.

Runs under the reference and under flota as it is.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import paddle.distributed.fleet as fleet
from network import ctr_dnn_model
from paddle.distributed.fleet.utils.ps_util import DistributedInfer

import paddle

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["local", "async", "geo"])
parser.add_argument("--batch", type=int)
parser.add_argument("--threads", type=int)
parser.add_argument("--pipe", choices=["python", "cat"])
parser.add_argument("--optimizer", choices=["sgd", "adam"])
parser.add_argument("--epochs", type=int)
parser.add_argument("--data")
parser.add_argument("--out")
parser.add_argument("--started", type=float)
args = parser.parse_args()

sparse_feature_dim = 1000001
paddle.enable_static()
dense = paddle.static.data(name="dense_input", shape=[None, 13], dtype="float32")
sparse = [paddle.static.data(name=f"C{i}", shape=[None, 1], lod_level=1, dtype="int64") for i in range(1, 27)]
label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
loss, auc_var, stats = ctr_dnn_model(dense, sparse, label, 10, sparse_feature_dim)


def dataset_of(part):
    folder = os.path.join(args.data, part if args.pipe == "python" else part + "_slots")
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    if args.mode != "local" and part == "train":
        files = fleet.util.get_file_shard(files)
    reader = os.path.join(os.path.dirname(os.path.abspath(__file__)), "criteo_reader.py")
    dataset = paddle.distributed.QueueDataset()
    dataset.init(
        batch_size=args.batch,
        thread_num=args.threads,
        pipe_command=f"{sys.executable} {reader} {sparse_feature_dim}" if args.pipe == "python" else "cat",
        use_var=[dense, *sparse, label],
    )
    dataset.set_filelist(files)
    return dataset


def set_zero(variables):
    for variable in variables:
        tensor = paddle.static.global_scope().find_var(variable.name).get_tensor()
        tensor.set(np.zeros(np.array(tensor).shape, "int64"), paddle.CPUPlace())


def area(variables):
    """The area under the curve of the buckets that the metric keeps."""
    positive, negative = (
        np.array(paddle.static.global_scope().find_var(variable.name).get_tensor()).ravel()[::-1].astype("float64")
        for variable in variables
    )
    true, false = np.concatenate([[0], np.cumsum(positive)]), np.concatenate([[0], np.cumsum(negative)])
    return float(np.sum((false[1:] - false[:-1]) * (true[1:] + true[:-1]) / 2) / max(true[-1] * false[-1], 1))


def train(exe, rank, workers):
    program = paddle.static.default_main_program()
    exe.train_from_dataset(program=program, dataset=dataset_of("first"))
    first = time.time() - args.started
    seconds, dataset = [], dataset_of("train")
    for _ in range(args.epochs):
        if args.mode != "local":
            fleet.util.barrier()
        began = time.time()
        exe.train_from_dataset(program=program, dataset=dataset)
        seconds.append(time.time() - began)
    if args.mode != "local":
        fleet.util.barrier()
    result = {"first": first, "seconds": seconds}
    if rank == 0:
        set_zero(stats)
        exe.infer_from_dataset(program=for_test(exe), dataset=dataset_of("test"))
        result["auc"] = area(stats[-2:])
    with open(os.path.join(args.out, f"worker-{rank}.json"), "w") as file:
        json.dump(result, file)


def for_test(exe):
    """A program that trains nothing. (The reference's infer_from_dataset trains by the one that was minimized.)"""
    if args.mode == "local":
        return test_program
    infer = DistributedInfer(main_program=test_program, startup_program=paddle.static.default_startup_program())
    infer.init_distributed_infer_env(exe, loss)
    return infer.get_dist_infer_program()


test_program = paddle.static.default_main_program().clone(for_test=True)
if args.optimizer == "adam" and args.mode != "geo":
    optimizer = paddle.optimizer.Adam(learning_rate=0.001)
else:
    optimizer = paddle.optimizer.SGD(learning_rate=0.02)
exe = paddle.static.Executor(paddle.CPUPlace())
if args.mode == "local":
    optimizer.minimize(loss)
    exe.run(paddle.static.default_startup_program())
    train(exe, 0, 1)
else:
    fleet.init()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    if args.mode == "geo":
        strategy.a_sync_configs = {"k_steps": 100}
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
    else:
        exe.run(paddle.static.default_startup_program())
        fleet.init_worker()
        train(exe, fleet.worker_index(), fleet.worker_num())
        fleet.barrier_worker()
        fleet.stop_worker()
