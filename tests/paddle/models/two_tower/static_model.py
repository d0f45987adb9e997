import paddle
from net import TwoTower, in_batch_softmax


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        hyper = "hyper_parameters."
        self.sizes = [config.get(hyper + name) for name in ("user_rows", "item_rows", "emb_dim")]
        self.user_fields = config.get(hyper + "user_fields")
        self.item_fields = config.get(hyper + "item_fields")
        self.hidden = config.get(hyper + "hidden")
        self.sparse = config.get(hyper + "is_sparse")
        self.lr = config.get(hyper + "optimizer.learning_rate")

    def create_feeds(self, is_infer=False):
        user = paddle.static.data("user_ids", [None, self.user_fields], "int64")
        item = paddle.static.data("item_ids", [None, self.item_fields], "int64")
        popularity = paddle.static.data("popularity", [None, 1], "float32")
        return [user, item, popularity]

    def net(self, inputs, is_infer=False):
        user, item, logits = TwoTower(*self.sizes, self.user_fields, self.item_fields, self.hidden, self.sparse)(*inputs)
        first_field, _ = paddle.split(inputs[1], num_or_sections=[1, -1], axis=1)
        loss, hits = in_batch_softmax(logits, first_field)
        self.inference_target_var = [user, item]
        if is_infer:
            return {"hits": hits}
        self.cost = loss
        self.metrics = {"cost": loss, "hits": hits, "margin": logits.max() - logits.mean()}
        return self.metrics

    def create_optimizer(self, strategy=None):
        scheduler = paddle.optimizer.lr.ExponentialDecay(learning_rate=self.lr, gamma=0.9)
        optimizer = paddle.optimizer.Momentum(learning_rate=scheduler, momentum=0.9, weight_decay=1e-4)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)
        return scheduler

    def infer_net(self, inputs):
        return self.net(inputs, is_infer=True)
