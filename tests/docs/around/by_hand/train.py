"""A trainer of 0.10's kind: it finds its pservers by PADDLE_INIT_*, or by what paddle.init is told."""

import numpy as np

import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory

paddle.init()
fleet.init()
x = fluid.layers.data(name="x", shape=[4], dtype="float32")
y = fluid.layers.data(name="y", shape=[1], dtype="float32")
cost = fluid.layers.mean(fluid.layers.square_error_cost(input=fluid.layers.fc(input=x, size=1), label=y))
strategy = StrategyFactory.create_sync_strategy()
fleet.distributed_optimizer(fluid.optimizer.SGD(learning_rate=0.1), strategy).minimize(cost)
exe = fluid.Executor(fluid.CPUPlace())
exe.run(fleet.startup_program)
fleet.init_worker()
random = np.random.default_rng(0)
for _ in range(20):
    values = random.random((32, 4), dtype="float32")
    feed = {"x": values, "y": values.sum(axis=1, keepdims=True)}
    (loss,) = exe.run(fleet.main_program, feed=feed, fetch_list=[cost])
print("cost", float(loss))
fleet.stop_worker()
