"""The listings' models."""

import paddle


def ctr_dnn_model(dense_input, sparse_inputs, label, embedding_size, sparse_feature_dim):
    """Embeddings of one table, pooled, and fully connected layers."""
    table = paddle.ParamAttr(name="SparseFeatFactors", initializer=paddle.nn.initializer.Uniform(-0.05, 0.05))

    def embedding_layer(ids):
        rows = paddle.static.nn.embedding(
            ids, size=[sparse_feature_dim, embedding_size], is_sparse=True, param_attr=table
        )
        return paddle.reshape(paddle.static.nn.sequence_pool(rows, "sum"), [-1, embedding_size])

    layer = paddle.concat([embedding_layer(each) for each in sparse_inputs] + [dense_input], axis=1)
    for size in (400, 400, 400):
        layer = paddle.static.nn.fc(layer, size, activation="relu")
    predict = paddle.static.nn.fc(layer, 2, activation="softmax")
    cost = paddle.nn.functional.cross_entropy(predict, label, use_softmax=False)
    area, _, stats = paddle.static.auc(input=predict, label=label, num_thresholds=2**12, slide_steps=20)
    return paddle.mean(cost), area, stats
