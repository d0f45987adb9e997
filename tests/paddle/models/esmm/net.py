"""Entire space multi-task model: clicks and conversions from one embedding of sequences of ids."""

import math

import paddle


def fc(x, size, activation, name=None):
    return paddle.static.nn.fc(
        x=x,
        size=size,
        activation=activation,
        weight_attr=paddle.ParamAttr(
            initializer=paddle.nn.initializer.Normal(std=1.0 / math.sqrt(int(x.shape[1]))),
            regularizer=paddle.regularizer.L2Decay(0.0005),
        ),
        bias_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.1)),
        name=name,
    )


class ESMM:
    def __init__(self, vocab_size, embed_size, ctr_fc_sizes, cvr_fc_sizes, distributed=False, entry=None):
        self.vocab_size = vocab_size
        self.embed_size = embed_size
        self.ctr_fc_sizes = ctr_fc_sizes
        self.cvr_fc_sizes = cvr_fc_sizes
        self.distributed = distributed
        self.entry = entry

    def pooled(self, slot):
        attr = paddle.ParamAttr(
            name="SparseFeatFactors", initializer=paddle.nn.initializer.Uniform(low=-0.1, high=0.1)
        )
        size = [self.vocab_size, self.embed_size]
        if self.distributed:
            emb = paddle.static.nn.sparse_embedding(
                input=slot, size=size, padding_idx=0, entry=self.entry, param_attr=attr
            )
        else:
            emb = paddle.static.nn.embedding(input=slot, size=size, is_sparse=True, param_attr=attr)
            emb = paddle.reshape(emb, shape=[-1, self.embed_size])
        return paddle.static.nn.sequence_pool(input=emb, pool_type="sum")

    def tower(self, x, sizes, name):
        for i, size in enumerate(sizes):
            x = fc(x, size, "relu", name="%s_fc_%d" % (name, i))
        return fc(x, 2, "softmax")

    def forward(self, slots):
        embs = [self.pooled(slot) for slot in slots]
        concat_emb = paddle.concat(embs, axis=1)
        concat_emb = paddle.static.Print(concat_emb, first_n=1, message="concat_emb", summarize=4)
        ctr_out = self.tower(concat_emb, self.ctr_fc_sizes, "ctr")
        cvr_out = self.tower(concat_emb, self.cvr_fc_sizes, "cvr")
        ctr_out_one = paddle.slice(ctr_out, axes=[1], starts=[1], ends=[2])
        cvr_out_one = cvr_out[:, 1:2]
        ctcvr_one = paddle.multiply(x=ctr_out_one, y=cvr_out_one)
        ctcvr_out = paddle.concat(x=[1 - ctcvr_one, ctcvr_one], axis=1)
        return ctr_out, ctr_out_one, cvr_out, cvr_out_one, ctcvr_out, ctcvr_one
