"""Writes golden/fluid.json: what release 2.6.2's operations compute behind 1.x's layers, with gradients.

Run it in an environment with paddlepaddle==2.6.2 "protobuf<5" "numpy<2".
"""

import json
from pathlib import Path

import numpy as np
from paddle.base.layer_helper import LayerHelper

import paddle

LENGTHS = [3, 1, 2]  # of the sequences
HIDDEN = 2


def computed(kind, inputs, attributes, outputs, lengths=LENGTHS):
    """``inputs``: by slot, an array, or a pair of "sequences" and one. ``outputs``: the slots that are made, the first
    of which is differentiated; the ones in capitals are the operation's own business."""
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        variables, feed = {}, {}
        for slot, given in inputs.items():
            sequences = isinstance(given, tuple)
            array = given[1] if sequences else given
            shape = [-1, *array.shape[1:]] if sequences else list(array.shape)
            made = paddle.static.data(slot, shape, str(array.dtype), lod_level=int(sequences))
            made.stop_gradient = array.dtype != np.float32 or slot == "Label"
            variables[slot] = made
            feed[slot] = paddle.base.create_lod_tensor(array, [lengths], paddle.CPUPlace()) if sequences else array
        helper = LayerHelper(kind)
        results = {slot: helper.create_variable_for_type_inference("float32") for slot in outputs}
        helper.append_op(
            type=kind,
            inputs={slot: [each] for slot, each in variables.items()},
            outputs={slot: [each] for slot, each in results.items()},
            attrs=attributes,
        )
        wanted = [results[slot] for slot, told in outputs.items() if told]
        trained = {slot: each for slot, each in variables.items() if not each.stop_gradient}
        gradients = paddle.static.gradients([paddle.sum(wanted[0])], list(trained.values()))
        found = paddle.static.Executor().run(program, feed, [*wanted, *gradients], return_numpy=False)
    lists = [np.array(each).astype("float64").round(7).tolist() for each in found]
    return {
        "inputs": {slot: (g[1] if isinstance(g, tuple) else g).tolist() for slot, g in inputs.items()},
        "lengths": lengths,
        "lod": found[0].lod(),
        "outputs": lists[: len(wanted)],
        "gradients": dict(zip(trained, lists[len(wanted) :], strict=True)),
    }


def main():
    paddle.enable_static()
    random = np.random.RandomState(3)

    def numbers(*shape):
        return random.uniform(-1, 1, shape).astype("float32").round(3)

    count, cases = sum(LENGTHS), {}
    first = {"H0": numbers(len(LENGTHS), HIDDEN)}
    gru = {"Input": ("sequences", numbers(count, 3 * HIDDEN)), "Weight": numbers(HIDDEN, 3 * HIDDEN)}
    gru |= {"Bias": numbers(1, 3 * HIDDEN), **first}
    for reverse, origin in ((False, False), (True, True)):
        attributes = {"is_reverse": reverse, "origin_mode": origin, "gate_activation": "sigmoid", "activation": "tanh"}
        slots = {"Hidden": True, "BatchGate": False, "BatchResetHiddenPrev": False, "BatchHidden": False}
        cases[f"gru reverse={reverse} origin={origin}"] = computed("gru", gru, attributes, slots)
    first["C0"] = numbers(len(LENGTHS), HIDDEN)
    for peepholes, reverse in ((True, False), (False, True)):
        lstm = {"Input": ("sequences", numbers(count, 4 * HIDDEN)), "Weight": numbers(HIDDEN, 4 * HIDDEN)}
        lstm |= {"Bias": numbers(1, (7 if peepholes else 4) * HIDDEN), **first}
        attributes = {"use_peepholes": peepholes, "is_reverse": reverse}
        slots = {"Hidden": True, "Cell": True, "BatchGate": False, "BatchCellPreAct": False}
        cases[f"lstm peepholes={peepholes} reverse={reverse}"] = computed("lstm", lstm, attributes, slots)
    for start in (-1, 0):
        conv = {"X": ("sequences", numbers(count, 2)), "Filter": numbers(6, 3)}
        attributes = {"contextStart": start, "contextLength": 3, "contextStride": 1}
        cases[f"conv start={start}"] = computed("sequence_conv", conv, attributes, {"Out": True})
    parts = {
        "X": ("sequences", numbers(count, 2)),
        "Offset": np.array([[1], [0], [0]]),
        "Length": np.array([[2], [1], [1]]),
    }
    cases["slice"] = computed("sequence_slice", parts, {}, {"Out": True})
    whole = {"X": ("sequences", numbers(count, 2))}
    cases["reshape"] = computed("sequence_reshape", whole, {"new_dim": 4}, {"Out": True}, [2, 4])
    cases["reset"] = computed("lod_reset", whole, {"target_lod": [0, 4, 6]}, {"Out": True})
    taught = {
        "X": np.array([[0.5], [-1.0], [2.0], [-0.3], [20.0], [-18.0]], "float32"),
        "Label": np.array([[-2.0], [-1.0], [0.3], [1.7], [-2.0], [1.2]], "float32"),
    }
    cases["taught"] = computed("teacher_student_sigmoid_loss", taught, {}, {"Y": True})
    noise = {"Input": numbers(3, 2), "Label": np.array([[3], [0], [7]]), "Weight": numbers(8, 2), "Bias": numbers(8, 1)}
    attributes = {"num_total_classes": 8, "num_neg_samples": 2, "sampler": 0, "custom_neg_classes": [4, 6]}
    slots = {"Cost": True, "SampleLogits": False, "SampleLabels": False}
    cases["nce"] = computed("nce", noise, attributes, slots)
    # Of 8 classes all paths are equally long.
    tree = {"X": numbers(3, 2), "Label": np.array([[3], [0], [7]]), "W": numbers(7, 2), "Bias": numbers(7, 1)}
    slots = {"Out": True, "PreOut": False, "W_Out": False}
    cases["tree"] = computed("hierarchical_sigmoid", tree, {"num_classes": 8, "is_sparse": False}, slots)
    path = Path(__file__).parent / "golden" / "fluid.json"
    path.write_text(json.dumps(cases) + "\n")


if __name__ == "__main__":
    main()
