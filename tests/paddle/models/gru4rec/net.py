"""GRU4Rec: the next click of a session, from those before it."""

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class GRU4Rec(nn.Layer):
    def __init__(self, vocab_size, emb_size, hidden_size, num_layers=1, dropout=0.0):
        super(GRU4Rec, self).__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(
            vocab_size, emb_size, padding_idx=0, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Normal(std=0.1))
        )
        limit = nn.initializer.Uniform(low=-0.2, high=0.2)
        self.gru = nn.GRU(
            input_size=emb_size,
            hidden_size=hidden_size,
            num_layers=num_layers,
            weight_ih_attr=paddle.ParamAttr(initializer=limit),
            weight_hh_attr=paddle.ParamAttr(initializer=limit),
            dropout=dropout,
        )
        self.norm = nn.BatchNorm1D(hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)
        self.output = nn.Linear(hidden_size, vocab_size)
        self.drop = nn.Dropout(p=dropout, mode="downscale_in_infer")

    def forward(self, items, lengths):
        """The scores of all items after each click: [batch, length, items]."""
        x = self.embedding(items)
        batch = paddle.shape(x)[0]
        first = paddle.zeros(shape=[self.gru.num_layers, batch, self.hidden_size], dtype="float32")
        states, last = self.gru(x, first, sequence_length=lengths)
        # One more step from the last state: it warms up the session's vector.
        warm, _ = self.cell(last[-1])
        warm = self.norm(warm)
        mixed = F.tanh(states + paddle.unsqueeze(warm, axis=[1]))
        return self.output(self.drop(mixed)), warm


def masked_loss(scores, targets, lengths):
    """The mean over real clicks; what fills a session up has no part in it."""
    mask = F.sequence_mask(lengths, maxlen=paddle.shape(scores)[1], dtype="float32")
    each = F.cross_entropy(scores, targets, reduction="none", axis=-1)
    each = paddle.squeeze(each, axis=[-1])
    return paddle.sum(each * mask) / paddle.sum(mask), mask


def recall(scores, targets, mask, k):
    _, top = paddle.topk(scores, k=k, axis=-1)
    hit = paddle.any(paddle.equal(top, paddle.expand_as(targets, top)), axis=-1)
    hit = paddle.cast(hit, "float32") * mask
    return paddle.sum(hit) / paddle.sum(mask)
