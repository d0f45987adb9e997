import paddle
import paddle.nn.functional as F
from net import DeepFMLayer


class StaticModel(object):
    def __init__(self, config):
        self.config = config
        get = lambda key: config["hyper_parameters." + key]  # noqa: E731
        self.sizes = (
            get("sparse_feature_number"),
            get("sparse_feature_dim"),
            get("dense_input_dim"),
            get("sparse_num_field"),
            get("fc_sizes"),
            get("reg"),
        )
        self.slots = get("sparse_num_field")
        self.learning_rate = get("optimizer.learning_rate")

    def create_feeds(self, is_infer=False):
        sparse = [paddle.static.data("slot_%d" % i, [-1, 1], "int64") for i in range(self.slots)]
        dense = paddle.static.data("dense", [-1, self.sizes[2]])
        label = paddle.static.data("click", [-1, 1], dtype="float32")
        return sparse + [dense, label]

    def net(self, input, is_infer=False):
        *sparse, dense, label = input
        self.model = DeepFMLayer(*self.sizes)
        self.predict = self.model(sparse, dense)
        self.cost = F.binary_cross_entropy(self.predict, label, reduction="mean")
        auc, batch_auc, _ = paddle.static.auc(
            input=paddle.concat([1.0 - self.predict, self.predict], axis=-1), label=label.astype("int64"), slide_steps=0
        )
        mae = paddle.mean(paddle.abs(self.predict - label))
        return {"loss": self.cost, "auc": auc, "mae": mae}

    def create_optimizer(self, strategy=None):
        self.scheduler = paddle.optimizer.lr.ExponentialDecay(learning_rate=self.learning_rate, gamma=0.9, verbose=False)
        clip = paddle.nn.ClipGradByGlobalNorm(clip_norm=0.5)
        optimizer = paddle.optimizer.SGD(learning_rate=self.scheduler, grad_clip=clip)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)

    def after_step(self):
        self.scheduler.step()
