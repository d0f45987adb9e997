"""A script of Paddle's 2.x: a static program, fed by Python, trained by Fleet where there is a launcher."""

import numpy as np

import paddle
import paddle.distributed.fleet as fleet

paddle.enable_static()
fleet.init(is_collective=False)
ids = paddle.static.data(name="ids", shape=[None, 1], dtype="int64")
label = paddle.static.data(name="label", shape=[None, 1], dtype="float32")
rows = paddle.static.nn.sparse_embedding(ids, size=[1024, 8], param_attr=paddle.ParamAttr(name="rows"))
score = paddle.static.nn.fc(paddle.reshape(rows, [-1, 8]), 1)
loss = paddle.mean(paddle.nn.functional.binary_cross_entropy_with_logits(score, label))
strategy = fleet.DistributedStrategy()
strategy.a_sync = True
fleet.distributed_optimizer(paddle.optimizer.SGD(learning_rate=0.5), strategy).minimize(loss)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(paddle.static.default_startup_program())
    fleet.init_worker()
    random = np.random.default_rng(fleet.worker_index())
    for step in range(40):
        drawn = random.integers(0, 1024, (32, 1))
        feed = {"ids": drawn, "label": (drawn % 2).astype("float32")}
        (value,) = exe.run(paddle.static.default_main_program(), feed=feed, fetch_list=[loss])
    print("loss", float(value))
    fleet.stop_worker()
