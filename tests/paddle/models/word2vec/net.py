"""Skip-gram with negative sampling, in the words of 1.x."""

import math

import paddle.fluid as fluid


def skip_gram_word2vec(dict_size, embedding_size, is_sparse=False, neg_num=5):
    input_word = fluid.layers.data(name="input_word", shape=[1], dtype="int64")
    true_word = fluid.layers.data(name="true_label", shape=[1], dtype="int64")
    neg_word = fluid.layers.data(name="neg_label", shape=[neg_num], dtype="int64")
    reader = fluid.io.PyReader(
        feed_list=[input_word, true_word, neg_word], capacity=64, iterable=False, use_double_buffer=True
    )

    init_width = 0.5 / embedding_size
    input_emb = fluid.layers.embedding(
        input=input_word,
        is_sparse=is_sparse,
        size=[dict_size, embedding_size],
        param_attr=fluid.ParamAttr(name="emb", initializer=fluid.initializer.Uniform(-init_width, init_width)),
    )
    scale = 1.0 / math.sqrt(embedding_size)
    true_emb_w = fluid.layers.embedding(
        input=true_word,
        is_sparse=is_sparse,
        size=[dict_size, embedding_size],
        param_attr=fluid.ParamAttr(
            name="emb_w", initializer=fluid.initializer.TruncatedNormal(loc=0.0, scale=scale)
        ),
    )
    true_emb_b = fluid.layers.embedding(
        input=true_word,
        is_sparse=is_sparse,
        size=[dict_size, 1],
        param_attr=fluid.ParamAttr(name="emb_b", initializer=fluid.initializer.ConstantInitializer(value=0.0)),
    )
    neg_word_reshape = fluid.layers.reshape(neg_word, shape=[-1, 1])
    neg_word_reshape.stop_gradient = True

    neg_emb_w = fluid.layers.embedding(
        input=neg_word_reshape,
        is_sparse=is_sparse,
        size=[dict_size, embedding_size],
        param_attr=fluid.ParamAttr(name="emb_w", learning_rate=1.0),
    )
    neg_emb_w_re = fluid.layers.reshape(neg_emb_w, shape=[-1, neg_num, embedding_size])
    neg_emb_b = fluid.layers.embedding(
        input=neg_word_reshape,
        is_sparse=is_sparse,
        size=[dict_size, 1],
        param_attr=fluid.ParamAttr(name="emb_b", learning_rate=1.0),
    )
    neg_emb_b_vec = fluid.layers.reshape(neg_emb_b, shape=[-1, neg_num])

    true_logits = fluid.layers.elementwise_add(
        fluid.layers.reduce_sum(fluid.layers.elementwise_mul(input_emb, true_emb_w), dim=1, keep_dim=True),
        true_emb_b,
    )
    input_emb_re = fluid.layers.reshape(input_emb, shape=[-1, 1, embedding_size])
    neg_matmul = fluid.layers.matmul(input_emb_re, neg_emb_w_re, transpose_y=True)
    neg_matmul_re = fluid.layers.reshape(neg_matmul, shape=[-1, neg_num])
    neg_logits = fluid.layers.elementwise_add(neg_matmul_re, neg_emb_b_vec)

    label_ones = fluid.layers.fill_constant_batch_size_like(true_logits, shape=[-1, 1], value=1.0, dtype="float32")
    label_zeros = fluid.layers.fill_constant_batch_size_like(
        true_logits, shape=[-1, neg_num], value=0.0, dtype="float32"
    )
    true_xent = fluid.layers.sigmoid_cross_entropy_with_logits(true_logits, label_ones)
    neg_xent = fluid.layers.sigmoid_cross_entropy_with_logits(neg_logits, label_zeros)
    cost = fluid.layers.elementwise_add(
        fluid.layers.reduce_sum(true_xent, dim=1), fluid.layers.reduce_sum(neg_xent, dim=1)
    )
    return fluid.layers.reduce_mean(cost), reader


def infer_network(vocab_size, emb_size):
    """What is to c as b is to a: the nearest words by the cosine."""
    analogy_a = fluid.data(name="analogy_a", shape=[None], dtype="int64")
    analogy_b = fluid.data(name="analogy_b", shape=[None], dtype="int64")
    analogy_c = fluid.data(name="analogy_c", shape=[None], dtype="int64")
    all_label = fluid.data(name="all_label", shape=[vocab_size], dtype="int64")
    emb_all = fluid.embedding(input=all_label, size=[vocab_size, emb_size], param_attr="emb")
    emb_a, emb_b, emb_c = [
        fluid.embedding(input=word, size=[vocab_size, emb_size], param_attr="emb")
        for word in (analogy_a, analogy_b, analogy_c)
    ]
    target = fluid.layers.elementwise_add(fluid.layers.elementwise_sub(emb_b, emb_a), emb_c)
    emb_all_l2 = fluid.layers.l2_normalize(x=emb_all, axis=1)
    dist = fluid.layers.matmul(x=target, y=emb_all_l2, transpose_y=True)
    values, pred_idx = fluid.layers.topk(input=dist, k=4)
    return values, pred_idx
