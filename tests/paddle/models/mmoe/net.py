"""Multi-gate mixture of experts: two tasks share experts, and each mixes them by a gate of its own."""

import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F


def uniform(limit):
    return nn.initializer.Uniform(low=-limit, high=limit)


class MMoELayer(nn.Layer):
    def __init__(self, feature_size, expert_num, expert_size, tower_size, gate_num):
        super().__init__()
        self.expert_num = expert_num
        self.expert_size = expert_size
        self.tower_size = tower_size
        self.gate_num = gate_num

        self._param_expert = []
        for i in range(0, self.expert_num):
            linear = self.add_sublayer(
                name="expert_" + str(i),
                sublayer=nn.Linear(
                    feature_size,
                    expert_size,
                    weight_attr=nn.initializer.Constant(value=0.1),
                    bias_attr=nn.initializer.Constant(value=0.1),
                    name="expert_" + str(i),
                ),
            )
            self._param_expert.append(linear)

        self._param_gate, self._param_tower, self._param_tower_out = [], [], []
        for i in range(0, self.gate_num):
            linear = self.add_sublayer(
                name="gate_" + str(i),
                sublayer=nn.Linear(
                    feature_size,
                    expert_num,
                    weight_attr=paddle.ParamAttr(initializer=uniform(math.sqrt(6.0 / (feature_size + expert_num)))),
                    bias_attr=False,
                    name="gate_" + str(i),
                ),
            )
            self._param_gate.append(linear)
            self._param_tower.append(self.add_sublayer("tower_%d" % i, nn.Linear(expert_size, tower_size)))
            self._param_tower_out.append(
                self.add_sublayer(
                    "tower_out_%d" % i,
                    nn.Linear(tower_size, 2, weight_attr=paddle.ParamAttr(name="tower_out_%d.weight" % i)),
                )
            )

    def forward(self, input_data):
        experts = [F.relu(expert(input_data)) for expert in self._param_expert]
        expert_concat = paddle.concat(x=experts, axis=1)
        expert_concat = paddle.reshape(expert_concat, [-1, self.expert_num, self.expert_size])

        output_layers = []
        for i in range(0, self.gate_num):
            cur_gate = F.softmax(self._param_gate[i](input_data))
            cur_gate = paddle.reshape(cur_gate, [-1, self.expert_num, 1])
            cur_gate_expert = paddle.multiply(x=expert_concat, y=cur_gate)
            cur_gate_expert = paddle.sum(x=cur_gate_expert, axis=1)
            cur_tower = F.relu(self._param_tower[i](cur_gate_expert))
            out = F.softmax(self._param_tower_out[i](cur_tower))
            out_clip = paddle.clip(out, min=1e-15, max=1.0 - 1e-15)
            output_layers.append(out_clip)
        return output_layers
