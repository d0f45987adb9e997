"""Two towers: users and items meet only in the product of their vectors. The other items of the batch are the negatives."""

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class Tower(nn.Layer):
    def __init__(self, rows, emb_dim, fields, hidden, sparse):
        super().__init__()
        self.fields = fields
        self.embedding = nn.Embedding(
            num_embeddings=rows,
            embedding_dim=emb_dim,
            padding_idx=0,
            sparse=sparse,
            weight_attr=nn.initializer.TruncatedNormal(mean=0.0, std=0.05),
        )
        widths = [fields * emb_dim] + list(hidden)
        self.blocks = nn.LayerList(
            [
                nn.Sequential(
                    nn.Linear(widths[i], widths[i + 1], weight_attr=nn.initializer.KaimingNormal()),
                    nn.LayerNorm(widths[i + 1]),
                    nn.PReLU(),
                )
                for i in range(len(hidden))
            ]
        )
        self.field_weight = self.create_parameter(
            shape=[fields], default_initializer=nn.initializer.Assign([1.0 / fields] * fields)
        )

    def forward(self, ids):
        vectors = self.embedding(ids)  # [batch, fields, width]
        vectors = paddle.einsum("bfd,f->bfd", vectors, F.softmax(self.field_weight))
        x = paddle.flatten(vectors, start_axis=1, stop_axis=-1)
        for block in self.blocks:
            x = block(x)
        return F.normalize(x, p=2, axis=-1)


class TwoTower(nn.Layer):
    def __init__(self, user_rows, item_rows, emb_dim, user_fields, item_fields, hidden, sparse=True):
        super().__init__("two_tower")
        self.user_tower = Tower(user_rows, emb_dim, user_fields, hidden, sparse)
        self.item_tower = Tower(item_rows, emb_dim, item_fields, hidden, sparse)
        self.temperature = paddle.create_parameter(
            shape=[1],
            dtype="float32",
            name="temperature",
            default_initializer=nn.initializer.Constant(0.2),
        )

    def forward(self, user_ids, item_ids, popularity):
        user = self.user_tower(user_ids)
        item = self.item_tower(item_ids)
        logits = paddle.matmul(user, item, transpose_y=True) / self.temperature
        logits = logits - paddle.log(paddle.t(popularity))  # what is popular stands in many batches
        return user, item, logits


def in_batch_softmax(logits, first_field):
    """Cross entropy with the own item; the same item in another row is no negative."""
    count = paddle.shape(logits)[0]
    labels = paddle.unsqueeze(paddle.arange(0, count, dtype="int64"), axis=1)
    same = paddle.equal(first_field, paddle.transpose(first_field, perm=[1, 0]))
    others = paddle.logical_and(same, paddle.logical_not(paddle.cast(paddle.diag(paddle.ones([count])), "bool")))
    masked = paddle.where(others, paddle.full_like(logits, -1e9), logits)
    loss, probability = F.softmax_with_cross_entropy(masked, labels, return_softmax=True)
    hits = paddle.cast(paddle.equal(paddle.argmax(probability, axis=1, keepdim=True), labels), "float32")
    return paddle.mean(loss), paddle.mean(hits)
