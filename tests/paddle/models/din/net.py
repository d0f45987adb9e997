"""Deep interest network: what of a user's history matters depends on the item that is offered."""

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F


class DINLayer(nn.Layer):
    def __init__(self, item_count, cat_count, item_emb_size, cat_emb_size, act="sigmoid", is_sparse=False):
        super(DINLayer, self).__init__()
        self.act = act
        self.width = item_emb_size + cat_emb_size

        def table(rows, width, name):
            return nn.Embedding(
                rows,
                width,
                sparse=is_sparse,
                weight_attr=paddle.ParamAttr(name=name, initializer=nn.initializer.XavierUniform()),
            )

        # History and offered item share their rows; the sequence of the offered one has its own.
        self.hist_item_emb_attr = table(item_count, item_emb_size, None)
        self.hist_cat_emb_attr = table(cat_count, cat_emb_size, None)
        self.target_item_seq_emb = table(item_count, item_emb_size, "target_item_seq_emb.w")
        self.target_cat_seq_emb = table(cat_count, cat_emb_size, "target_cat_seq_emb.w")
        self.item_b_attr = nn.Embedding(
            item_count, 1, sparse=is_sparse, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(0.0))
        )

        self.attention_layer = []
        sizes = [self.width * 4] + [16, 8] + [1]
        for i in range(len(sizes) - 1):
            linear = nn.Linear(
                in_features=sizes[i],
                out_features=sizes[i + 1],
                weight_attr=paddle.ParamAttr(initializer=nn.initializer.XavierUniform()),
                bias_attr=paddle.ParamAttr(initializer=nn.initializer.Constant(value=0.0)),
                name="attention_%d" % i,
            )
            self.add_sublayer("attention_%d" % i, linear)
            self.attention_layer.append(linear)
            if i < len(sizes) - 2:
                squash = nn.Sigmoid() if act == "sigmoid" else nn.PReLU(num_parameters=1)
                self.add_sublayer("attention_act_%d" % i, squash)
                self.attention_layer.append(squash)

        self.hist_fc = nn.Linear(self.width, self.width)

        self.con_layer = []
        sizes = [self.width * 2, 12, 6, 1]
        acts = ["sigmoid", "sigmoid", None]
        for i in range(len(sizes) - 1):
            linear = nn.Linear(
                sizes[i],
                sizes[i + 1],
                weight_attr=paddle.ParamAttr(
                    initializer=nn.initializer.Normal(std=1.0 / np.sqrt(sizes[i])),
                    regularizer=paddle.regularizer.L2Decay(1e-4),
                ),
            )
            self.add_sublayer("linear_%d" % i, linear)
            self.con_layer.append(linear)
            if acts[i] == "sigmoid":
                squash = nn.Sigmoid()
                self.add_sublayer("act_%d" % i, squash)
                self.con_layer.append(squash)

    def forward(self, hist_item_seq, hist_cat_seq, target_item, target_cat, label, mask, target_item_seq, target_cat_seq):
        hist = paddle.concat([self.hist_item_emb_attr(hist_item_seq), self.hist_cat_emb_attr(hist_cat_seq)], axis=2)
        target_seq = paddle.concat(
            [self.target_item_seq_emb(target_item_seq), self.target_cat_seq_emb(target_cat_seq)], axis=2
        )
        target = paddle.concat([self.hist_item_emb_attr(target_item), self.hist_cat_emb_attr(target_cat)], axis=1)
        item_b = self.item_b_attr(target_item)

        din = paddle.concat([hist, target_seq, hist - target_seq, hist * target_seq], axis=2)
        for layer in self.attention_layer:
            din = layer(din)
        weight = din + mask
        weight = paddle.transpose(weight, perm=[0, 2, 1])
        weight = paddle.scale(weight, scale=self.width**-0.5)
        weight = F.softmax(weight)
        interest = paddle.matmul(weight, hist)
        interest = paddle.reshape(interest, shape=[-1, self.width])
        interest = self.hist_fc(interest)

        deep = paddle.concat([interest, target], axis=1)
        for layer in self.con_layer:
            deep = layer(deep)
        logit = deep + item_b
        loss = F.binary_cross_entropy_with_logits(logit, label, reduction="mean")
        return loss, F.sigmoid(logit)
