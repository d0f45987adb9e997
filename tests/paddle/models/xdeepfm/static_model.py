import paddle
from net import xDeepFMLayer


class StaticModel:
    def __init__(self, config):
        self.config = config
        self.h = lambda key: config["hyper_parameters." + key]

    def create_feeds(self, is_infer=False):
        dense = paddle.static.data("dense_input", [None, self.h("dense_input_dim")], "float32")
        sparse = [paddle.static.data("C%d" % i, [None, 1], "int64") for i in range(self.h("slots"))]
        label = paddle.static.data("label", [None, 1], "int64")
        return [dense] + sparse + [label]

    def net(self, inputs, is_infer=False):
        dense, sparse, label = inputs[0], inputs[1:-1], inputs[-1]
        layer = xDeepFMLayer(
            self.h("sparse_feature_number"), self.h("sparse_feature_dim"), self.h("dense_input_dim"), self.h("slots"),
            self.h("cin"), self.h("fc_sizes"),
        )  # fmt: skip
        self.predict = layer(sparse, dense)
        cost = paddle.nn.functional.log_loss(self.predict, label.astype("float32"), epsilon=1e-7)
        self.cost = paddle.mean(cost)
        two = paddle.concat([1 - self.predict, self.predict], axis=1)
        accuracy = paddle.static.accuracy(input=two, label=label)
        auc, _, self.stats = paddle.static.auc(input=two, label=label, num_thresholds=2**10, slide_steps=20)
        kept = paddle.static.create_global_var(
            name="last_loss", shape=[1], value=0, dtype="float32", persistable=True
        )
        paddle.assign(paddle.reshape(self.cost, [1]), kept)
        return {"loss": self.cost, "accuracy": accuracy, "auc": auc, "last_loss": kept}

    def create_optimizer(self, strategy=None):
        self.optimizer = paddle.optimizer.Momentum(
            learning_rate=paddle.optimizer.lr.PiecewiseDecay([1000], [self.h("optimizer.learning_rate"), 0.001]),
            momentum=0.9,
            use_nesterov=True,
            weight_decay=1e-5,
            grad_clip=paddle.nn.ClipGradByNorm(1.0),
        )
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            self.optimizer = fleet.distributed_optimizer(self.optimizer, strategy)
        self.optimizer.minimize(self.cost)
