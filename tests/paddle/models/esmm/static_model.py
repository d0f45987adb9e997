import paddle
from net import ESMM


class StaticModel:
    def __init__(self, config):
        self.cost = None
        self.config = config
        get = config.get
        self.vocab_size = get("hyper_parameters.vocab_size")
        self.embed_size = get("hyper_parameters.embed_size")
        self.ctr_fc_sizes = get("hyper_parameters.ctr_fc_sizes")
        self.cvr_fc_sizes = get("hyper_parameters.cvr_fc_sizes")
        self.learning_rate = get("hyper_parameters.optimizer.learning_rate")
        self.distributed = get("hyper_parameters.distributed_embedding", False)
        self.slots = ["slot_%d" % i for i in range(get("hyper_parameters.slots"))]

    def create_feeds(self, is_infer=False):
        inputs = [
            paddle.static.data(name=name, shape=[-1, 1], dtype="int64", lod_level=1) for name in self.slots
        ]
        label_ctr = paddle.static.data(name="ctr", shape=[-1, 1], dtype="int64")
        label_cvr = paddle.static.data(name="cvr", shape=[-1, 1], dtype="int64")
        return inputs + [label_ctr, label_cvr]

    def net(self, inputs, is_infer=False):
        model = ESMM(self.vocab_size, self.embed_size, self.ctr_fc_sizes, self.cvr_fc_sizes, self.distributed)
        ctr_out, ctr_out_one, cvr_out, cvr_out_one, ctcvr_out, ctcvr_one = model.forward(inputs[:-2])
        ctr_clk, ctcvr_buy = inputs[-2], inputs[-1]

        auc_ctr, batch_auc_ctr, auc_states_ctr = paddle.static.auc(input=ctr_out, label=ctr_clk)
        auc_ctcvr, batch_auc_ctcvr, auc_states_ctcvr = paddle.static.auc(
            input=ctcvr_out, label=ctcvr_buy, num_thresholds=2**12, slide_steps=20
        )
        self.inference_target_var = [ctr_out_one, ctcvr_one]
        if is_infer:
            return {"auc_ctr": auc_ctr, "auc_ctcvr": auc_ctcvr}

        loss_ctr = paddle.nn.functional.log_loss(input=ctr_out_one, label=paddle.cast(ctr_clk, dtype="float32"))
        loss_ctcvr = paddle.nn.functional.log_loss(input=ctcvr_one, label=paddle.cast(ctcvr_buy, dtype="float32"))
        cost = loss_ctr + loss_ctcvr
        avg_cost = paddle.mean(x=cost)
        self.cost = avg_cost

        # How many samples were seen, kept from run to run.
        seen = paddle.static.create_global_var(
            name="samples_seen", shape=[1], value=0, dtype="float32", persistable=True
        )
        batch = paddle.cast(paddle.shape(ctr_clk)[0:1], "float32")
        paddle.assign(seen + batch, output=seen)
        self.seen = seen
        return {"cost": avg_cost, "auc_ctr": auc_ctr, "auc_ctcvr": auc_ctcvr, "batch_auc_ctcvr": batch_auc_ctcvr}

    def create_optimizer(self, strategy=None):
        clip = paddle.nn.ClipGradByGlobalNorm(clip_norm=1.0)
        optimizer = paddle.optimizer.SGD(learning_rate=self.learning_rate, grad_clip=clip)
        if strategy is not None:
            import paddle.distributed.fleet as fleet

            optimizer = fleet.distributed_optimizer(optimizer, strategy)
        optimizer.minimize(self.cost)

    def infer_net(self, inputs):
        return self.net(inputs, is_infer=True)
