import paddle
import paddle.nn.functional as F
from net import MMoELayer


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        get = config.get
        self.feature_size = get("hyper_parameters.feature_size", None)
        self.expert_num = get("hyper_parameters.expert_num", None)
        self.expert_size = get("hyper_parameters.expert_size", None)
        self.tower_size = get("hyper_parameters.tower_size", None)
        self.gate_num = get("hyper_parameters.gate_num", None)
        self.learning_rate = get("hyper_parameters.optimizer.learning_rate", None)

    def create_feeds(self, is_infer=False):
        input_data = paddle.static.data(name="input", shape=[-1, self.feature_size], dtype="float32")
        label_income = paddle.static.data(name="label_income", shape=[-1, 1], dtype="int64")
        label_marital = paddle.static.data(name="label_marital", shape=[-1, 1], dtype="int64")
        return [input_data, label_income, label_marital]

    def net(self, inputs, is_infer=False):
        input_data, label_income, label_marital = inputs
        model = MMoELayer(self.feature_size, self.expert_num, self.expert_size, self.tower_size, self.gate_num)
        pred_income, pred_marital = model.forward(input_data)

        pred_income_1 = paddle.slice(pred_income, axes=[1], starts=[1], ends=[2])
        pred_marital_1 = paddle.slice(pred_marital, axes=[1], starts=[1], ends=[2])
        auc_income, batch_auc_1, _ = paddle.static.auc(
            input=pred_income, label=paddle.cast(x=label_income, dtype="int64")
        )
        auc_marital, batch_auc_2, auc_states = paddle.static.auc(input=pred_marital, label=label_marital)
        self.inference_target_var = [pred_income, pred_marital]
        if is_infer:
            return {"auc_income": auc_income, "auc_marital": auc_marital}

        cost_income = F.log_loss(input=pred_income_1, label=paddle.cast(label_income, dtype="float32"))
        cost_marital = F.log_loss(input=pred_marital_1, label=paddle.cast(label_marital, dtype="float32"))
        avg_cost_income = paddle.mean(x=cost_income)
        avg_cost_marital = paddle.mean(x=cost_marital)
        cost = avg_cost_income + avg_cost_marital
        self.cost = cost
        return {
            "cost": cost,
            "auc_income": auc_income,
            "batch_auc_income": batch_auc_1,
            "auc_marital": auc_marital,
            "batch_auc_marital": batch_auc_2,
        }

    def create_optimizer(self, strategy=None):
        optimizer = paddle.optimizer.Adam(learning_rate=self.learning_rate, lazy_mode=True)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)

    def infer_net(self, inputs):
        return self.net(inputs, is_infer=True)
