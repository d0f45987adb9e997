"""The quick start's wide-and-deep with its numbers as arguments: fed by Python, one ``exe.run`` a batch. (Release 2.6
has no ``DataLoader.from_generator`` any more, which the document's listing uses.)

Runs under the reference and under flota as it is.
"""

import argparse
import itertools
import json
import os
import time

import numpy as np
import paddle.distributed.fleet as fleet

import paddle

DENSE, SPARSE, IDS, DIM = 13, 26, 1000001, 10

parser = argparse.ArgumentParser()
parser.add_argument("--mode", choices=["local", "async", "geo"])
parser.add_argument("--batch", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--data")
parser.add_argument("--out")
parser.add_argument("--started", type=float)
args, _ = parser.parse_known_args()


class WideDeepLayer(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.wide = paddle.nn.Linear(DENSE, 1)
        self.embedding = paddle.nn.Embedding(
            IDS,
            DIM,
            sparse=True,
            weight_attr=paddle.ParamAttr(
                name="SparseFeatFactors", initializer=paddle.nn.initializer.Uniform(-0.05, 0.05)
            ),
        )
        sizes = [SPARSE * DIM + DENSE, 400, 400, 400]
        self.hidden = paddle.nn.LayerList([paddle.nn.Linear(*pair) for pair in itertools.pairwise(sizes)])
        self.out = paddle.nn.Linear(sizes[-1], 1)

    def forward(self, sparse_inputs, dense_inputs):
        rows = [paddle.reshape(self.embedding(ids), [-1, DIM]) for ids in sparse_inputs]
        deep = paddle.concat([*rows, dense_inputs], axis=1)
        for layer in self.hidden:
            deep = paddle.nn.functional.relu(layer(deep))
        return paddle.nn.functional.sigmoid(self.wide(dense_inputs) + self.out(deep))


def samples(part):
    """Lines of slots, as the pipe command of the other listing prints them."""
    folder = os.path.join(args.data, part + "_slots")
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))
    if args.mode != "local" and part == "train":
        files = fleet.util.get_file_shard(files)

    def reader():
        batch = []
        for path in files:
            with open(path) as file:
                for line in file:
                    batch.append(np.fromstring(line, sep=" "))
                    if len(batch) == args.batch:
                        yield arrays(np.stack(batch))
                        batch = []

    return reader


def arrays(lines):
    dense, ids = lines[:, 1:14].astype("float32"), lines[:, 15:67:2].astype("int64")
    return [dense] + [ids[:, i : i + 1] for i in range(SPARSE)] + [lines[:, 67:68].astype("float32")]


paddle.enable_static()
dense = paddle.static.data(name="dense", shape=[None, DENSE], dtype="float32")
sparse = [paddle.static.data(name=f"C{i}", shape=[None, 1], dtype="int64") for i in range(SPARSE)]
label = paddle.static.data(name="label", shape=[None, 1], dtype="float32")
feeds = [dense, *sparse, label]
predict = WideDeepLayer()(sparse, dense)
loss = paddle.mean(paddle.nn.functional.log_loss(predict, label))


def one_pass(exe, part):
    losses = []
    for batch in samples(part)():
        feed = {variable.name: values for variable, values in zip(feeds, batch, strict=True)}
        losses.append(exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss.name])[0])
    return float(np.mean(losses))


def train(exe, rank):
    one_pass(exe, "first")
    first = time.time() - args.started
    seconds = []
    for _ in range(args.epochs):
        if args.mode != "local":
            fleet.util.barrier()
        began = time.time()
        last = one_pass(exe, "train")
        seconds.append(time.time() - began)
    with open(os.path.join(args.out, f"worker-{rank}.json"), "w") as file:
        json.dump({"first": first, "seconds": seconds, "loss": last}, file)


optimizer = paddle.optimizer.SGD(learning_rate=0.02)
exe = paddle.static.Executor(paddle.CPUPlace())
if args.mode == "local":
    optimizer.minimize(loss)
    exe.run(paddle.static.default_startup_program())
    train(exe, 0)
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
        train(exe, fleet.worker_index())
        fleet.barrier_worker()
        fleet.stop_worker()
