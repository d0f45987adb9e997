import paddle
from net import DINLayer


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        self._init_hyper_parameters()

    def _init_hyper_parameters(self):
        self.item_emb_size = self.config.get("hyper_parameters.item_emb_size", 8)
        self.cat_emb_size = self.config.get("hyper_parameters.cat_emb_size", 8)
        self.act = self.config.get("hyper_parameters.act", "sigmoid")
        self.is_sparse = self.config.get("hyper_parameters.is_sparse", False)
        self.item_count = self.config.get("hyper_parameters.item_count")
        self.cat_count = self.config.get("hyper_parameters.cat_count")
        self.learning_rate_base_lr = self.config.get("hyper_parameters.optimizer.learning_rate_base_lr")

    def create_feeds(self, is_infer=False):
        hist_item_seq = paddle.static.data(name="hist_item_seq", shape=[None, None], dtype="int64")
        hist_cat_seq = paddle.static.data(name="hist_cat_seq", shape=[None, None], dtype="int64")
        target_item = paddle.static.data(name="target_item", shape=[None], dtype="int64")
        target_cat = paddle.static.data(name="target_cat", shape=[None], dtype="int64")
        label = paddle.static.data(name="label", shape=[-1, 1], dtype="float32")
        mask = paddle.static.data(name="mask", shape=[None, None, 1], dtype="float32")
        target_item_seq = paddle.static.data(name="target_item_seq", shape=[None, None], dtype="int64")
        target_cat_seq = paddle.static.data(name="target_cat_seq", shape=[None, None], dtype="int64")
        return [hist_item_seq, hist_cat_seq, target_item, target_cat, label, mask, target_item_seq, target_cat_seq]

    def net(self, inputs, is_infer=False):
        din = DINLayer(
            self.item_count, self.cat_count, self.item_emb_size, self.cat_emb_size, self.act, self.is_sparse
        )
        loss, pred = din.forward(*inputs)
        self.inference_target_var = pred
        two = paddle.concat(x=[1 - pred, pred], axis=-1)
        label_int = paddle.cast(inputs[4], "int64")
        auc_var, batch_auc_var, _ = paddle.static.auc(input=two, label=label_int, slide_steps=0)
        if is_infer:
            return {"auc": auc_var}
        self.cost = loss
        return {"cost": loss, "auc": auc_var}

    def create_optimizer(self, strategy=None):
        boundaries = [6, 12]
        values = [self.learning_rate_base_lr, 0.5 * self.learning_rate_base_lr, 0.2]
        scheduler = paddle.optimizer.lr.PiecewiseDecay(boundaries=boundaries, values=values)
        optimizer = paddle.optimizer.SGD(learning_rate=scheduler)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)
        return scheduler

    def infer_net(self, inputs):
        return self.net(inputs, is_infer=True)
