import paddle


def deep_cross(sparse, dense, number, dim, cross_num, fc_sizes, l2, distributed):
    """Deep & cross from paddle.static's functions. Returns the logit and the cross layers' penalty."""

    def embedding(ids):
        table = paddle.ParamAttr(name="cross_embedding", initializer=paddle.nn.initializer.Constant(0.05))
        if distributed:
            rows = paddle.static.nn.sparse_embedding(input=ids, size=[number, dim], param_attr=table)
        else:
            rows = paddle.static.nn.embedding(input=ids, is_sparse=True, size=[number, dim], param_attr=table)
        return paddle.reshape(paddle.static.nn.sequence_pool(rows, pool_type="sum"), [-1, dim])

    x0 = paddle.concat([embedding(each) for each in sparse] + [dense], axis=1)
    width = x0.shape[1]
    assert width == dim * len(sparse) + dense.shape[-1]

    deep = x0
    for i, size in enumerate(fc_sizes):
        deep = paddle.static.nn.fc(
            x=deep,
            size=size,
            activation="relu",
            weight_attr=paddle.ParamAttr(initializer=paddle.nn.initializer.XavierUniform()),
            name="deep_%d" % i if i else None,
        )

    penalty, xl = [], x0
    for i in range(cross_num):
        with paddle.static.name_scope("cross_%d" % i):
            w = paddle.static.create_parameter([width, 1], "float32", name="cross_w_%d" % i)
            b = paddle.static.create_parameter(
                shape=[width], dtype="float32", is_bias=True, attr=paddle.ParamAttr(name="cross_b_%d" % i)
            )
            xl = x0 * paddle.matmul(xl, w) + b + xl
            penalty.append(paddle.sum(paddle.square(w)))
    logit = paddle.static.nn.fc([deep, xl], 1, bias_attr=False)
    return logit, l2 * paddle.add_n(penalty)
