"""The names that scripts use, by the module where they look for them. Neither the reference nor flota is imported."""

from __future__ import annotations

_NAMES = {
    "paddle": """
        CPUPlace CUDAPlace ParamAttr Tensor abs add add_n all any arange argmax argmin argsort assign batch bmm
        broadcast_to cast ceil chunk clip concat create_parameter cumsum disable_static divide dot einsum enable_static
        equal equal_all exp expand expand_as flatten flip floor floor_divide full full_like gather gather_nd
        get_default_dtype get_device get_flags get_rng_state grad greater_equal greater_than in_dynamic_mode increment
        index_sample index_select is_compiled_with_cuda is_compiled_with_custom_device is_compiled_with_xpu
        is_grad_enabled isfinite isinf isnan less_equal less_than linspace load log log1p logical_and logical_not
        logical_or logical_xor logsumexp masked_fill masked_select matmul max maximum mean meshgrid min minimum mm mod
        multiply mv nan_to_num no_grad nonzero norm normal not_equal numel ones ones_like outer pow prod rand randint
        randn randperm reciprocal remainder repeat_interleave reshape roll round rsqrt save scale scatter scatter_nd_add
        seed set_default_dtype set_device set_flags set_grad_enabled set_printoptions set_rng_state shape sign sin slice
        sort split sqrt square squeeze stack standard_normal std strided_slice subtract sum summary t take_along_axis
        tanh tile to_tensor topk transpose tril triu unbind uniform unique unsqueeze unstack var where zeros zeros_like
    """,
    "paddle.static": """
        Executor Print Program Variable accuracy auc cpu_places create_global_var create_parameter data
        default_main_program default_startup_program device_guard exponential_decay global_scope load
        load_inference_model name_scope normalize_program program_guard save save_inference_model scope_guard
    """,
    "paddle.static.nn": """
        batch_norm continuous_value_model conv2d embedding fc layer_norm prelu sequence_concat sequence_expand_as
        sequence_first_step sequence_last_step sequence_pad sequence_pool sequence_reverse sequence_softmax
        sequence_unpad sparse_embedding
    """,
    "paddle.utils": "try_import unique_name",
    "paddle.utils.unique_name": "generate guard switch",
    "paddle.nn": """
        AdaptiveAvgPool1D AdaptiveAvgPool2D AvgPool1D AvgPool2D BCELoss BCEWithLogitsLoss BatchNorm BatchNorm1D
        BatchNorm2D CELU ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue Conv1D Conv2D CosineEmbeddingLoss
        CosineSimilarity CrossEntropyLoss Dropout ELU Embedding Flatten GELU GLU GRU GRUCell Hardsigmoid Hardswish
        Hardtanh HingeEmbeddingLoss Identity KLDivLoss L1Loss LSTM LSTMCell Layer LayerDict LayerList LayerNorm
        LeakyReLU Linear LogSigmoid LogSoftmax MSELoss MarginRankingLoss MaxPool1D MaxPool2D Maxout Mish NLLLoss PReLU
        Pad1D Pad2D PairwiseDistance ParameterList RNN ReLU ReLU6 SELU Sequential Sigmoid Silu SimpleRNN SmoothL1Loss
        Softmax Softplus Softshrink Softsign Swish Tanh ThresholdedReLU TripletMarginLoss
    """,
    "paddle.nn.initializer": """
        Assign Constant KaimingNormal KaimingUniform Normal TruncatedNormal Uniform XavierNormal XavierUniform
        calculate_gain
    """,
    "paddle.nn.functional": """
        adaptive_avg_pool2d avg_pool1d avg_pool2d batch_norm bilinear binary_cross_entropy
        binary_cross_entropy_with_logits celu conv1d conv2d cosine_embedding_loss cosine_similarity cross_entropy
        diag_embed dropout elu embedding gelu glu gumbel_softmax hardsigmoid hardtanh kl_div l1_loss label_smooth
        layer_norm leaky_relu linear log_loss log_sigmoid log_softmax margin_ranking_loss max_pool1d max_pool2d maxout
        mse_loss nll_loss normalize npair_loss one_hot pad pairwise_distance prelu relu relu6 sequence_mask sigmoid
        sigmoid_focal_loss silu smooth_l1_loss softmax softmax_with_cross_entropy softplus softsign square_error_cost
        swish tanh triplet_margin_loss
    """,
    "paddle.optimizer": "SGD Adagrad Adam AdamW Adamax Ftrl Lamb Momentum Optimizer RMSProp lr",
    "paddle.optimizer.lr": """
        CosineAnnealingDecay ExponentialDecay InverseTimeDecay LRScheduler LambdaDecay LinearWarmup MultiStepDecay
        NaturalExpDecay NoamDecay PiecewiseDecay PolynomialDecay ReduceOnPlateau StepDecay
    """,
    "paddle.regularizer": "L1Decay L2Decay",
    "paddle.metric": "Accuracy Auc",
    "paddle.io": "BatchSampler DataLoader Dataset IterableDataset",
    "paddle.reader": "shuffle",
    "paddle.distributed": "InMemoryDataset QueueDataset fleet",
    "paddle.distributed.fleet": """
        DistributedStrategy MultiSlotDataGenerator MultiSlotStringDataGenerator PaddleCloudRoleMaker Role
        UserDefinedRoleMaker barrier_worker distributed_optimizer init init_server init_worker is_first_worker is_server
        is_worker load_model run_server save_inference_model save_persistables server_endpoints server_index server_num
        stop_worker util worker_endpoints worker_index worker_num
    """,
    "paddle.distributed.fleet.base.distributed_strategy": "DistributedStrategy",
    "paddle.distributed.fleet.base.role_maker": "PaddleCloudRoleMaker Role UserDefinedRoleMaker",
    "paddle.fluid": """
        BuildStrategy CPUPlace CUDAPlace CompiledProgram DataFeeder DatasetFactory ExecutionStrategy Executor
        FetchHandler LoDTensor ParallelExecutor ParamAttr Program clip compiler core create_lod_tensor
        create_random_int_lodtensor data default_main_program default_startup_program dygraph embedding executor
        global_scope in_dygraph_mode initializer io is_compiled_with_cuda layers load metrics nets optimizer param_attr
        profiler program_guard regularizer save scope_guard unique_name
    """,
    "paddle.fluid.layers": """
        Print accuracy assign auc autoincreased_step_counter bilinear_tensor_product bpr_loss brelu cast clip_by_norm
        concat cos_sim create_global_var create_parameter cross_entropy data dynamic_gru dynamic_lstm elementwise_add
        elementwise_div elementwise_mul elementwise_sub embedding expand_as exponential_decay fc fill_constant
        fill_constant_batch_size_like hard_swish hsigmoid linear_lr_warmup lod_reset log_loss matmul mean mul nce
        one_hot pool2d reduce_max reduce_mean reduce_min reduce_sum relu reshape scale sequence_conv sequence_enumerate
        sequence_pool sequence_reshape sequence_slice sigmoid sigmoid_cross_entropy_with_logits size smooth_l1 softmax
        softmax_with_cross_entropy sqrt square square_error_cost stack sums tanh teacher_student_sigmoid_loss transpose
        uniform_random_batch_size_like
    """,
    "paddle.fluid.optimizer": "SGD SGDOptimizer Adagrad AdagradOptimizer Adam AdamOptimizer Momentum MomentumOptimizer",
    "paddle.fluid.transpiler.distribute_transpiler": "DistributeTranspilerConfig",
    "paddle.core": "EOFException",
    "paddle.fluid.core": "EOFException LoDTensor Scope get_cuda_device_count is_compiled_with_cuda",
    "paddle.common_ops_import": "core",
}

# Modules of names whose arguments scripts give by place or by name: these are the reference's, in its order.
WITH_ARGUMENTS = (
    "paddle",
    "paddle.static",
    "paddle.static.nn",
    "paddle.nn",
    "paddle.nn.initializer",
    "paddle.nn.functional",
    "paddle.optimizer",
    "paddle.optimizer.lr",
    "paddle.regularizer",
)

NAMES = {module: tuple(names.split()) for module, names in _NAMES.items()}
