import paddle
import paddle.nn.functional as F
from net import AutoInt


class StaticModel:
    def __init__(self, config):
        self.h = {key.split(".", 1)[1]: value for key, value in config.items() if key.startswith("hyper_")}

    def create_feeds(self, is_infer=False):
        slots = self.h["slots"]
        self.inputs = [paddle.static.data(name="feat_index", shape=[None, slots], dtype="int64")]
        self.inputs.append(paddle.static.data(name="dense", shape=[None, self.h["dense_input_dim"]], dtype="float32"))
        self.inputs.append(paddle.static.data(name="label", shape=[None, 1], dtype="float32"))
        return self.inputs

    def net(self, inputs, is_infer=False):
        ids, dense, label = inputs
        h = self.h
        model = AutoInt(
            h["sparse_feature_number"], h["embedding_size"], h["dense_input_dim"], h["slots"], h["heads"], h["blocks"]
        )
        logits = model(ids, dense)
        self.predict = F.sigmoid(logits)
        loss = paddle.nn.BCEWithLogitsLoss(reduction="sum")(logits, label)
        self.cost = loss / paddle.cast(paddle.shape(label)[0], "float32")
        two = paddle.concat([1 - self.predict, self.predict], axis=1)
        auc, batch_auc, _ = paddle.static.auc(two, paddle.cast(label, "int64"), num_thresholds=1023)
        top = paddle.max(self.predict) - paddle.min(self.predict)
        return {"loss": self.cost, "auc": auc, "batch_auc": batch_auc, "range": top}

    def create_optimizer(self, strategy=None):
        decay = paddle.optimizer.lr.CosineAnnealingDecay(learning_rate=self.h["optimizer.learning_rate"], T_max=10)
        self.lr = paddle.optimizer.lr.LinearWarmup(
            learning_rate=decay, warmup_steps=5, start_lr=0.0, end_lr=self.h["optimizer.learning_rate"]
        )
        optimizer = paddle.optimizer.AdamW(
            learning_rate=self.lr,
            beta1=0.9,
            weight_decay=0.01,
            apply_decay_param_fun=lambda name: "norm" not in name and not name.endswith(".b_0"),
            grad_clip=paddle.nn.ClipGradByValue(max=0.5, min=-0.5),
        )
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        return optimizer.minimize(self.cost)

    def after_step(self):
        self.lr.step()
