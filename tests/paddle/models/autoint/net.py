import paddle
import paddle.nn as nn
import paddle.nn.functional as F
from paddle.nn.initializer import KaimingUniform, TruncatedNormal, XavierUniform


class InteractingBlock(nn.Layer):
    def __init__(self, width, units, heads, dropout=0.0, has_residual=True):
        super().__init__()
        self.heads, self.units, self.has_residual = heads, units, has_residual
        attr = lambda name: paddle.ParamAttr(initializer=XavierUniform(), name=None)  # noqa: E731
        self.query = nn.Linear(width, units, attr("q"), bias_attr=False)
        self.key = nn.Linear(width, units, attr("k"), bias_attr=False)
        self.value = nn.Linear(width, units, attr("v"), bias_attr=False)
        if has_residual:
            self.residual = nn.Linear(width, units, weight_attr=KaimingUniform(), bias_attr=True)
        self.norm = nn.LayerNorm(units)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x, mask):
        q, k, v = F.relu(self.query(x)), F.relu(self.key(x)), F.relu(self.value(x))
        q_ = paddle.concat(paddle.split(q, self.heads, axis=2), axis=0)
        k_ = paddle.concat(paddle.split(k, self.heads, axis=2), axis=0)
        v_ = paddle.concat(paddle.split(v, self.heads, axis=2), axis=0)
        scores = paddle.einsum("bik,bjk->bij", q_, k_) / (k_.shape[-1] ** 0.5)
        scores = scores + (1.0 - paddle.tile(mask, [self.heads, 1, 1])) * -1e9
        weights = self.dropout(F.softmax(scores, axis=-1))
        out = paddle.bmm(weights, v_)
        out = paddle.concat(paddle.chunk(out, self.heads, axis=0), axis=2)
        if self.has_residual:
            out = out + self.residual(x)
        return self.norm(F.relu(out))


class AutoInt(nn.Layer):
    def __init__(self, number, width, num_dense, num_field, heads, blocks):
        super().__init__()
        self.embedding = nn.Embedding(number, width, weight_attr=paddle.ParamAttr(initializer=TruncatedNormal(std=0.1)))
        self.dense_embedding = nn.ParameterList(
            [paddle.create_parameter(shape=[1, width], dtype="float32") for _ in range(num_dense)]
        )
        self.blocks = nn.LayerList([InteractingBlock(width, width, heads) for _ in range(blocks)])
        self.flatten = nn.Flatten()
        self.linear = nn.Linear((num_dense + num_field) * width, 1)

    def forward(self, ids, dense):
        rows = self.embedding(ids)
        columns = [
            paddle.matmul(dense[:, i : i + 1], weight).unsqueeze(1) for i, weight in enumerate(self.dense_embedding)
        ]
        x = paddle.concat([rows] + columns, axis=1)
        # fields whose id is small were not there
        seen = (ids > 5).astype("float32")
        seen = paddle.concat([seen, paddle.ones_like(dense)], axis=1)
        mask = paddle.expand(paddle.unsqueeze(seen, 1), [-1, x.shape[1], -1])
        for block in self.blocks:
            x = block(x, mask)
        return self.linear(self.flatten(x))
