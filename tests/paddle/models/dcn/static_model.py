import paddle
from net import deep_cross


class StaticModel:
    def __init__(self, config):
        self.options = {
            key[len("hyper_parameters.") :]: value for key, value in config.items() if "hyper_parameters" in key
        }

    def create_feeds(self, is_infer=False):
        self.dense = paddle.static.data(name="dense_input", shape=[None, self.options["dense_input_dim"]])
        self.sparse = [
            paddle.static.data(name="C%d" % i, shape=[None, 1], dtype="int64", lod_level=1)
            for i in range(self.options["slots"])
        ]
        self.label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
        return [self.dense] + self.sparse + [self.label]

    def net(self, input, is_infer=False):
        o = self.options
        logit, penalty = deep_cross(
            self.sparse, self.dense, o["sparse_feature_number"], o["sparse_feature_dim"], o["cross_num"], o["fc_sizes"],
            o["l2_reg_cross"], o["distributed_embedding"],
        )  # fmt: skip
        self.predict = paddle.nn.functional.sigmoid(logit)
        label = paddle.cast(self.label, dtype="float32")
        cost = paddle.nn.functional.binary_cross_entropy_with_logits(logit, label, reduction="none")
        self.cost = paddle.mean(cost) + penalty
        two = paddle.concat([1 - self.predict, self.predict], 1)
        auc, batch_auc, self.stats = paddle.static.auc(two, self.label, slide_steps=5)
        # what the whole pass has summed up
        samples = paddle.static.create_global_var([1], 0.0, "float32", persistable=True, name="sample_count")
        clicks = paddle.static.create_global_var(
            shape=[1], value=0, dtype="float32", persistable=True, force_cpu=True
        )
        total = paddle.static.create_global_var(shape=[1], value=0.0, dtype="float32", persistable=True, name="total")
        batch = paddle.cast(paddle.shape(label)[0], "float32")
        paddle.assign(samples + batch, samples)
        paddle.assign(clicks + paddle.sum(label), output=clicks)
        paddle.assign(total + batch * self.cost.detach() if is_infer else total + batch * self.cost, output=total)
        return {"loss": self.cost, "auc": auc, "samples": samples, "clicks": clicks, "total": total}

    def create_optimizer(self, strategy=None):
        optimizer = paddle.optimizer.SGD(learning_rate=self.options["optimizer.learning_rate"])
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)
