import paddle
from net import GRU4Rec, masked_loss, recall


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        get = lambda name, default=None: config.get("hyper_parameters." + name, default)
        self.vocab_size = get("vocab_size")
        self.emb_size = get("emb_size")
        self.hidden_size = get("hidden_size")
        self.num_layers = get("num_layers", 1)
        self.recall_k = get("recall_k", 20)
        self.lr = get("optimizer.learning_rate")

    def create_feeds(self, is_infer=False):
        self.items = paddle.static.data(name="items", shape=[None, None], dtype="int64")
        self.targets = paddle.static.data(name="targets", shape=[None, None, 1], dtype="int64")
        self.lengths = paddle.static.data(name="lengths", shape=[None], dtype="int64")
        return [self.items, self.targets, self.lengths]

    def net(self, inputs, is_infer=False):
        items, targets, lengths = inputs
        model = GRU4Rec(self.vocab_size, self.emb_size, self.hidden_size, self.num_layers)
        if is_infer:
            model.eval()
        scores, warm = model(items, lengths)
        loss, mask = masked_loss(scores, targets, lengths)
        acc = recall(scores, targets, mask, self.recall_k)
        self.inference_target_var = scores
        if is_infer:
            return {"recall": acc}
        self.cost = loss
        return {"cost": loss, "recall": acc}

    def create_optimizer(self, strategy=None):
        noam = paddle.optimizer.lr.LinearWarmup(
            learning_rate=paddle.optimizer.lr.PolynomialDecay(self.lr, decay_steps=20, end_lr=0.001),
            warmup_steps=5,
            start_lr=0.0,
            end_lr=self.lr,
        )
        optimizer = paddle.optimizer.AdamW(
            learning_rate=noam,
            weight_decay=0.01,
            apply_decay_param_fun=lambda name: ".b_" not in name,
            grad_clip=paddle.nn.ClipGradByNorm(0.5),
        )
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)
        return noam

    def infer_net(self, inputs):
        return self.net(inputs, is_infer=True)
