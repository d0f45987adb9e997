"""A job that trains, saves all that it trains and a model to serve, and says what it scores."""

import sys

import numpy as np
import paddle.distributed.fleet as fleet

import paddle

paddle.enable_static()

mode, action, folder = sys.argv[1:]


def batch(number):
    random = np.random.RandomState(number)
    ids = random.randint(0, 50, (64, 3))
    label = (ids.sum(axis=1, keepdims=True) % 2).astype("float32")
    return {"ids": ids, "numbers": random.normal(size=(64, 2)).astype("float32"), "label": label}


def net():
    ids = paddle.static.data("ids", [None, 3], "int64")
    numbers = paddle.static.data("numbers", [None, 2], "float32")
    label = paddle.static.data("label", [None, 1], "float32")
    rows = paddle.static.nn.sparse_embedding(ids, [50, 4], param_attr=paddle.ParamAttr(name="rows"))
    joined = paddle.concat([paddle.reshape(rows, [-1, 12]), paddle.nn.BatchNorm1D(2)(numbers)], axis=1)
    predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(joined, 1))
    counter = paddle.static.create_global_var([1], 0, "float32", persistable=True, name="counter")
    paddle.increment(counter)
    return rows, predict, paddle.mean(paddle.nn.functional.log_loss(predict, label))


rows, predict, loss = net()
test = paddle.static.default_main_program().clone(for_test=True)
exe = paddle.static.Executor(paddle.CPUPlace())


def tell(what, program=test):
    feed = {name: value for name, value in batch(999).items() if name != "label" or program is test}
    (scores,) = exe.run(program, feed=feed, fetch_list=[predict.name])
    print(f"{what} {scores.ravel()[:4].tolist()} {float(scores.sum()):.6f}", flush=True)


def value(name):
    return np.array(paddle.static.global_scope().find_var(name).get_tensor()).tolist()


if action == "infer":
    from paddle.distributed.fleet.utils.ps_util import DistributedInfer

    infer = DistributedInfer(main_program=paddle.static.default_main_program())
    infer.init_distributed_infer_env(exe, loss, dirname=folder)
    if fleet.is_worker():
        program = infer.get_dist_infer_program()
        (scores,) = exe.run(program, feed=batch(999), fetch_list=[predict])
        print(f"scores {scores.ravel()[:4].tolist()} {float(scores.sum()):.6f}", flush=True)
        fleet.stop_worker()
    sys.exit()

fleet.init()
strategy = fleet.DistributedStrategy()
strategy.a_sync = mode != "sync"
if mode == "geo":
    strategy.a_sync_configs = {"k_steps": 5}
optimizer = paddle.optimizer.Adam(0.05) if mode != "geo" else paddle.optimizer.SGD(0.5)
fleet.distributed_optimizer(optimizer, strategy).minimize(loss)

if fleet.is_server():
    fleet.init_server(folder if action in ("go_on", "some") else None, ["rows"] if action == "some" else None)
    fleet.run_server()
else:
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    if action == "load":
        fleet.load_model(folder)
    if action in ("save", "days"):
        for number in range(20):
            exe.run(paddle.static.default_main_program(), feed=batch(number), fetch_list=[loss])
            if action == "days" and number % 5 == 4:
                fleet.save_persistables(exe, f"{folder}/{number}", mode=2 if number == 4 else 1)
    fleet.barrier_worker()
    print("kept", value("counter"), flush=True)
    tell("scores")  # counts too
    if action == "save":
        fleet.save_persistables(exe, folder)
        fleet.save_inference_model(exe, folder, ["ids", "numbers"], [predict])  # as many scripts do
        fleet.barrier_worker()
        program, feeds, targets = paddle.static.load_inference_model(folder, exe)
        tell("served", program)
    (found,) = exe.run(test, feed={**batch(999), "ids": np.arange(192).reshape(64, 3) % 50}, fetch_list=[rows])
    print("rows", found.sum(), flush=True)
    fleet.stop_worker()
