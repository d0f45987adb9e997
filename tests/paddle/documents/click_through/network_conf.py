"""The model that the listing leaves out: embeddings of one table, pooled, and fully connected layers."""

import paddle


def ctr_dnn_model_dataset(dense_input, sparse_input_ids, label, embedding_size, sparse_feature_dim):
    table = paddle.ParamAttr(name="SparseFeatFactors", initializer=paddle.nn.initializer.Uniform(-0.1, 0.1))

    def embedding_layer(ids):
        rows = paddle.static.nn.embedding(
            ids, size=[sparse_feature_dim, embedding_size], is_sparse=True, param_attr=table
        )
        return paddle.reshape(paddle.static.nn.sequence_pool(rows, "sum"), [-1, embedding_size])

    layer = paddle.concat([*map(embedding_layer, sparse_input_ids), dense_input], axis=1)
    for size in (64, 64):
        layer = paddle.static.nn.fc(layer, size, activation="relu")
    predict = paddle.static.nn.fc(layer, 2, activation="softmax")
    cost = paddle.nn.functional.cross_entropy(predict, label, use_softmax=False)
    auc_var, batch_auc_var, _ = paddle.static.auc(input=predict, label=label, num_thresholds=2**12, slide_steps=20)
    return paddle.mean(cost), auc_var, batch_auc_var
