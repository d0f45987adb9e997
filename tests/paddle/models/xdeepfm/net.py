import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class xDeepFMLayer(nn.Layer):
    def __init__(self, number, dim, num_dense, num_field, cin_sizes, fc_sizes):
        super(xDeepFMLayer, self).__init__()
        self.fm = Linear(number, num_dense)
        self.dim, self.fields = dim, num_field + num_dense
        self.emb = nn.Embedding(number, dim, weight_attr=nn.initializer.Uniform(-0.05, 0.05))
        self.dense_emb = paddle.create_parameter([1, num_dense, dim], "float32", attr=paddle.ParamAttr(initializer=nn.initializer.XavierUniform()))
        self.cin = CIN(dim, self.fields, cin_sizes)
        tower, width = [], self.fields * dim
        for size in fc_sizes:
            tower += [nn.Linear(width, size), nn.BatchNorm1D(size), nn.PReLU(init=0.1)]
            width = size
        tower.append(("out", nn.Linear(width, 1, bias_attr=False)))
        self.dnn = nn.Sequential(*[each if isinstance(each, tuple) else (str(i), each) for i, each in enumerate(tower)])

    def forward(self, sparse, dense):
        wide = self.fm(sparse, dense)
        rows = paddle.stack([paddle.squeeze(self.emb(each), axis=1) for each in sparse], axis=1)
        features = paddle.concat([rows, dense.unsqueeze(-1) * self.dense_emb], axis=1)
        high = self.cin(features)
        deep = self.dnn(paddle.reshape(features, [-1, self.fields * self.dim]))
        return F.sigmoid(paddle.add_n([wide, high, deep]))


class Linear(nn.Layer):
    def __init__(self, number, num_dense):
        super(Linear, self).__init__()
        self.one = nn.Embedding(number, 1, sparse=False, weight_attr=paddle.ParamAttr(name="first_order"))
        self.fc = nn.Linear(num_dense, 1)

    def forward(self, sparse, dense):
        ones = paddle.concat([self.one(each) for each in sparse], axis=1)
        return paddle.sum(ones, axis=1) + self.fc(dense)


class CIN(nn.Layer):
    """Compressed interactions: every pair of a field with a map, then 1x1 filters."""

    def __init__(self, dim, fields, sizes):
        super(CIN, self).__init__()
        self.dim, self.fields, self.sizes = dim, fields, sizes
        self.convs = nn.LayerList()
        last = fields
        for size in sizes:
            self.convs.append(
                nn.Conv2D(
                    in_channels=last * fields,
                    out_channels=size,
                    kernel_size=(1, 1),
                    weight_attr=paddle.ParamAttr(
                        regularizer=paddle.regularizer.L2Decay(coeff=1e-4), initializer=nn.initializer.Normal(0.0, 0.2)
                    ),
                    bias_attr=False,
                )
            )
            last = size
        self.fc = nn.Linear(sum(sizes), 1)

    def forward(self, x):
        x_0 = paddle.split(x, self.dim, 2)
        t_0 = paddle.stack(x_0)  # dim, batch, fields, 1
        x_k, sums = x, []
        for conv in self.convs:
            t_k = paddle.stack(paddle.split(x_k, self.dim, axis=2))
            dots = paddle.matmul(t_0, t_k, transpose_y=True)  # dim, batch, fields, maps
            dots = paddle.reshape(dots, [0, -1, self.fields * x_k.shape[1]])
            dots = paddle.transpose(dots, perm=[1, 2, 0]).unsqueeze(3)
            x_k = F.relu(conv(dots)).squeeze(3)
            sums.append(paddle.sum(x_k, axis=-1))
        return self.fc(paddle.concat(sums, axis=1))
