"""The model that the quick start leaves out: wide and deep, with sparse features in one table."""

import paddle

DENSE, SPARSE, IDS, DIM = 13, 26, 10000, 8

reader = None
loss = None


def net():
    global reader, loss
    dense = paddle.static.data(name="dense_input", shape=[None, DENSE], dtype="float32")
    sparse = [paddle.static.data(name=f"C{i}", shape=[None, 1], dtype="int64") for i in range(1, SPARSE + 1)]
    label = paddle.static.data(name="label", shape=[None, 1], dtype="float32")
    feeds = [dense, *sparse, label]
    reader = paddle.io.DataLoader.from_generator(feed_list=feeds, capacity=64, iterable=False)

    table = paddle.ParamAttr(name="embedding", initializer=paddle.nn.initializer.Uniform(-0.05, 0.05))
    rows = [
        paddle.reshape(paddle.static.nn.embedding(ids, size=[IDS, DIM], is_sparse=True, param_attr=table), [-1, DIM])
        for ids in sparse
    ]
    deep = paddle.concat([*rows, dense], axis=1)
    for size in (64, 32):
        deep = paddle.static.nn.fc(deep, size, activation="relu")
    wide = paddle.static.nn.fc(dense, 1)
    predict = paddle.nn.functional.sigmoid(paddle.static.nn.fc(deep, 1) + wide)
    avg_cost = paddle.mean(paddle.nn.functional.log_loss(predict, label))
    loss = avg_cost
    return feeds, predict, avg_cost
