"""The model that the listing leaves out."""

import paddle

DENSE, SPARSE, IDS, DIM = 13, 26, 1000, 8


class WideDeepLayer(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.wide = paddle.nn.Linear(DENSE, 1)
        self.embedding = paddle.nn.Embedding(
            IDS, DIM, sparse=True, weight_attr=paddle.ParamAttr(name="SparseFeatFactors")
        )
        sizes = [SPARSE * DIM + DENSE, 64, 32]
        self.hidden = paddle.nn.LayerList([paddle.nn.Linear(*pair) for pair in zip(sizes, sizes[1:])])
        self.out = paddle.nn.Linear(sizes[-1], 1)

    def forward(self, sparse_inputs, dense_inputs):
        rows = [paddle.reshape(self.embedding(ids), [-1, DIM]) for ids in sparse_inputs]
        deep = paddle.concat([*rows, dense_inputs], axis=1)
        for layer in self.hidden:
            deep = paddle.nn.functional.relu(layer(deep))
        return paddle.nn.functional.sigmoid(self.wide(dense_inputs) + self.out(deep))


class WideDeepModel:
    def net(self, is_train=True):
        dense = paddle.static.data(name="dense", shape=[None, DENSE], dtype="float32")
        sparse = [paddle.static.data(name=f"C{i}", shape=[None, 1], dtype="int64") for i in range(SPARSE)]
        label = paddle.static.data(name="label", shape=[None, 1], dtype="float32")
        self.loader = paddle.io.DataLoader.from_generator(
            feed_list=[dense, *sparse, label], capacity=64, iterable=False
        )
        predict = WideDeepLayer()(sparse, dense)
        self.cost = paddle.mean(paddle.nn.functional.log_loss(predict, label))
        self.loss = self.cost
