import numpy as np
import paddle
import paddle.nn.functional as F
from net import WideDeepLayer


class DygraphModel:
    def create_model(self, config):
        return WideDeepLayer(
            config.get("hyper_parameters.sparse_feature_number"),
            config.get("hyper_parameters.sparse_feature_dim"),
            config.get("hyper_parameters.dense_input_dim"),
            config.get("hyper_parameters.sparse_inputs_slots") - 1,
            config.get("hyper_parameters.fc_sizes"),
            config.get("hyper_parameters.sparse"),
        )

    def create_feeds(self, batch_data, config):
        slots = config.get("hyper_parameters.sparse_inputs_slots")
        label = paddle.to_tensor(np.array(batch_data[0]).astype("int64"))
        sparse = [paddle.to_tensor(np.array(each).astype("int64")).reshape([-1, 1]) for each in batch_data[1:slots]]
        dense = paddle.to_tensor(np.array(batch_data[-1]).astype("float32").reshape(-1, 5))
        return label, sparse, dense

    def create_loss(self, pred, label):
        cost = F.log_loss(input=pred, label=paddle.cast(label, dtype="float32"))
        return paddle.mean(x=cost)

    def create_optimizer(self, dy_model, config):
        lr = config.get("hyper_parameters.optimizer.learning_rate", 0.001)
        return paddle.optimizer.Adam(learning_rate=lr, parameters=dy_model.parameters())

    def create_metrics(self):
        return ["auc"], [paddle.metric.Auc("ROC")]

    def train_forward(self, dy_model, metrics_list, batch_data, config):
        label, sparse, dense = self.create_feeds(batch_data, config)
        pred = dy_model.forward(sparse, dense)
        loss = self.create_loss(pred, label)
        predict_2d = paddle.concat(x=[1 - pred, pred], axis=1)
        metrics_list[0].update(preds=predict_2d.numpy(), labels=label.numpy())
        return loss, metrics_list, {"loss": loss}
