import paddle
import paddle.nn.functional as F
from net import MMoELayer


class DygraphModel:
    def create_model(self, config):
        names = ("feature_size", "expert_num", "expert_size", "tower_size", "gate_num")
        return MMoELayer(*(config.get("hyper_parameters." + name) for name in names))

    def create_feeds(self, batch, config):
        return [paddle.to_tensor(each) for each in batch]

    def create_loss(self, pred, labels):
        total = 0
        for each, label in zip(pred, labels):
            clicked = paddle.slice(each, axes=[1], starts=[1], ends=[2])
            total = total + paddle.mean(F.log_loss(input=clicked, label=paddle.cast(label, "float32")))
        return total

    def create_optimizer(self, dy_model, config):
        rate = config.get("hyper_parameters.optimizer.learning_rate", 0.001)
        return paddle.optimizer.Adam(learning_rate=rate, parameters=dy_model.parameters())

    def create_metrics(self):
        return ["auc_income", "auc_marital"], [paddle.metric.Auc("ROC"), paddle.metric.Auc("ROC")]

    def train_forward(self, dy_model, metrics_list, batch, config):
        data, *labels = self.create_feeds(batch, config)
        pred = dy_model.forward(data)
        loss = self.create_loss(pred, labels)
        for metric, each, label in zip(metrics_list, pred, labels):
            metric.update(preds=each.numpy(), labels=label.numpy())
        return loss, metrics_list, {"loss": loss}
