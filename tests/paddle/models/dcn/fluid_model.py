"""The same model, as scripts of 1.x say it."""

import paddle.fluid as fluid


class StaticModel(object):
    def __init__(self, config):
        self.options = {
            key[len("hyper_parameters.") :]: value for key, value in config.items() if "hyper_parameters" in key
        }

    def create_feeds(self, is_infer=False):
        self.dense = fluid.layers.data(name="dense_input", shape=[self.options["dense_input_dim"]], dtype="float32")
        self.sparse = [
            fluid.layers.data(name="C%d" % i, shape=[1], dtype="int64", lod_level=1)
            for i in range(self.options["slots"])
        ]
        self.label = fluid.layers.data(name="label", shape=[1], dtype="int64")
        return [self.dense] + self.sparse + [self.label]

    def embedding(self, ids):
        rows = fluid.layers.embedding(
            input=ids,
            size=[self.options["sparse_feature_number"], self.options["sparse_feature_dim"]],
            is_sparse=True,
            param_attr=fluid.ParamAttr(
                name="cross_embedding", initializer=fluid.initializer.ConstantInitializer(value=0.05)
            ),
        )
        return fluid.layers.sequence_pool(input=rows, pool_type="sum")

    def net(self, input, is_infer=False):
        x0 = fluid.layers.concat([self.embedding(each) for each in self.sparse] + [self.dense], axis=1)
        width = x0.shape[1]
        deep = x0
        for i, size in enumerate(self.options["fc_sizes"]):
            deep = fluid.layers.fc(
                input=deep,
                size=size,
                act="relu",
                param_attr=fluid.ParamAttr(initializer=fluid.initializer.Xavier(uniform=True)),
                name="deep_%d" % i if i else None,
            )

        penalty, xl = [], x0
        for i in range(self.options["cross_num"]):
            w = fluid.layers.create_parameter([width, 1], "float32", name="cross_w_%d" % i)
            b = fluid.layers.create_parameter(
                shape=[width], dtype="float32", is_bias=True, attr=fluid.ParamAttr(name="cross_b_%d" % i)
            )
            crossed = fluid.layers.elementwise_mul(x0, fluid.layers.mul(xl, w), axis=0)
            xl = fluid.layers.elementwise_add(fluid.layers.elementwise_add(crossed, b), xl)
            penalty.append(fluid.layers.reduce_sum(fluid.layers.square(w)))
        logit = fluid.layers.fc(input=[deep, xl], size=1, bias_attr=False)

        self.predict = fluid.layers.sigmoid(logit)
        label = fluid.layers.cast(self.label, "float32")
        cost = fluid.layers.sigmoid_cross_entropy_with_logits(x=logit, label=label)
        regular = fluid.layers.scale(fluid.layers.sums(penalty), scale=float(self.options["l2_reg_cross"]))
        self.cost = fluid.layers.elementwise_add(fluid.layers.reduce_mean(cost), regular)

        two = fluid.layers.concat([fluid.layers.scale(self.predict, scale=-1.0, bias=1.0), self.predict], axis=1)
        auc, batch_auc, self.stats = fluid.layers.auc(
            input=two, label=self.label, num_thresholds=2**12 - 1, slide_steps=5
        )
        samples, clicks, total = [
            fluid.layers.create_global_var(shape=[1], value=0, dtype="float32", persistable=True, name=name)
            for name in ("sample_count", None, "total")
        ]
        ones = fluid.layers.fill_constant_batch_size_like(input=label, shape=[-1, 1], dtype="float32", value=1.0)
        batch = fluid.layers.reshape(fluid.layers.reduce_sum(ones), shape=[1])
        fluid.layers.assign(fluid.layers.elementwise_add(samples, batch), samples)
        fluid.layers.sums(input=[clicks, fluid.layers.reshape(fluid.layers.reduce_sum(label), [1])], out=clicks)
        fluid.layers.assign(total + batch * self.cost, total)
        return {"loss": self.cost, "auc": auc, "samples": samples, "clicks": clicks, "total": total}

    def create_optimizer(self, strategy=None):
        optimizer = fluid.optimizer.SGDOptimizer(learning_rate=self.options["optimizer.learning_rate"])
        optimizer.minimize(self.cost)
