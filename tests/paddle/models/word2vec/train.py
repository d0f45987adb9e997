"""python train.py --data_dir DATA [--sparse]: trains, prints each loss, and finds analogies."""

import argparse
import os
import sys

import numpy as np
import paddle
import paddle.fluid as fluid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from net import infer_network, skip_gram_word2vec  # noqa: E402
from reader import Word2VecReader  # noqa: E402


def parse_args():
    parser = argparse.ArgumentParser(description="word2vec")
    parser.add_argument("--data_dir", default="data")
    parser.add_argument("--dict_size", type=int, default=30)
    parser.add_argument("--embedding_size", type=int, default=8)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--base_lr", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--sparse", action="store_true")
    return parser.parse_args()


def set_first_values(scope, place, dict_size, embedding_size):
    random = np.random.RandomState(3)
    for name in ("emb", "emb_w"):
        value = random.uniform(-0.3, 0.3, [dict_size, embedding_size]).astype("float32")
        scope.find_var(name).get_tensor().set(value, place)


def main():
    args = parse_args()
    place = fluid.CPUPlace()
    train_program, startup_program = fluid.Program(), fluid.Program()
    with fluid.program_guard(train_program, startup_program):
        with fluid.unique_name.guard():
            loss, py_reader = skip_gram_word2vec(args.dict_size, args.embedding_size, args.sparse)
            optimizer = fluid.optimizer.SGD(
                learning_rate=fluid.layers.exponential_decay(
                    learning_rate=args.base_lr, decay_steps=5, decay_rate=0.9, staircase=True
                )
            )
            optimizer.minimize(loss)

    exe = fluid.Executor(place)
    exe.run(startup_program)
    if not args.sparse:
        set_first_values(fluid.global_scope(), place, args.dict_size, args.embedding_size)

    reader = Word2VecReader(os.path.join(args.data_dir, "part-0"), args.dict_size)
    batched = paddle.batch(reader.train(), batch_size=args.batch_size, drop_last=True)
    py_reader.decorate_sample_list_generator(batched)
    step = 0
    for pass_id in range(3):
        py_reader.start()
        try:
            while step < args.steps:
                (loss_val,) = exe.run(program=train_program, fetch_list=[loss.name])
                print("TRAIN --> pass: {} batch_num: {} avg_cost: {:.9f}".format(pass_id, step, float(np.mean(loss_val))))
                step += 1
        except fluid.core.EOFException:
            pass
        finally:
            py_reader.reset()

    if args.sparse:
        return
    test_program = fluid.Program()
    with fluid.program_guard(test_program, fluid.Program()), fluid.unique_name.guard():
        values, pred = infer_network(args.dict_size, args.embedding_size)
    found = exe.run(
        test_program,
        feed={
            "analogy_a": np.array([1, 2], "int64"),
            "analogy_b": np.array([3, 4], "int64"),
            "analogy_c": np.array([5, 6], "int64"),
            "all_label": np.arange(args.dict_size).astype("int64"),
        },
        fetch_list=[values, pred],
        return_numpy=False,
    )
    print("nearest:", np.array(found[0]).tolist(), np.array(found[1]).tolist())
    fluid.io.save_persistables(exe, dirname="model_w2v", main_program=train_program)


if __name__ == "__main__":
    main()
