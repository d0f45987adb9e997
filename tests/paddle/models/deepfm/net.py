import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class DeepFMLayer(nn.Layer):
    def __init__(self, num_features, dim, num_dense, num_field, layer_sizes, reg):
        super().__init__()
        self.fm = FM(num_features, dim, num_dense, reg)
        self.dnn = DNN(dim, num_dense + num_field, layer_sizes, reg)
        self.bias = self.create_parameter(
            shape=[1], is_bias=True, default_initializer=paddle.nn.initializer.Constant(value=0.0)
        )

    def forward(self, sparse_inputs, dense_inputs):
        first, second, features = self.fm(sparse_inputs, dense_inputs)
        deep = self.dnn(features)
        return F.sigmoid(first + second + deep + self.bias)


class FM(nn.Layer):
    def __init__(self, num_features, dim, num_dense, reg):
        super().__init__()
        self.dim = dim
        self.num_dense = num_dense
        init = paddle.nn.initializer.TruncatedNormal(mean=0.0, std=0.1 / math.sqrt(float(dim)))
        self.embedding_one = nn.Embedding(
            num_features,
            1,
            padding_idx=0,
            weight_attr=paddle.ParamAttr(initializer=init, regularizer=paddle.regularizer.L1Decay(coeff=reg)),
        )
        self.embedding = nn.Embedding(
            num_features, dim, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=init)
        )
        self.dense_w_one = paddle.create_parameter(
            shape=[num_dense], dtype="float32", default_initializer=paddle.nn.initializer.Constant(value=1.0)
        )
        self.dense_w = self.create_parameter(
            shape=[1, num_dense, dim], default_initializer=paddle.nn.initializer.Normal(std=0.1)
        )

    def forward(self, sparse_inputs, dense_inputs):
        # the ids of all slots beside each other: one lookup
        ids = paddle.concat(sparse_inputs, axis=1)
        sparse_one = self.embedding_one(ids)
        dense_one = paddle.multiply(dense_inputs, self.dense_w_one).unsqueeze(2)
        first = paddle.sum(sparse_one, 1) + paddle.sum(dense_one, 1)

        dense_re = paddle.unsqueeze(dense_inputs, axis=2)
        features = paddle.concat([self.embedding(ids), paddle.multiply(dense_re, self.dense_w)], 1)
        square_of_sum = paddle.square(paddle.sum(features, 1))
        sum_of_square = paddle.sum(paddle.square(features), axis=1)
        second = 0.5 * paddle.sum(square_of_sum - sum_of_square, 1, keepdim=True)
        return first, second, features


class DNN(nn.Layer):
    def __init__(self, dim, num_field, layer_sizes, reg):
        super().__init__()
        self.width = dim * num_field
        sizes = [self.width] + layer_sizes + [1]
        self.layers = nn.LayerList()
        for before, after in zip(sizes[:-1], sizes[1:]):
            self.layers.append(
                nn.Linear(
                    before,
                    after,
                    weight_attr=paddle.ParamAttr(
                        initializer=nn.initializer.XavierNormal(),
                        regularizer=paddle.regularizer.L2Decay(reg),
                        learning_rate=0.5,
                    ),
                    bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.1)),
                )
            )

    def forward(self, features):
        x = paddle.flatten(features, start_axis=1)
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = F.leaky_relu(x, negative_slope=0.05)
        return x
