"""The listings of the Fleet API for 1.x in their order, with the model, the reader and the process's place."""

import sys

import numpy as np

import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

place = fluid.CPUPlace()
exe = fluid.Executor(place)
SERVERS = sys.argv[3].split(",")


def model():
    global x, y, auc, auc_batch
    x = fluid.layers.data(name="x", shape=[13], dtype="float32")
    ids = fluid.layers.data(name="ids", shape=[1], dtype="int64", lod_level=1)
    y = fluid.layers.data(name="y", shape=[1], dtype="int64")
    rows = fluid.layers.embedding(
        input=ids, size=[100, 4], is_sparse=True, param_attr=fluid.ParamAttr(name="table")
    )
    pooled = fluid.layers.sequence_pool(input=rows, pool_type="sum")
    hidden = fluid.layers.fc(input=fluid.layers.concat([x, pooled], axis=1), size=16, act="relu")
    predict = fluid.layers.fc(input=hidden, size=2, act="softmax")
    cost = fluid.layers.cross_entropy(input=predict, label=y)
    auc, auc_batch, _ = fluid.layers.auc(input=predict, label=y)
    feeds.extend([x, ids, y])
    return fluid.layers.mean(cost)


def fake_reader():
    def read():
        rng = np.random.default_rng(3)
        for _ in range(960):
            values = rng.random(13).astype("float32")
            seen = rng.integers(0, 100, rng.integers(1, 4))
            yield values, seen, [int(values[0] > values[1])]

    return read


feeds = []
role = UserDefinedRoleMaker(current_id=int(sys.argv[2]),
                 role=Role.WORKER if sys.argv[1] == "worker" else Role.SERVER,
                 worker_num=2,
                 server_endpoints=SERVERS)
fleet.init(role_maker=role)

config = DistributeTranspilerConfig()
config.sync_mode = True

# build network
# ...
avg_cost = model()

optimizer = fluid.optimizer.Adam(learning_rate=0.01)
# 加入 fleet distributed_optimizer 加入分布式策略配置及多机优化
optimizer = fleet.distributed_optimizer(optimizer, config)
optimizer.minimize(avg_cost)

# 启动server
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()

# 启动worker
if fleet.is_worker():
    # 初始化worker配置
    fleet.init_worker()

    feeder = fluid.DataFeeder(place=place, feed_list=feeds)
    train_reader = paddle.batch(fake_reader(), batch_size=24)

    exe.run(fleet.startup_program)

    PASS_NUM = 10
    for pass_id in range(PASS_NUM):
        for batch_id, data in enumerate(train_reader()):
            avg_loss_value, auc_value, auc_batch_value = \
                exe.run(fleet.main_program, feed=feeder.feed(data), fetch_list=[avg_cost, auc, auc_batch])
            print("Pass %d, cost = %f, auc = %f, batch_auc = %f" % (pass_id, avg_loss_value, auc_value, auc_batch_value))
    # 通知server，当前节点训练结束
    fleet.stop_worker()
