"""Document 002's training program: word2vec, with its listings for who this trainer is and which files are its own."""

import os
import pickle

import numpy as np

import paddle
import paddle.fluid as fluid
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

cluster_train_file = "./train_data_dir/train.txt"
cluster_test_file = "./test_data_dir/test.txt"
node_id = os.getenv("OMPI_COMM_WORLD_RANK")
if not node_id:
    raise EnvironmentError("must provied OMPI_COMM_WORLD_RANK")

TRAINER_ID = int(node_id)
TRAINER_COUNT = int(os.getenv("PADDLE_INIT_TRAINER_COUNT"))
N = 4  # words that the next one is guessed from

train_list = []
flist = os.listdir("./train_data_dir/")
for f in flist:
  suffix = int(f.split("-")[1])
  if suffix % TRAINER_COUNT == TRAINER_ID:
    train_list.append(f)


def reader(files):
    with open("word_dict.pickle", "rb") as f:
        word_dict = pickle.load(f)

    def read():
        for name in files:
            with open(name) as lines:
                for line in lines:
                    ids = [word_dict[word] for word in line.split()]
                    for i in range(N, len(ids)):
                        yield tuple([word] for word in ids[i - N : i + 1])

    return read


def network(size):
    words = [fluid.layers.data(name="word_%d" % i, shape=[1], dtype="int64") for i in range(N + 1)]
    rows = [
        fluid.layers.embedding(
            input=word, size=[size, 16], is_sparse=True, param_attr=fluid.ParamAttr(name="words")
        )
        for word in words[:N]
    ]
    context = fluid.layers.concat([fluid.layers.reshape(row, [-1, 16]) for row in rows], axis=1)
    hidden = fluid.layers.fc(input=context, size=64, act="relu")
    predict = fluid.layers.fc(input=hidden, size=size, act="softmax")
    cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=words[N]))
    return words, cost


# trainer_id as the cluster has it; the rest is in PADDLE_INIT_*.
paddle.init(use_gpu=False, trainer_id=TRAINER_ID)
fleet.init()
with open("word_dict.pickle", "rb") as f:
    words, cost = network(len(pickle.load(f)))
test_program = fluid.default_main_program().clone(for_test=True)
config = DistributeTranspilerConfig()
config.sync_mode = True
optimizer = fleet.distributed_optimizer(fluid.optimizer.Adam(learning_rate=0.02), config)
optimizer.minimize(cost)

exe = fluid.Executor(fluid.CPUPlace())
exe.run(fluid.default_startup_program())
fleet.init_worker()
feeder = fluid.DataFeeder(place=fluid.CPUPlace(), feed_list=words)
files = sorted(os.path.join("./train_data_dir", f) for f in train_list)
print("trainer %d of %d reads %s" % (fleet.worker_index(), fleet.worker_num(), ",".join(files)))
for pass_id in range(2):
    for batch_id, data in enumerate(paddle.batch(reader(files), batch_size=100)()):
        loss, = exe.run(fluid.default_main_program(), feed=feeder.feed(data), fetch_list=[cost])
    print("Pass %d, cost %f" % (pass_id, loss))
losses = []
tests = ["%s-%05d" % (cluster_test_file, TRAINER_ID)]
for data in paddle.batch(reader(tests), batch_size=100)():
    losses.append(exe.run(test_program, feed=feeder.feed(data), fetch_list=[cost.name])[0])
print("Test cost %f" % np.mean(losses))
fleet.stop_worker()
