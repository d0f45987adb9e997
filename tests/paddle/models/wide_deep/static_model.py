import paddle
from net import WideDeepLayer


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        self._init_hyper_parameters()

    def _init_hyper_parameters(self):
        self.sparse_feature_number = self.config.get("hyper_parameters.sparse_feature_number")
        self.sparse_feature_dim = self.config.get("hyper_parameters.sparse_feature_dim")
        self.dense_input_dim = self.config.get("hyper_parameters.dense_input_dim")
        self.sparse_inputs_slots = self.config.get("hyper_parameters.sparse_inputs_slots")
        self.learning_rate = self.config.get("hyper_parameters.optimizer.learning_rate")
        self.fc_sizes = self.config.get("hyper_parameters.fc_sizes")

    def create_feeds(self, is_infer=False):
        dense_input = paddle.static.data(name="dense_input", shape=[None, self.dense_input_dim], dtype="float32")
        sparse_input_ids = [
            paddle.static.data(name="C" + str(i), shape=[None, 1], dtype="int64")
            for i in range(1, self.sparse_inputs_slots)
        ]
        label = paddle.static.data(name="label", shape=[None, 1], dtype="int64")
        return [label] + sparse_input_ids + [dense_input]

    def net(self, input, is_infer=False):
        self.label_input = input[0]
        self.sparse_inputs = input[1 : self.sparse_inputs_slots]
        self.dense_input = input[-1]
        sparse_number = self.sparse_inputs_slots - 1

        wide_deep_model = WideDeepLayer(
            self.sparse_feature_number,
            self.sparse_feature_dim,
            self.dense_input_dim,
            sparse_number,
            self.fc_sizes,
            self.config.get("hyper_parameters.sparse"),
        )
        pred = wide_deep_model.forward(self.sparse_inputs, self.dense_input)
        self.predict = pred
        predict_2d = paddle.concat(x=[1 - pred, pred], axis=1)

        auc, batch_auc, [self.batch_stat_pos, self.batch_stat_neg, self.stat_pos, self.stat_neg] = paddle.static.auc(
            input=predict_2d, label=self.label_input, num_thresholds=2**12, slide_steps=20
        )
        if is_infer:
            return {"auc": auc}

        cost = paddle.nn.functional.log_loss(input=pred, label=paddle.cast(self.label_input, "float32"))
        avg_cost = paddle.mean(x=cost)
        self.cost = avg_cost
        return {"loss": avg_cost, "auc": auc, "batch_auc": batch_auc}

    def create_optimizer(self, strategy=None):
        optimizer = paddle.optimizer.Adam(learning_rate=self.learning_rate, lazy_mode=True)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)

    def infer_net(self, input):
        return self.net(input, is_infer=True)
